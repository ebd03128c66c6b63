// Package readback asks the routing daemon beside rhid, FRR or BIRD, which VIPs
// it has in its OSPF database as its own. A kernel route is in the network only
// when it is there.
//
// Each process that is asked has a goroutine and a connection of its own, and
// one question under way. A process that is frozen does not hold up anybody: its
// last answer stands, with the time since when it is silent, and the answer that
// it gives when it goes on is news at once, because it was waited for.
//
// While something is other than expected, the question is asked often, at first
// every few ten milliseconds; else once in Settings.Interval. A question never
// takes more than about a tenth of the time, so that a large database does not
// keep a routing daemon from its work.
package readback
