// Package bfd speaks Bidirectional Forwarding Detection with the routers: the
// asynchronous mode of RFC 5880 over UDP, single-hop (RFC 5881, port 3784) and
// multihop (RFC 5883, port 4784), IPv4 and IPv6. Echo and demand mode are not
// used; a peer that asks for demand mode is obeyed.
//
// # What it promises
//
// A session tells the router that rhid decides, not that a process exists: a
// packet is sent only while the function Alive that the Speaker was given says
// so. The kernel stops a process that is frozen, and Alive stops one whose event
// loop hangs; the router takes its routes out after its detection time, a few
// hundred milliseconds, where BGP needs its hold time.
//
// A peer is called down only after everything that has arrived was read.
// Reading and the timers work under one lock, and a timer that finds a detection
// time over first empties the sockets. So a process that was held up itself does
// not take that for the peer's silence.
//
// A planned end is not a failure: Stop, and Configure for a peer that is gone,
// send AdminDown until the peer has answered, and AdminDown from a peer ends the
// session without a call of Down (RFC 5882, 3.2).
//
// # How packets find their session
//
// By the discriminator that rhid gave the session, and where the peer does not
// know that yet by the peer's address. Either way the source address must be the
// peer's, and the TTL 255 on the single-hop port (RFC 5881, 5; GTSM) and at least
// Peer.MinTTL on the other.
//
// With HopsAuto the session uses the port on which the router speaks. Routers
// differ: FRR opens a multihop session to a neighbour on the link that has
// ttl-security, BIRD a single-hop one.
package bfd
