// Package bench measures a running daemon from outside: `make bench`. The
// figures are of the real binary, real TCP checks, and what a BGP neighbour
// read from its socket.
package bench
