package bgp

import (
	"time"
)

// NeighbourStatus is what people want to know of a session. Messages are
// counted since Start, a flap is an established session that ended.
type NeighbourStatus struct {
	Name        string    `json:"name"`
	Address     string    `json:"address"`
	ASN         uint32    `json:"asn"`
	State       string    `json:"state"` // idle, active, opensent, openconfirm, established
	Since       time.Time `json:"since"`
	LastDown    *Down     `json:"last_down,omitempty"` // why there is no session, or why the last one ended
	HoldSeconds int       `json:"hold_seconds,omitempty"`
	Families    []string  `json:"families"` // negotiated
	Missing     []string  `json:"missing_families,omitempty"`
	Lacks       []string  `json:"lacks,omitempty"` // what its OPEN did not offer, in words
	Received    int       `json:"received"`        // prefixes it sent, of the family with more of them
	MaxReceived int       `json:"max_received"`    // above it the session is ended
	Exported    int       `json:"exported"`        // routes it was sent in this session
	Unconfirmed int       `json:"unconfirmed,omitempty"`
	MessagesIn  uint64    `json:"messages_in"`
	MessagesOut uint64    `json:"messages_out"`
	Flaps       int       `json:"flaps"`
}

// Neighbours returns the state of all sessions, sorted by address.
func (s *Speaker) Neighbours() []NeighbourStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]NeighbourStatus, 0, len(s.neighbours))
	for _, n := range s.neighbours {
		out = append(out, n.status())
	}
	return out
}

func (n *neighbour) status() NeighbourStatus {
	st := NeighbourStatus{
		Name: n.conf.Name, Address: n.place, ASN: n.conf.ASN, State: n.state, Since: n.since, LastDown: n.down,
		HoldSeconds: int(n.hold / time.Second), Families: []string{},
		Lacks: n.lacks(), Received: max(n.received4, n.received6), MaxReceived: n.conf.MaxPrefixes,
		Exported: len(n.sent), Unconfirmed: len(n.left) + len(n.stale),
		MessagesIn: n.heardOld + n.heard, MessagesOut: n.wroteOld + n.wrote, Flaps: n.flaps,
	}
	if n.established() {
		st.LastDown = n.ended
	}
	for _, v4 := range []bool{true, false} {
		configured := v4 && n.conf.IPv4 || !v4 && n.conf.IPv6
		switch {
		case n.negotiated(v4):
			st.Families = append(st.Families, familyName(v4))
		case configured && n.learnt:
			st.Missing = append(st.Missing, familyName(v4))
		}
	}
	return st
}

// lacks names what the neighbour did not offer for the present session.
func (n *neighbour) lacks() []string {
	if !n.established() || !n.learnt {
		return nil
	}
	var out []string
	for _, c := range []struct {
		missing bool
		name    string
	}{
		{n.conf.IPv4 && !n.has4, "family ipv4"},
		{n.conf.IPv6 && !n.has6, "family ipv6"},
		{n.conf.IPv4 && n.conf.plan(true).extended && !n.extended, "IPv6 next hops for IPv4 routes (RFC 8950)"},
		{!n.fourOctet, "4-octet AS numbers (RFC 6793)"},
		{!n.refresh, "route refresh (RFC 2918)"},
	} {
		if c.missing {
			out = append(out, c.name)
		}
	}
	return out
}
