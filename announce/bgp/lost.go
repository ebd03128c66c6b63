package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	api "github.com/osrg/gobgp/v3/api"
)

// Lost ends the session with the neighbour at address at once, because
// something else than BGP knows that the neighbour cannot be reached; why says
// what, as a sentence. The session may come up again like any other. Nothing
// happens where there is none. Lost does not wait.
func (s *Speaker) Lost(address netip.Addr, why string) {
	now := time.Now()
	s.mu.Lock()
	n := s.byKey[address.String()]
	if n == nil || !n.established() || s.stopping {
		s.mu.Unlock()
		return
	}
	n.addAt, n.lost = now, true
	tell := s.loseLocked(n, now, Down{Kind: DownBFD, Text: why})
	s.mu.Unlock()
	tell()
}

// loseLocked ends a session in the books while it still stands in GoBGP, whose
// word on it counts no more: n is to be replaced. What loseLocked returns is to be
// called with mu free.
func (s *Speaker) loseLocked(n *neighbour, now time.Time, d Down) (tell func()) {
	n.sessionDown(now, d)
	n.setDown(now, d)
	n.state, n.since, n.deaf = stateIdle, now, true
	s.newsLocked()
	name := n.conf.Name
	return func() {
		s.log.Warn("session lost", "neighbour", n.place, "name", name, "kind", d.Kind, "reason", d.Text)
		s.wakeUp()
		s.changed()
	}
}

// speaksLocked returns the neighbour that GoBGP's messages about key are of, nil
// for none.
func (s *Speaker) speaksLocked(key string) *neighbour {
	if n := s.byKey[key]; n != nil && !n.deaf {
		return n
	}
	return nil
}

// replace gives a lost neighbour a new state machine, which refuses sessions for a
// pause and is renewed after that. The old one still stands in its session and
// has more to say, which must not be taken for the new one's.
func (s *Speaker) replace(ctx context.Context, n *neighbour, pause time.Duration) error {
	s.mu.Lock()
	conf := n.conf
	fresh := newNeighbour(conf, s.set.ASN)
	fresh.inherit(n)
	fresh.deaf = true
	s.byKey[n.key] = fresh
	s.sortLocked()
	s.mu.Unlock()
	if err := s.bgp.DeletePeer(ctx, &api.DeletePeerRequest{Address: n.key}); err != nil {
		s.log.Debug("neighbour was not there", "neighbour", n.place, "error", err)
	}
	s.mu.Lock()
	fresh.deaf = false
	s.mu.Unlock()
	peer := conf.peer()
	peer.Conf.AdminDown = pause > 0
	err := s.bgp.AddPeer(ctx, &api.AddPeerRequest{Peer: peer})
	if err != nil {
		err, pause = fmt.Errorf("adding neighbour %s: %w", n.place, err), max(pause, longestPause)
	}
	if pause > 0 {
		s.mu.Lock()
		fresh.addAt = time.Now().Add(pause)
		s.mu.Unlock()
	}
	if conf.plan(true).extended { // the next session may not have what the last one negotiated
		err = errors.Join(err, s.refilter(ctx))
	}
	return err
}
