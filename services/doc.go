// Package services decides which node announces which service. Decide is a
// pure function over what is known of all nodes; Readiness (see Tracker) is
// what a node says of itself. Neither touches a clock or the network: times
// are given.
//
// Start reading at decide.go.
package services
