package bgp

import (
	"context"
	"fmt"
	"time"

	api "github.com/osrg/gobgp/v3/api"
)

// GoBGP keeps all that a neighbour sends. Its own limit of prefixes counts them
// all at every UPDATE, which takes a minute of processor time for 200,000, and
// holds up everybody's withdraws meanwhile. So rhid counts itself: what arrives
// brings the next look forward, and the look, which asks GoBGP for the numbers,
// ends the session.

// noteTime is for a NOTIFICATION to be written to a neighbour that is still
// sending.
const noteTime = 200 * time.Millisecond

// arrivedLocked counts paths that a neighbour sent or withdrew; more of them
// than the limit may mean more prefixes than the limit.
func (s *Speaker) arrivedLocked(n *neighbour, paths int) {
	n.arrivals += paths
	if n.arrivals > n.conf.MaxPrefixes && !n.flooding {
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
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := s.call(ctx, s.peerOps, "ending a session with too many prefixes", func() error { return s.endFlood(ctx, n) })
		cancel()
		if err != nil {
			s.log.Error("cannot end a session with too many prefixes", "neighbour", n.place, "error", err)
			s.mu.Lock()
			n.flooding = false // at the next look again
			s.mu.Unlock()
		}
	}
}

// endFlood tells n why its session ends, and then has GoBGP forget it and what it
// sent. GoBGP reads faster than it stores, and would store all that it has read
// before it took notice of the end.
func (s *Speaker) endFlood(ctx context.Context, n *neighbour) error {
	text := fmt.Sprintf("more than %d prefixes", n.conf.MaxPrefixes)
	if err := s.bgp.DisablePeer(ctx, &api.DisablePeerRequest{Address: n.key, Communication: text}); err != nil {
		return err
	}
	noted, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	s.await(noted, func() bool { return n.sentNote != nil || !n.established() })
	s.mu.Lock()
	if !n.established() || s.byKey[n.key] != n {
		s.mu.Unlock()
		return nil // GoBGP was quick
	}
	tell := s.loseLocked(n, time.Now(), n.floodDown())
	pause := n.backOff()
	s.mu.Unlock()
	tell()
	return s.replace(ctx, n, pause)
}

// floodDown is why such a session ended.
func (n *neighbour) floodDown() Down {
	return Down{Kind: DownPrefixes, Code: 6, Subcode: 2, Text: fmt.Sprintf(
		"this host ended the session: the neighbour sent more than %d prefixes (max_prefixes), it should send VIPs only", n.conf.MaxPrefixes)}
}
