package bgp

import (
	"fmt"
	"net/netip"
	"time"

	"rhid/announce"
)

// wantedPlace is the state at n of a route that is in the table.
func (n *neighbour) wantedPlace(p netip.Prefix, e *entry, allowed bool) announce.Place {
	pending := func(since time.Time, why string) announce.Place {
		return announce.Place{Name: n.place, State: announce.Pending, Why: why, Since: since}
	}
	v4 := p.Addr().Is4()
	if why := n.cannotExport(v4, allowed); why != "" {
		return pending(e.at, why)
	}
	if !n.established() {
		return pending(n.downSince(e.at), n.notEstablished())
	}
	sum := e.sum(n)
	sent, told := n.sent[p]
	switch {
	case told && sent.sum == sum && n.listed != nil && sent.at.Before(n.listedAt) && !n.listed[p]:
		return pending(n.listedAt, "GoBGP's Adj-RIB-Out does not have it")
	case told && sent.sum == sum:
		return announce.Place{Name: n.place, State: announce.Present, Since: sent.at}
	case n.learnt && !n.negotiated(v4):
		return pending(n.up, "family "+familyName(v4)+" not negotiated")
	case n.learnt && n.conf.plan(v4).extended && !n.extended:
		return pending(n.up, "the neighbour does not take IPv6 next hops for IPv4 routes (RFC 8950)")
	case told:
		return pending(e.at, "the UPDATE with the present attributes is not written yet")
	default:
		return pending(later(e.at, n.up), "the UPDATE is not written yet")
	}
}

// mayHave says whether n was told p and has not confirmed the withdraw.
func (n *neighbour) mayHave(p netip.Prefix) bool {
	_, sent := n.sent[p]
	_, left := n.left[p]
	_, stale := n.stale[p]
	return sent || left || stale
}

// cannotExport says why a route can never go to n as things are configured.
func (n *neighbour) cannotExport(v4, allowed bool) string {
	switch {
	case !allowed:
		return "rejected by the export filter: not a configured VIP"
	case !n.conf.takes(v4):
		return "family " + familyName(v4) + " not configured"
	case !v4 && n.conf.plan(false).missing:
		return "no IPv6 next hop on an IPv4 session: set next_hop6"
	default:
		return ""
	}
}

// unwantedPlace is the state at n of a route that is not in the table.
func (n *neighbour) unwantedPlace(p netip.Prefix, removed time.Time) announce.Place {
	place := announce.Place{Name: n.place, State: announce.Gone, Since: removed}
	if sent, ok := n.sent[p]; ok {
		place.State, place.Since = announce.Leaving, later(removed, sent.at)
		place.Why = "the withdraw is not written yet"
	} else if l, ok := n.left[p]; ok {
		place.State, place.Since = announce.Unconfirmed, l.at
		place.Why = "withdraw sent, and nothing was heard from the neighbour since"
	} else if at, ok := n.stale[p]; ok {
		place.State, place.Since = announce.Unconfirmed, at
		place.Why = fmt.Sprintf("session lost (%s) before the withdraw was confirmed; the router keeps the route until it notices", n.endedText())
	}
	return place
}

// notEstablished says why there is no session.
func (n *neighbour) notEstablished() string {
	if n.down == nil {
		return "session not established: " + n.state
	}
	return "session not established: " + n.down.Text
}

func (n *neighbour) endedText() string {
	if n.ended == nil {
		return "unknown reason"
	}
	return n.ended.Text
}

// downSince is since when a route added at t waits for the session.
func (n *neighbour) downSince(t time.Time) time.Time {
	if n.ended == nil {
		return t
	}
	return later(t, n.ended.At)
}

func (n *neighbour) negotiated(v4 bool) bool {
	if v4 {
		return n.has4
	}
	return n.has6
}

func familyName(v4 bool) string {
	if v4 {
		return "ipv4"
	}
	return "ipv6"
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
