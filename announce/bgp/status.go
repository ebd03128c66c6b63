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
	Exported    int       `json:"exported"` // routes it was sent in this session
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
