package bgp

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"rhid/announce"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
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

// markAddr is the next hop that a path with mark n has in the global table (see
// doc.go): up to maxPrepend the number of prepends, above it a special. No host
// has such an address.
func markAddr(v4 bool, n int) netip.Addr {
	high, middle, low := byte(n>>16), byte(n>>8), byte(n)
	switch {
	case v4:
		return netip.AddrFrom4([4]byte{1: high, 2: middle, 3: low})
	case n == 0:
		return netip.IPv6Unspecified()
	default:
		return netip.AddrFrom16([16]byte{0: 1, 13: high, 14: middle, 15: low}) // 100::/64, discard-only (RFC 6666)
	}
}

// markOf is the inverse of markAddr; ok is false for any other address.
func markOf(nextHop netip.Addr) (n int, ok bool) {
	b := nextHop.As16()
	n = int(b[13])<<16 | int(b[14])<<8 | int(b[15])
	return n, nextHop.Unmap() == markAddr(nextHop.Is4() || nextHop.Is4In6(), n)
}

// bytesPerMbit turns Mbit/s into the bytes/s of a link-bandwidth community.
const bytesPerMbit = 125_000

// encode returns the path of a route for the global table. asn stands in the
// link-bandwidth community, which has two bytes for it.
func encode(r announce.Route, mark int, asn uint32) (*api.Path, error) {
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
	add(&api.OriginAttribute{Origin: uint32(r.Attrs.Origin)})
	hop := markAddr(r.Prefix.Addr().Is4(), mark).String()
	if r.Prefix.Addr().Is4() {
		add(&api.NextHopAttribute{NextHop: hop})
	} else {
		add(&api.MpReachNLRIAttribute{Family: family6(), NextHops: []string{hop}, Nlris: []*anypb.Any{nlri}})
	}
	add(&api.MultiExitDiscAttribute{Med: r.Attrs.Metric})
	if r.Attrs.LocalPref != 0 {
		add(&api.LocalPrefAttribute{LocalPref: r.Attrs.LocalPref})
	}
	if len(r.Attrs.Communities) > 0 {
		add(&api.CommunitiesAttribute{Communities: r.Attrs.Communities})
	}
	large := r.Attrs.LargeCommunities
	if len(r.Towards.Except) > 0 {
		large = append(slices.Clone(large), keptBack(mark))
	}
	if len(large) > 0 {
		l := make([]*api.LargeCommunity, len(large))
		for i, c := range large {
			l[i] = &api.LargeCommunity{GlobalAdmin: c.Global, LocalData1: c.Local1, LocalData2: c.Local2}
		}
		add(&api.LargeCommunitiesAttribute{Communities: l})
	}
	if r.Attrs.Bandwidth != 0 {
		c, e := anypb.New(&api.LinkBandwidthExtended{Asn: shortASN(asn), Bandwidth: float32(r.Attrs.Bandwidth) * bytesPerMbit})
		err = errors.Join(err, e)
		add(&api.ExtendedCommunitiesAttribute{Communities: []*anypb.Any{c}})
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the path of %v: %w", r.Prefix, err)
	}
	return &api.Path{Family: familyOf(r.Prefix), Nlri: nlri, Pattrs: attrs}, nil
}

// shortASN is an ASN where there is room for two bytes (RFC 6793).
func shortASN(asn uint32) uint32 {
	if asn > math.MaxUint16 {
		return bgp.AS_TRANS
	}
	return asn
}

// decode is the inverse of encode for what the global table holds. The mark is
// left to the caller, so Prepend stays 0; Rank is not an attribute of the path.
func decode(p *api.Path) (announce.Attrs, int, error) {
	var a announce.Attrs
	mark := 0
	for _, attr := range p.GetPattrs() {
		m, err := attr.UnmarshalNew()
		if err != nil {
			return a, 0, fmt.Errorf("decoding a path attribute: %w", err)
		}
		nextHop := ""
		switch m := m.(type) {
		case *api.NextHopAttribute:
			nextHop = m.GetNextHop()
		case *api.MpReachNLRIAttribute:
			if len(m.GetNextHops()) > 0 {
				nextHop = m.GetNextHops()[0]
			}
		default:
			takeAttr(&a, m)
		}
		if nextHop == "" {
			continue
		}
		addr, err := netip.ParseAddr(nextHop)
		if err != nil {
			return a, 0, fmt.Errorf("decoding a next hop: %w", err)
		}
		var ok bool
		if mark, ok = markOf(addr); !ok {
			return a, 0, fmt.Errorf("next hop %v in the table is not rhid's own", addr)
		}
	}
	return normalise(a), mark, nil
}

// takeAttr adds one attribute to a.
func takeAttr(a *announce.Attrs, m proto.Message) {
	switch m := m.(type) {
	case *api.OriginAttribute:
		a.Origin = announce.Origin(m.GetOrigin())
	case *api.MultiExitDiscAttribute:
		a.Metric = m.GetMed()
	case *api.LocalPrefAttribute:
		a.LocalPref = m.GetLocalPref()
	case *api.CommunitiesAttribute:
		a.Communities = m.GetCommunities()
	case *api.LargeCommunitiesAttribute:
		for _, c := range m.GetCommunities() {
			if c.GetGlobalAdmin() == 0 {
				continue // see keptBack
			}
			a.LargeCommunities = append(a.LargeCommunities, announce.LargeCommunity{Global: c.GetGlobalAdmin(), Local1: c.GetLocalData1(), Local2: c.GetLocalData2()})
		}
	case *api.ExtendedCommunitiesAttribute:
		for _, c := range m.GetCommunities() {
			var bw api.LinkBandwidthExtended
			if c.UnmarshalTo(&bw) == nil { // rhid sends no other kind
				a.Bandwidth = mbits(bw.GetBandwidth())
			}
		}
	}
}

// mbits is the inverse of what encode makes of a bandwidth.
func mbits(bytes float32) uint32 { return uint32(math.Round(float64(bytes) / bytesPerMbit)) }

// sameAttrs compares what goes onto the wire; both are normalised.
func sameAttrs(a, b announce.Attrs) bool {
	a.Rank, b.Rank = 0, 0
	return a.Equal(b)
}
