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
	At               time.Time
}

// sightings are all of them. Only allowed prefixes are kept, so a neighbour
// that sends a full table costs nothing here.
type sightings struct {
	at      map[netip.Prefix]map[string]Sighting // by prefix and the neighbour's address
	changed chan struct{}
}

// Sighted receives a value, never more than one at a time, when Sightings may
// have changed.
func (s *Speaker) Sighted() <-chan struct{} { return s.seen.changed }

// Sightings returns what the established neighbours sent for each allowed
// prefix. A neighbour that sent nothing in this session is not among them.
func (s *Speaker) Sightings() map[netip.Prefix][]Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[netip.Prefix][]Sighting, len(s.seen.at))
	for p, from := range s.seen.at {
		for _, n := range s.neighbours {
			if st, ok := from[n.place]; ok && n.established() && st.At.After(n.up.Add(-offerTime)) {
				out[p] = append(out[p], st)
			}
		}
	}
	return out
}

// watchSightings follows the Adj-RIBs-In until ctx ends. GoBGP calls back from
// a goroutine of its own.
func (s *Speaker) watchSightings(ctx context.Context) error {
	req := &api.WatchEventRequest{Table: &api.WatchEventRequest_Table{
		Filters: []*api.WatchEventRequest_Table_Filter{{Type: api.WatchEventRequest_Table_Filter_ADJIN}},
	}}
	err := s.bgp.WatchEvent(ctx, req, func(ev *api.WatchEventResponse) {
		for _, p := range ev.GetTable().GetPaths() {
			s.sight(p, time.Now())
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
	st := Sighting{Neighbour: p.GetNeighborIp(), Here: !p.GetIsWithdraw(), At: now}
	if st.Here {
		if attrs, err := decodeLarge(p); err == nil {
			st.LargeCommunities = attrs
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.set.Allowed, prefix) {
		return
	}
	if s.seen.at[prefix] == nil {
		s.seen.at[prefix] = map[string]Sighting{}
	}
	s.seen.at[prefix][st.Neighbour] = st
	select {
	case s.seen.changed <- struct{}{}:
	default:
	}
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
