package bgp

import (
	"context"
	"errors"
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
	d := Down{Kind: DownBFD, Text: why}
	n.sessionDown(now, d)
	n.setDown(now, d)
	n.state, n.since = stateIdle, now
	n.addAt, n.lost = now, true
	name := n.conf.Name
	s.newsLocked()
	s.mu.Unlock()
	s.log.Warn("session lost", "neighbour", n.place, "name", name, "kind", DownBFD, "reason", why)
	s.wakeUp()
	s.changed()
}

// speaksLocked returns the neighbour that GoBGP's messages about key are of, nil
// for none.
func (s *Speaker) speaksLocked(key string) *neighbour {
	if n := s.byKey[key]; n != nil && !n.deaf {
		return n
	}
	return nil
}

// replace gives a lost neighbour a new state machine. Its old one still stands
// in its session and has more to say, which must not be taken for the new one's.
func (s *Speaker) replace(ctx context.Context, n *neighbour) error {
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
	err := s.addPeer(ctx, fresh)
	if err != nil {
		s.mu.Lock()
		fresh.addAt = time.Now().Add(longestPause)
		s.mu.Unlock()
	}
	if conf.plan(true).extended { // the next session may not have what the last one negotiated
		err = errors.Join(err, s.refilter(ctx))
	}
	return err
}
