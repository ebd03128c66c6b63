package bgp

import (
	"fmt"
	"net/netip"
	"slices"

	"rhid/announce"

	api "github.com/osrg/gobgp/v3/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func family4() *api.Family {
	return &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}
}

func family6() *api.Family {
	return &api.Family{Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST}
}

func familyOf(p netip.Prefix) *api.Family {
	if p.Addr().Is4() {
		return family4()
	}
	return family6()
}

// prependMark is the next hop that a path with n prepends has in the global
// table (see doc.go); n is 0 to maxPrepend.
func prependMark(v4 bool, n int) netip.Addr {
	if v4 {
		return netip.AddrFrom4([4]byte{3: byte(n)})
	}
	if n == 0 {
		return netip.IPv6Unspecified()
	}
	return netip.AddrFrom16([16]byte{0: 1, 15: byte(n)}) // 100::/64, discard-only (RFC 6666)
}

// prependOf is the inverse of prependMark; ok is false for any other address.
func prependOf(nextHop netip.Addr) (n int, ok bool) {
	b := nextHop.As16()
	n = int(b[15])
	return n, n <= maxPrepend && nextHop.Unmap() == prependMark(nextHop.Is4() || nextHop.Is4In6(), n)
}

// encode returns the path of a route for the global table.
func encode(r announce.Route) (*api.Path, error) {
	nlri, err := anypb.New(&api.IPAddressPrefix{Prefix: r.Prefix.Addr().String(), PrefixLen: uint32(r.Prefix.Bits())})
	if err != nil {
		return nil, err
	}
	var attrs []*anypb.Any
	add := func(m proto.Message) {
		if a, e := anypb.New(m); e != nil {
			err = e
		} else {
			attrs = append(attrs, a)
		}
	}
	add(&api.OriginAttribute{Origin: 0}) // IGP
	mark := prependMark(r.Prefix.Addr().Is4(), r.Attrs.Prepend).String()
	if r.Prefix.Addr().Is4() {
		add(&api.NextHopAttribute{NextHop: mark})
	} else {
		add(&api.MpReachNLRIAttribute{Family: family6(), NextHops: []string{mark}, Nlris: []*anypb.Any{nlri}})
	}
	add(&api.MultiExitDiscAttribute{Med: r.Attrs.Metric})
	if r.Attrs.LocalPref != 0 {
		add(&api.LocalPrefAttribute{LocalPref: r.Attrs.LocalPref})
	}
	if len(r.Attrs.Communities) > 0 {
		add(&api.CommunitiesAttribute{Communities: r.Attrs.Communities})
	}
	if len(r.Attrs.LargeCommunities) > 0 {
		l := make([]*api.LargeCommunity, len(r.Attrs.LargeCommunities))
		for i, c := range r.Attrs.LargeCommunities {
			l[i] = &api.LargeCommunity{GlobalAdmin: c.Global, LocalData1: c.Local1, LocalData2: c.Local2}
		}
		add(&api.LargeCommunitiesAttribute{Communities: l})
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the path of %v: %w", r.Prefix, err)
	}
	return &api.Path{Family: familyOf(r.Prefix), Nlri: nlri, Pattrs: attrs}, nil
}

// decode is the inverse of encode for what the global table holds. Rank is not
// an attribute of the path and stays 0.
func decode(p *api.Path) (announce.Attrs, error) {
	var a announce.Attrs
	for _, attr := range p.GetPattrs() {
		m, err := attr.UnmarshalNew()
		if err != nil {
			return a, fmt.Errorf("decoding a path attribute: %w", err)
		}
		nextHop := ""
		switch m := m.(type) {
		case *api.NextHopAttribute:
			nextHop = m.GetNextHop()
		case *api.MpReachNLRIAttribute:
			if len(m.GetNextHops()) > 0 {
				nextHop = m.GetNextHops()[0]
			}
		case *api.MultiExitDiscAttribute:
			a.Metric = m.GetMed()
		case *api.LocalPrefAttribute:
			a.LocalPref = m.GetLocalPref()
		case *api.CommunitiesAttribute:
			a.Communities = m.GetCommunities()
		case *api.LargeCommunitiesAttribute:
			for _, c := range m.GetCommunities() {
				a.LargeCommunities = append(a.LargeCommunities, announce.LargeCommunity{Global: c.GetGlobalAdmin(), Local1: c.GetLocalData1(), Local2: c.GetLocalData2()})
			}
		}
		if nextHop == "" {
			continue
		}
		addr, err := netip.ParseAddr(nextHop)
		if err != nil {
			return a, fmt.Errorf("decoding a next hop: %w", err)
		}
		n, ok := prependOf(addr)
		if !ok {
			return a, fmt.Errorf("next hop %v in the table is not rhid's own", addr)
		}
		a.Prepend = n
	}
	return normalise(a), nil
}

// sameAttrs compares what goes onto the wire; both are normalised.
func sameAttrs(a, b announce.Attrs) bool {
	return a.Metric == b.Metric && a.Prepend == b.Prepend && a.LocalPref == b.LocalPref &&
		slices.Equal(a.Communities, b.Communities) && slices.Equal(a.LargeCommunities, b.LargeCommunities)
}
