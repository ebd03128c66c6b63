// Package bgp is the BGP target of the announcer: an embedded GoBGP speaker
// with sessions to the routers. It is the only importer of GoBGP.
//
// # What it promises
//
// Only configured VIPs leave. A global export policy has one statement for
// each neighbour and family, each limited to the prefix set of all VIPs and to
// local routes; everything else is rejected. Nothing received is installed or
// sent on: the import policy rejects it after the Adj-RIB-In, which stays
// readable and is limited to Neighbour.MaxPrefixes for each family (flood.go).
//
// A place is Present only when an UPDATE with exactly the wanted attributes was
// written to the session that is established now. GoBGP has no event for that;
// its debug message "sent update", which it logs after the write returned, is
// the one source, so the log bridge (bridge.go) is part of the machinery and
// not only of the output. A listing of the Adj-RIB-Out, made at most once a
// second, may contradict it and then wins.
//
// A withdraw is Leaving until it was written, Unconfirmed until a message of
// the neighbour was counted after that, and then Gone. A session that ends in
// between leaves Unconfirmed behind until the next one is established: a new
// session without graceful restart starts from an empty table (RFC 4271). A
// neighbour that ended the session itself, by NOTIFICATION, has dropped the
// routes.
//
// A message that was under way for longer than travelTime while the withdraw
// was written is taken for a confirmation.
//
// # What it cannot promise
//
// A panic in a goroutine of GoBGP ends the process. GoBGP v3.37.0 has some for
// malformed messages of a configured neighbour: a short Prefix-SID attribute,
// an empty AS_PATH from a confederation member, and, in an established session,
// an OPEN or a message of unknown type. TCP MD5 and TTL security keep strangers
// out; the supervisor starts rhid again.
//
// # Why sessions are deleted and added anew
//
// GoBGP v3 stays in Idle for five seconds after each loss of a session and
// closes what the router dials meanwhile. Run deletes and adds the neighbour
// at once, which gives a new state machine: it accepts the router's connection
// at once and dials after one to two seconds, GoBGP's own random delay.
//
// # How prepending is done for eBGP only
//
// GoBGP has no per-route action that differs between neighbours. The path in
// the global table carries the number of prepends in its next hop (0.0.0.n or
// 100::n, which no host has); an export statement for eBGP neighbours matches
// it and prepends, and each accepting statement then sets the real next hop,
// so the mark cannot leave the host.
//
// # Locks
//
// The bridge is called by GoBGP's goroutines with locks of GoBGP held. It takes
// Speaker.mu for a moment and never calls GoBGP. Nobody else calls GoBGP with
// Speaker.mu held.
package bgp
