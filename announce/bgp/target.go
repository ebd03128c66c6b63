package bgp

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"rhid/announce"

	api "github.com/osrg/gobgp/v3/api"
)

// Name is "bgp".
func (s *Speaker) Name() string { return "bgp" }

// Changes implements announce.Target.
func (s *Speaker) Changes() <-chan struct{} { return s.changes }

// Same says whether the route in the table has all attributes of r. The rank
// is no attribute: whoever wants it on the wire puts it into a community.
func (s *Speaker) Same(r announce.Route, seen announce.Seen) bool {
	r, at := normal(r), normal(seen.Route)
	return seen.Here && at.Prefix == r.Prefix && sameAttrs(r.Attrs, at.Attrs) && r.Towards.Equal(at.Towards)
}

// Put adds r to the global table, in the place of an earlier route for the
// same prefix, which neighbours receive as one UPDATE (RFC 4271 3.1). It
// returns before anything was sent.
func (s *Speaker) Put(ctx context.Context, r announce.Route) error {
	if !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() {
		return fmt.Errorf("bgp: %v is not a prefix", r.Prefix)
	}
	if err := checkPrepends(r); err != nil {
		return err
	}
	r = normal(r)
	return s.call(ctx, s.tableOps, "adding "+r.Prefix.String(), func() error { return s.put(ctx, r) })
}

// checkPrepends refuses what the marks have no room for.
func checkPrepends(r announce.Route) error {
	for _, a := range append(slices.Collect(maps.Values(r.Towards.Attrs)), r.Attrs) {
		if a.Prepend < 0 || a.Prepend > maxPrepend {
			return fmt.Errorf("bgp: %v: %d prepends are not between 0 and %d", r.Prefix, a.Prepend, maxPrepend)
		}
	}
	return nil
}

// put adds r, whose attributes are normalised. What it says to whom must be in
// the filter before GoBGP has it.
func (s *Speaker) put(ctx context.Context, r announce.Route) error {
	s.mu.Lock()
	mark, inForce, err := s.special.mark(r)
	s.special.busy = mark
	stopping, asn := s.stopping, s.set.ASN
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.special.busy = 0
		s.mu.Unlock()
	}()
	if err == nil && stopping {
		err = errStopped
	}
	if err != nil {
		return err
	}
	if !inForce {
		if err := s.refilter(ctx); err != nil {
			return err
		}
	}
	path, err := encode(r, mark, asn)
	if err != nil {
		return err
	}
	return s.change(func() error {
		_, err := s.bgp.AddPath(ctx, &api.AddPathRequest{Path: path})
		return err
	}, func() {
		s.table[r.Prefix] = newEntry(r, mark)
		delete(s.removed, r.Prefix)
	})
}

// Remove takes the route for p out of the global table. It names the prefix:
// GoBGP's UUIDs are lost when a route is added again.
func (s *Speaker) Remove(ctx context.Context, p netip.Prefix) error {
	if s.isStopping() {
		return nil // Stop takes everything out
	}
	return s.remove(ctx, p)
}

func (s *Speaker) remove(ctx context.Context, p netip.Prefix) error {
	path, err := encode(announce.Route{Prefix: p}, 0, 0)
	if err != nil {
		return err
	}
	return s.call(ctx, s.tableOps, "removing "+p.String(), func() error {
		return s.change(func() error {
			return s.bgp.DeletePath(ctx, &api.DeletePathRequest{Path: path})
		}, func() {
			if _, ok := s.table[p]; ok {
				delete(s.table, p)
				s.removed[p] = time.Now()
			}
		})
	})
}

// change changes GoBGP's table with f and, when that worked, the books with
// note, such that a listing under way can tell.
func (s *Speaker) change(f func() error, note func()) error {
	s.mu.Lock()
	s.changing++
	s.mu.Unlock()
	err := f()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changing--
	s.seq++
	s.dirty, s.changedAt = true, time.Now()
	if err == nil {
		note()
	}
	return err
}

func newEntry(r announce.Route, mark int) *entry {
	e := &entry{route: r, mark: mark, at: time.Now(), sums: sumsOf(r.Attrs), own: map[string]sums{}}
	for place, a := range r.Towards.Attrs {
		a.Bandwidth = r.Attrs.Bandwidth
		e.own[place] = sumsOf(a)
	}
	return e
}

func (s *Speaker) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// Read returns the routes in the global table and those whose withdraw is not
// confirmed everywhere. It answers from the books, which Run compares with
// GoBGP's own tables at most once a second.
func (s *Speaker) Read(ctx context.Context) (map[netip.Prefix]announce.Seen, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("bgp: reading: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return nil, s.failure
	}
	out := make(map[netip.Prefix]announce.Seen, len(s.table))
	places := make([]announce.Place, len(s.table)*len(s.neighbours)) // one allocation for all
	allowed := s.allowedLocked()
	takers := map[bool][]*neighbour{true: s.takersLocked(true), false: s.takersLocked(false)}
	for p, e := range s.table {
		mine := places[:0:len(s.neighbours)]
		places = places[len(s.neighbours):]
		for _, n := range takers[p.Addr().Is4()] {
			switch {
			case e.told(n.place):
				mine = append(mine, n.wantedPlace(p, e, allowed[p]))
			case n.mayHave(p):
				mine = append(mine, n.unwantedPlace(p, e.at))
			}
		}
		out[p] = announce.Seen{Here: true, Route: e.route, Places: mine}
	}
	for p := range s.goingLocked() {
		mine := make([]announce.Place, 0, len(s.neighbours))
		for _, n := range s.neighbours {
			mine = append(mine, n.unwantedPlace(p, s.removed[p]))
		}
		out[p] = announce.Seen{Route: announce.Route{Prefix: p}, Places: mine}
	}
	for p := range s.removed {
		if _, ok := out[p]; !ok {
			delete(s.removed, p) // gone everywhere
		}
	}
	return out, nil
}

// takersLocked returns the neighbours that are to have routes of a family. One
// of the other family is no place where such a route is missing, unless nobody
// takes it at all.
func (s *Speaker) takersLocked(v4 bool) []*neighbour {
	var takers []*neighbour
	for _, n := range s.neighbours {
		if n.conf.takes(v4) {
			takers = append(takers, n)
		}
	}
	if len(takers) == 0 {
		return s.neighbours
	}
	return takers
}

// goingLocked returns the prefixes that are not in the table, and that some
// neighbour may still have.
func (s *Speaker) goingLocked() map[netip.Prefix]bool {
	going := map[netip.Prefix]bool{}
	take := func(p netip.Prefix) {
		if _, here := s.table[p]; !here {
			going[p] = true
		}
	}
	for _, n := range s.neighbours {
		for p := range n.sent {
			take(p)
		}
		for p := range n.left {
			take(p)
		}
		for p := range n.stale {
			take(p)
		}
	}
	return going
}

// allowedLocked returns the prefixes that may be exported. The map must not be
// changed.
func (s *Speaker) allowedLocked() map[netip.Prefix]bool {
	if s.allowed == nil {
		s.allowed = make(map[netip.Prefix]bool, len(s.set.Allowed))
		for _, p := range s.set.Allowed {
			s.allowed[p] = true
		}
	}
	return s.allowed
}
