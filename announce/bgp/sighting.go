package bgp

import (
	"net/netip"
	"slices"
	"time"

	"rhid/announce"
)

// Sighting is what a neighbour sent back for one of the allowed prefixes in
// its present session: the best path it knows, if it lets that out.
type Sighting struct {
	Neighbour        string // its address
	Here             bool   // false: it withdrew what it had sent
	LargeCommunities []announce.LargeCommunity
	ASPath           []uint32 // without sets and confederations; the last is where the route comes from
	At               time.Time
}

// sightings are all of them. Only prefixes that have addresses in common with
// the allowed ones are kept, so a neighbour that sends a full table costs
// nothing here.
type sightings struct {
	at      map[netip.Prefix]map[string]Sighting // by prefix and the neighbour's address
	changed chan struct{}
	watched watched
}

// watched are the prefixes to look at, made for quick answers.
type watched struct {
	allowed map[netip.Prefix]bool
	covers  map[netip.Prefix]bool // those that contain an allowed one, but for the default route
	blocks  []netip.Prefix        // allowed ones of more than one address
}

func watch(allowed []netip.Prefix) watched {
	w := watched{allowed: map[netip.Prefix]bool{}, covers: map[netip.Prefix]bool{}}
	for _, p := range allowed {
		w.allowed[p] = true
		if !p.IsSingleIP() {
			w.blocks = append(w.blocks, p)
		}
		for bits := p.Bits() - 1; bits > 0; bits-- {
			c := netip.PrefixFrom(p.Addr(), bits).Masked()
			if w.covers[c] {
				break // and all that contain it
			}
			w.covers[c] = true
		}
	}
	return w
}

// overlaps says whether a prefix that is not allowed itself has addresses in
// common with one that is.
func (w watched) overlaps(p netip.Prefix) bool {
	return w.covers[p] || slices.ContainsFunc(w.blocks, func(b netip.Prefix) bool { return b.Bits() < p.Bits() && b.Contains(p.Addr()) })
}

// Sighted receives a value, never more than one at a time, when Sightings may
// have changed.
func (s *Speaker) Sighted() <-chan struct{} { return s.seen.changed }

// Sightings returns what the established neighbours sent for each allowed
// prefix. A neighbour that sent nothing in this session is not among them.
func (s *Speaker) Sightings() map[netip.Prefix][]Sighting { return s.sightings(true) }

// Overlaps returns what they sent for other prefixes that have addresses in
// common with allowed ones: that contain one, but for the default route, or are
// a part of one. Withdrawn ones are not among them.
func (s *Speaker) Overlaps() map[netip.Prefix][]Sighting { return s.sightings(false) }

func (s *Speaker) sightings(allowed bool) map[netip.Prefix][]Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[netip.Prefix][]Sighting, len(s.seen.at))
	for p, from := range s.seen.at {
		if s.seen.watched.allowed[p] != allowed {
			continue
		}
		for _, n := range s.neighbours {
			if st, ok := from[n.place]; ok && n.established() && st.At.After(n.up.Add(-offerTime)) && (allowed || st.Here) {
				out[p] = append(out[p], st)
			}
		}
	}
	return out
}

// observe takes over what to look at. What is known of other prefixes goes.
func (s *sightings) observe(allowed []netip.Prefix) {
	s.watched = watch(allowed)
	for p := range s.at {
		if !s.watched.allowed[p] && !s.watched.overlaps(p) {
			delete(s.at, p)
		}
	}
}

// ignores says whether nothing is to be known of p.
func (w watched) ignores(p netip.Prefix) bool { return !w.allowed[p] && !w.overlaps(p) }

// onReceived takes in an UPDATE of a neighbour, in the form of GoBGP's message
// "received update". GoBGP has an event for it too, but copies each path for
// that, which takes longer than all else that it does with a full table.
func (s *Speaker) onReceived(key string, nlri, withdrawals, attributes any) {
	here, gone := prefixesOf(nlri, withdrawals, attributes)
	count := len(here) + len(gone)
	s.mu.Lock()
	w := s.seen.watched
	s.mu.Unlock()
	here, gone = slices.DeleteFunc(here, w.ignores), slices.DeleteFunc(gone, w.ignores)
	var a wireAttrs
	if len(here) > 0 {
		a = attrsOf(attributes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.speaksLocked(key)
	if n == nil || !n.established() {
		return
	}
	s.arrivedLocked(n, count)
	now := time.Now()
	for _, p := range gone {
		s.seen.take(p, Sighting{Neighbour: n.place, At: now})
	}
	for _, p := range here {
		s.seen.take(p, Sighting{Neighbour: n.place, Here: true, LargeCommunities: a.large, ASPath: a.path, At: now})
	}
}

// take keeps a sighting of p.
func (s *sightings) take(p netip.Prefix, st Sighting) {
	allowed := s.watched.allowed[p]
	switch {
	case !allowed && !st.Here:
		delete(s.at[p], st.Neighbour)
		return
	case s.watched.ignores(p): // since a moment ago
		return
	case s.at[p] == nil:
		s.at[p] = map[string]Sighting{}
	}
	s.at[p][st.Neighbour] = st
	if allowed {
		signal(s.changed)
	}
}
