package bgp

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

func TestWatched(t *testing.T) {
	w := watch([]netip.Prefix{netip.MustParsePrefix("10.255.0.10/32"), netip.MustParsePrefix("10.254.0.0/28"), netip.MustParsePrefix("2001:db8::10/128")})
	for prefix, want := range map[string]bool{
		"0.0.0.0/0": false, "::/0": false, // everybody has a default route
		"0.0.0.0/1": true, "10.0.0.0/8": true, "10.255.0.0/24": true, "10.255.0.10/31": true,
		"10.255.0.10/32": false, "10.254.0.0/28": false, // allowed ones
		"10.254.0.0/27": true, "10.254.0.0/29": true, "10.254.0.15/32": true,
		"10.254.0.16/32": false, "10.255.0.11/32": false, "10.255.1.0/24": false,
		"2001:db8::/32": true, "2001:db8::10/127": true, "2001:db9::/32": false,
	} {
		if got := w.overlaps(netip.MustParsePrefix(prefix)); got != want {
			t.Errorf("%s: %v, want %v", prefix, got, want)
		}
	}
}

// What a router has besides: of a whole table only what has addresses in
// common with a VIP is kept, and only as long as the router has it.
func TestOverlaps(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32 198.51.100.0/28", r.neighbour())
	b.join(r)
	attrs := func(path ...uint32) []bgp.PathAttributeInterface {
		return []bgp.PathAttributeInterface{
			bgp.NewPathAttributeOrigin(0), bgp.NewPathAttributeNextHop("127.0.1.1"),
			bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, path)}),
			bgp.NewPathAttributeLargeCommunities([]*bgp.LargeCommunity{{ASN: 65010, LocalData1: 3, LocalData2: 1}}),
		}
	}
	list := func(prefixes ...string) (out []*bgp.IPAddrPrefix) {
		for _, s := range prefixes {
			p := netip.MustParsePrefix(s)
			out = append(out, bgp.NewIPAddrPrefix(uint8(p.Bits()), p.Addr().String()))
		}
		return out
	}
	seen := func(what, want string, get func() map[netip.Prefix][]Sighting) {
		t.Helper()
		b.until(what+" "+want, func() (bool, string) {
			all := get()
			var words []string
			for _, p := range slices.SortedFunc(maps.Keys(all), netip.Prefix.Compare) {
				for _, st := range all[p] {
					words = append(words, fmt.Sprintf("%v here=%v path %v %v", p, st.Here, st.ASPath, st.LargeCommunities))
				}
			}
			got := strings.Join(words, "; ")
			return got == want, got
		})
	}
	r.send(bgp.NewBGPUpdateMessage(nil, attrs(routeASN, 65099), list("192.0.2.0/24", "198.51.100.8/29", "203.0.113.0/24", "0.0.0.0/0")))
	r.send(bgp.NewBGPUpdateMessage(nil, attrs(routeASN), list("192.0.2.10/32")))
	seen("others", "192.0.2.0/24 here=true path [65000 65099] [{65010 3 1}]; 198.51.100.8/29 here=true path [65000 65099] [{65010 3 1}]", b.Overlaps)
	seen("VIPs", "192.0.2.10/32 here=true path [65000] [{65010 3 1}]", b.Sightings)
	b.until("the number of prefixes", func() (bool, string) {
		st := b.Neighbours()[0]
		return st.Received == 5, fmt.Sprint(st.Received)
	})

	r.send(bgp.NewBGPUpdateMessage(list("198.51.100.8/29", "192.0.2.10/32"), nil, nil))
	seen("others", "192.0.2.0/24 here=true path [65000 65099] [{65010 3 1}]", b.Overlaps)
	seen("VIPs", "192.0.2.10/32 here=false path [] []", b.Sightings)

	st := b.set
	st.Allowed = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/28")}
	if err := b.Configure(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	seen("others", "", b.Overlaps)
	r.cut()
}

// What a router does not offer is named.
func TestLacks(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	r.caps = []bgp.ParameterCapabilityInterface{bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC)}
	n := r.neighbour()
	n.NextHop, n.NextHop6 = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::1")
	b := start(t, "192.0.2.10/32", n)
	b.join(r)
	want := "family ipv6, IPv6 next hops for IPv4 routes (RFC 8950), 4-octet AS numbers (RFC 6793), route refresh (RFC 2918)"
	b.until("what it lacks", func() (bool, string) {
		got := strings.Join(b.Neighbours()[0].Lacks, ", ")
		return got == want, got
	})
	r.cut()
	b.until("nothing without a session", func() (bool, string) {
		st := b.Neighbours()[0]
		return st.Lacks == nil && st.Received == 0, fmt.Sprint(st.Lacks)
	})
}
