package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	api "github.com/osrg/gobgp/v3/api"
)

// Configure makes the speaker use st. The session of a neighbour that did not
// change is not touched; one that did is ended and begun anew; routes for
// prefixes that are no longer allowed are withdrawn. Errors in st, among them
// ErrNeedsRestart and ErrMultipathTCP, leave everything as it was; an error of
// GoBGP half way is reported with the new settings in force, and Configure can
// be called again.
func (s *Speaker) Configure(ctx context.Context, st Settings) error {
	st = st.withDefaults()
	if err := st.validate(); err != nil {
		return err
	}
	if err := st.resolve(); err != nil {
		return err
	}
	s.mu.Lock()
	old := s.set
	s.mu.Unlock()
	if err := old.needsRestart(st); err != nil {
		return err
	}
	if err := checkListener(st); err != nil {
		return err
	}
	if err := s.removeDisallowed(ctx, st); err != nil {
		return err
	}
	return s.call(ctx, s.peerOps, "configuring", func() error { return s.reconfigure(ctx, st) })
}

// removeDisallowed withdraws what the new filter would only keep from being
// sent again.
func (s *Speaker) removeDisallowed(ctx context.Context, st Settings) error {
	s.mu.Lock()
	var out []netip.Prefix
	for p := range s.table {
		if !slices.Contains(st.Allowed, p) {
			out = append(out, p)
		}
	}
	s.mu.Unlock()
	for _, p := range out {
		if err := s.remove(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// reconfigure replaces settings, filter and neighbours, the filter first, so
// that no session begins under the old one.
func (s *Speaker) reconfigure(ctx context.Context, st Settings) error {
	if s.isStopping() {
		return errStopped
	}
	next := map[string]Neighbour{}
	for _, n := range st.Neighbours {
		next[n.Address.String()] = n
	}
	s.mu.Lock()
	s.set, s.allowed = st, nil
	s.seen.observe(st.Allowed)
	var drop []*neighbour
	for key, n := range s.byKey {
		conf, stays := next[key]
		if stays && n.conf.sameSession(conf) {
			n.conf.Name = conf.Name
			delete(next, key)
			continue
		}
		drop = append(drop, n)
	}
	s.mu.Unlock()

	var errs []error
	for _, n := range drop {
		errs = append(errs, s.dropPeer(ctx, n))
	}
	errs = append(errs, s.refilter(ctx))
	for _, conf := range next {
		n := newNeighbour(conf, st.ASN)
		for _, o := range drop {
			if o.key == n.key {
				n.inherit(o)
			}
		}
		errs = append(errs, s.addPeer(ctx, n))
	}
	s.mu.Lock()
	s.dirty = true
	s.mu.Unlock()
	s.wakeUp()
	s.changed()
	return errors.Join(errs...)
}

// dropPeer ends the session of n (cease 6/3) and forgets n.
func (s *Speaker) dropPeer(ctx context.Context, n *neighbour) error {
	now := time.Now()
	s.mu.Lock()
	d := Down{Kind: DownConfiguration, Text: "the configuration of the neighbour changed"}
	n.sessionDown(now, d)
	n.setDown(now, d)
	delete(s.byKey, n.key)
	s.sortLocked()
	s.mu.Unlock()
	if n.conf.Password != "" {
		// DeletePeer leaves the password on the listening sockets; an update to
		// a neighbour without one takes it off.
		bare := n.conf
		bare.Password = ""
		if _, err := s.bgp.UpdatePeer(ctx, &api.UpdatePeerRequest{Peer: bare.peer()}); err != nil {
			s.log.Error("cannot take a password off the listener", "neighbour", n.place, "error", err)
		}
	}
	if err := s.bgp.DeletePeer(ctx, &api.DeletePeerRequest{Address: n.key}); err != nil {
		return fmt.Errorf("removing neighbour %s: %w", n.place, err)
	}
	s.log.Info("neighbour removed", "neighbour", n.place, "name", n.conf.Name)
	return nil
}

// inherit takes over what a router at the same address may still have.
func (n *neighbour) inherit(o *neighbour) {
	n.stale, n.ended, n.down, n.flaps, n.floods = o.stale, o.ended, o.down, o.flaps, o.floods
	n.heardOld, n.wroteOld = o.heardOld+o.heard, o.wroteOld+o.wrote
}
