package bgp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"rhid/announce"

	api "github.com/osrg/gobgp/v3/api"
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

// watchSightings follows the Adj-RIBs-In until ctx ends. GoBGP calls back from
// a goroutine of its own.
func (s *Speaker) watchSightings(ctx context.Context) error {
	req := &api.WatchEventRequest{Table: &api.WatchEventRequest_Table{
		Filters: []*api.WatchEventRequest_Table_Filter{{Type: api.WatchEventRequest_Table_Filter_ADJIN}},
	}}
	err := s.bgp.WatchEvent(ctx, req, func(ev *api.WatchEventResponse) {
		paths := ev.GetTable().GetPaths()
		for _, p := range paths {
			s.sight(p, time.Now())
		}
		if len(paths) > 0 {
			s.arrived(paths[0].GetNeighborIp(), len(paths))
		}
	})
	if err != nil {
		return fmt.Errorf("watching what neighbours send: %w", err)
	}
	return nil
}

// sight takes in one received path.
func (s *Speaker) sight(p *api.Path, now time.Time) {
	var nlri api.IPAddressPrefix
	if err := p.GetNlri().UnmarshalTo(&nlri); err != nil {
		return // of a family that rhid does not use
	}
	addr, err := netip.ParseAddr(nlri.GetPrefix())
	if err != nil {
		return
	}
	prefix := netip.PrefixFrom(addr, int(nlri.GetPrefixLen()))
	s.mu.Lock()
	is := s.seen.watched.allowed[prefix]
	other := !is && s.seen.watched.overlaps(prefix)
	s.mu.Unlock()
	if !is && !other {
		return
	}
	st := Sighting{Neighbour: p.GetNeighborIp(), Here: !p.GetIsWithdraw(), At: now}
	if st.Here {
		if attrs, err := decodeLarge(p); err == nil {
			st.LargeCommunities = attrs
		}
		st.ASPath = decodeASPath(p)
	}
	s.mu.Lock()
	if s.seen.at[prefix] == nil {
		s.seen.at[prefix] = map[string]Sighting{}
	}
	s.seen.at[prefix][st.Neighbour] = st
	if other && !st.Here {
		delete(s.seen.at[prefix], st.Neighbour)
	}
	s.mu.Unlock()
	if is {
		signal(s.seen.changed)
	}
}

// decodeASPath returns the sequences of a received path's AS_PATH.
func decodeASPath(p *api.Path) []uint32 {
	var out []uint32
	for _, a := range p.GetPattrs() {
		var path api.AsPathAttribute
		if !a.MessageIs(&path) || a.UnmarshalTo(&path) != nil {
			continue
		}
		for _, seg := range path.GetSegments() {
			if seg.GetType() == api.AsSegment_AS_SEQUENCE {
				out = append(out, seg.GetNumbers()...)
			}
		}
	}
	return out
}

// decodeLarge returns the large communities of a received path.
func decodeLarge(p *api.Path) ([]announce.LargeCommunity, error) {
	var out []announce.LargeCommunity
	for _, a := range p.GetPattrs() {
		var l api.LargeCommunitiesAttribute
		if !a.MessageIs(&l) {
			continue
		}
		if err := a.UnmarshalTo(&l); err != nil {
			return nil, fmt.Errorf("large communities: %w", err)
		}
		for _, c := range l.GetCommunities() {
			out = append(out, announce.LargeCommunity{Global: c.GetGlobalAdmin(), Local1: c.GetLocalData1(), Local2: c.GetLocalData2()})
		}
	}
	return out, nil
}
