package bgp

import (
	"context"
	"fmt"

	api "github.com/osrg/gobgp/v3/api"
)

// GoBGP keeps all that a neighbour sends. Its own limit of prefixes counts them
// all at every UPDATE, which takes a minute of processor time for 200,000, and
// holds up everybody's withdraws meanwhile. So rhid counts itself: what arrives
// brings the next look forward, and the look, which asks GoBGP for the numbers,
// ends the session.

// arrived counts paths that a neighbour sent or withdrew; more of them than the
// limit may mean more prefixes than the limit.
func (s *Speaker) arrived(place string, paths int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byKey[place]
	if n == nil || !n.established() {
		return
	}
	n.arrivals += paths
	if n.arrivals > n.conf.MaxPrefixes {
		n.arrivals = 0
		n.counted = false
		signal(s.wake)
	}
}

// endFloods ends the sessions of neighbours that sent too many prefixes.
func (s *Speaker) endFloods(ctx context.Context) {
	s.mu.Lock()
	var over []*neighbour
	for _, n := range s.neighbours {
		if n.established() && !n.flooding && max(n.received4, n.received6) > n.conf.MaxPrefixes {
			n.flooding = true
			over = append(over, n)
		}
	}
	s.mu.Unlock()
	for _, n := range over {
		text := fmt.Sprintf("more than %d prefixes", n.conf.MaxPrefixes)
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := s.call(ctx, s.peerOps, "ending a session with too many prefixes", func() error {
			return s.bgp.DisablePeer(context.Background(), &api.DisablePeerRequest{Address: n.key, Communication: text})
		})
		cancel()
		if err != nil {
			s.log.Error("cannot end a session with too many prefixes", "neighbour", n.place, "error", err)
			s.mu.Lock()
			n.flooding = false // at the next look again
			s.mu.Unlock()
		}
	}
}

// floodDown is why such a session ended.
func (n *neighbour) floodDown() Down {
	return Down{Kind: DownPrefixes, Code: 6, Subcode: 2, Text: fmt.Sprintf(
		"this host ended the session: the neighbour sent more than %d prefixes (max_prefixes), it should send VIPs only", n.conf.MaxPrefixes)}
}
