package bgp

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"rhid/announce"

	"github.com/google/go-cmp/cmp"
	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

func TestAttributesOnTheWire(t *testing.T) {
	ext, internal := newRouter(t, "127.0.1.1", routeASN), newRouter(t, "127.0.1.2", ourASN)
	b := start(t, "192.0.2.10/32", ext.neighbour(), internal.neighbour())
	b.join(ext)
	b.join(internal)

	a := announce.Attrs{
		Rank: 2, Metric: 300, Prepend: 2, LocalPref: 150, Communities: []uint32{4259840001, 4294901760},
		LargeCommunities: []announce.LargeCommunity{{Global: ourASN, Local1: 7, Local2: 2}},
	}
	b.put("192.0.2.10/32", a)
	want := "+192.0.2.10/32, path [65010 65010 65010], via 127.0.0.1, med 300, communities [4259840001 4294901760], large [65010:7:2]"
	if diff := cmp.Diff(want, ext.update()); diff != "" {
		t.Errorf("eBGP (-want +got):\n%s", diff)
	}
	want = "+192.0.2.10/32, path [], via 127.0.0.1, med 300, pref 150, communities [4259840001 4294901760], large [65010:7:2]"
	if diff := cmp.Diff(want, internal.update()); diff != "" {
		t.Errorf("iBGP (-want +got):\n%s", diff)
	}
	b.place("192.0.2.10/32", "127.0.1.1", "present", "")
	b.place("192.0.2.10/32", "127.0.1.2", "present", "")

	// Other attributes: one UPDATE, no withdraw, and the old ones do not count.
	b.put("192.0.2.10/32", announce.Attrs{Metric: 100})
	if diff := cmp.Diff("+192.0.2.10/32, path [65010], via 127.0.0.1, med 100", ext.update()); diff != "" {
		t.Errorf("eBGP after the change (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("+192.0.2.10/32, path [], via 127.0.0.1, med 100, pref 100", internal.update()); diff != "" {
		t.Errorf("iBGP after the change (-want +got):\n%s", diff)
	}
	b.place("192.0.2.10/32", "127.0.1.1", "present", "")

	b.remove("192.0.2.10/32")
	b.remove("192.0.2.10/32") // that there is none is no error
	for _, r := range []*router{ext, internal} {
		if got := r.update(); got != "-192.0.2.10/32" {
			t.Errorf("%v received %q, want the withdraw", r.addr, got)
		}
	}
}

func TestReadAndSame(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32", r.neighbour())
	route := announce.Route{Prefix: netip.MustParsePrefix("192.0.2.10/32"), Service: "atm", Attrs: announce.Attrs{
		Metric: 5, Prepend: 1, LocalPref: 9, Communities: []uint32{3, 1, 3},
		LargeCommunities: []announce.LargeCommunity{{Global: 2}, {Global: 1}},
	}}
	if err := b.Put(t.Context(), route); err != nil {
		t.Fatal(err)
	}
	seen, err := b.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !b.Same(route, seen[route.Prefix]) {
		t.Errorf("what was put is not the same as %+v", seen[route.Prefix])
	}
	for name, change := range map[string]func(*announce.Attrs){
		"metric":            func(a *announce.Attrs) { a.Metric++ },
		"prepend":           func(a *announce.Attrs) { a.Prepend++ },
		"local preference":  func(a *announce.Attrs) { a.LocalPref++ },
		"communities":       func(a *announce.Attrs) { a.Communities = []uint32{1} },
		"large communities": func(a *announce.Attrs) { a.LargeCommunities = nil },
	} {
		other := route
		change(&other.Attrs)
		if b.Same(other, seen[route.Prefix]) {
			t.Errorf("another %s counts as the same", name)
		}
	}
	if b.Same(route, announce.Seen{}) {
		t.Error("a route that is not there counts as the same")
	}
	for _, bad := range []announce.Route{{}, {Prefix: route.Prefix, Attrs: announce.Attrs{Prepend: maxPrepend + 1}}} {
		if err := b.Put(t.Context(), bad); err == nil {
			t.Errorf("Put(%+v) returned no error", bad)
		}
	}
}

// GoBGP's own table is the truth: what somebody else changes in it is found.
func TestTableIsCompared(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32 192.0.2.11/32", r.neighbour())
	b.put("192.0.2.10/32", announce.Attrs{Metric: 1})
	path, err := encode(announce.Route{Prefix: netip.MustParsePrefix("192.0.2.10/32")}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.bgp.DeletePath(t.Context(), &api.DeletePathRequest{Path: path}); err != nil {
		t.Fatal(err)
	}
	b.put("192.0.2.11/32", announce.Attrs{Metric: 2, Prepend: 3, Communities: []uint32{9}})
	b.place("192.0.2.10/32", "127.0.1.1", "", "")
	seen, err := b.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := announce.Attrs{Metric: 2, Prepend: 3, Communities: []uint32{9}}
	if diff := cmp.Diff(want, seen[netip.MustParsePrefix("192.0.2.11/32")].Route.Attrs); diff != "" {
		t.Errorf("the other route (-want +got):\n%s", diff)
	}
}

func TestOnlyVIPsLeave(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32 192.0.2.11/32", r.neighbour())
	b.join(r)
	b.put("198.51.100.1/32", announce.Attrs{})
	b.put("192.0.2.10/31", announce.Attrs{}) // covers VIPs and is none
	b.place("198.51.100.1/32", "127.0.1.1", "pending", "rejected by the export filter")
	b.put("192.0.2.10/32", announce.Attrs{})
	if got := r.update(); !strings.HasPrefix(got, "+192.0.2.10/32,") {
		t.Errorf("the first UPDATE is %q, want the VIP", got)
	}
	r.quiet()
}

func TestNothingReceivedIsSentOn(t *testing.T) {
	from, to := newRouter(t, "127.0.1.1", routeASN), newRouter(t, "127.0.1.2", 65001)
	b := start(t, "192.0.2.10/32 192.0.2.11/32", from.neighbour(), to.neighbour())
	b.join(from)
	b.join(to)
	from.send(bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(0), bgp.NewPathAttributeNextHop("127.0.1.1"),
		bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{routeASN, 65099})}),
	}, []*bgp.IPAddrPrefix{bgp.NewIPAddrPrefix(32, "192.0.2.10"), bgp.NewIPAddrPrefix(8, "10.0.0.0")}))

	list := func(table api.TableType, name string) (out []string) {
		err := b.bgp.ListPath(t.Context(), &api.ListPathRequest{TableType: table, Name: name, Family: family4()}, func(d *api.Destination) {
			out = append(out, d.GetPrefix())
		})
		if err != nil {
			t.Error(err)
		}
		slices.Sort(out)
		return out
	}
	b.until("the Adj-RIB-In", func() (bool, string) {
		got := list(api.TableType_ADJ_IN, "127.0.1.1")
		return slices.Equal(got, []string{"10.0.0.0/8", "192.0.2.10/32"}), strings.Join(got, " ")
	})
	if got := list(api.TableType_GLOBAL, ""); len(got) > 0 {
		t.Errorf("received routes got into the table: %v", got)
	}
	b.put("192.0.2.11/32", announce.Attrs{})
	if got := to.update(); !strings.HasPrefix(got, "+192.0.2.11/32,") {
		t.Errorf("the other router's first UPDATE is %q, want our own VIP", got)
	}
	// Our own VIP, coming back from a router, changes nothing.
	b.put("192.0.2.10/32", announce.Attrs{})
	if got := to.update(); !strings.HasPrefix(got, "+192.0.2.10/32, path [65010],") {
		t.Errorf("the other router received %q, want our own route", got)
	}
}

func TestIPv6(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	without := newRouter(t, "127.0.1.2", routeASN)
	only4 := newRouter(t, "127.0.1.3", routeASN)
	only4.caps = []bgp.ParameterCapabilityInterface{bgp.NewCapFourOctetASNumber(routeASN)} // no multiprotocol: IPv4 (RFC 4760)
	n := r.neighbour()
	n.NextHop6 = netip.MustParseAddr("2001:db8::1")
	n4 := only4.neighbour()
	n4.NextHop6 = n.NextHop6
	b := start(t, "2001:db8:ff::10/128", n, without.neighbour(), n4)
	b.join(r)
	b.join(without)
	b.join(only4)
	b.put("2001:db8:ff::10/128", announce.Attrs{Metric: 7, Prepend: 1})
	if diff := cmp.Diff("path [65010 65010], med 7, +2001:db8:ff::10/128 via 2001:db8::1", r.update()); diff != "" {
		t.Errorf("UPDATE (-want +got):\n%s", diff)
	}
	b.place("2001:db8:ff::10/128", "127.0.1.1", "present", "")
	b.place("2001:db8:ff::10/128", "127.0.1.2", "pending", "no IPv6 next hop on an IPv4 session: set next_hop6")
	b.place("2001:db8:ff::10/128", "127.0.1.3", "pending", "family ipv6 not negotiated")
	if diff := cmp.Diff([]string{"ipv6"}, b.state("127.0.1.3", "established").Missing); diff != "" {
		t.Errorf("missing families (-want +got):\n%s", diff)
	}
	b.remove("2001:db8:ff::10/128")
	if got := r.update(); got != "-2001:db8:ff::10/128" {
		t.Errorf("received %q, want the withdraw", got)
	}
	b.place("2001:db8:ff::10/128", "127.0.1.1", "unconfirmed", "nothing was heard")
	b.alive(r, "2001:db8:ff::10/128", "")
	// GoBGP also withdraws what it never announced, which harms nobody.
	if got := without.update(); got != "-2001:db8:ff::10/128" {
		t.Errorf("the router without a next hop received %q", got)
	}
	without.quiet()
}

// An IPv4 VIP over an IPv6 session goes out when the router takes IPv6 next
// hops for it (RFC 8950), in this session.
func TestIPv4OverIPv6NextHop(t *testing.T) {
	r := newRouter(t, "::1", routeASN)
	plain := r.caps
	b := start(t, "192.0.2.10/32 2001:db8:ff::10/128", r.neighbour())
	b.put("192.0.2.10/32", announce.Attrs{Metric: 7})
	b.put("2001:db8:ff::10/128", announce.Attrs{Metric: 8})

	b.join(r)
	if diff := cmp.Diff("path [65010], med 8, +2001:db8:ff::10/128 via ::1", r.update()); diff != "" {
		t.Errorf("IPv6 route (-want +got):\n%s", diff)
	}
	b.place("192.0.2.10/32", "::1", "pending", "does not take IPv6 next hops")
	r.quiet()

	r.caps = append(slices.Clone(plain), bgp.NewCapExtendedNexthop([]*bgp.CapExtendedNexthopTuple{bgp.NewCapExtendedNexthopTuple(bgp.RF_IPv4_UC, bgp.AFI_IP6)}))
	r.cut()
	b.join(r)
	for got := ""; got != "path [65010], med 7, +192.0.2.10/32 via ::1"; { // IPv6 before, and once more with it
		got = r.update()
	}
	b.place("192.0.2.10/32", "::1", "present", "")

	r.caps = plain
	r.cut()
	r.forget()
	b.join(r)
	b.place("192.0.2.10/32", "::1", "pending", "does not take IPv6 next hops")
	if got := r.update(); !strings.HasPrefix(got, "path [65010], med 8,") {
		t.Errorf("received %q, want only the IPv6 route", got)
	}
	r.quiet()
}

// A router may ask for everything again (RFC 2918).
func TestRouteRefresh(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32", r.neighbour())
	b.join(r)
	b.put("192.0.2.10/32", announce.Attrs{Metric: 3})
	first := r.update()
	r.send(bgp.NewBGPRouteRefreshMessage(bgp.AFI_IP, 0, bgp.SAFI_UNICAST))
	if again := r.update(); again != first {
		t.Errorf("after ROUTE-REFRESH %q, want %q again", again, first)
	}
	b.place("192.0.2.10/32", "127.0.1.1", "present", "")
}

func TestReadAfterFailure(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	s, err := Start(t.Context(), Settings{ASN: ourASN, RouterID: netip.MustParseAddr("192.0.2.200"), Port: freePort(t),
		ListenAddresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Neighbours: []Neighbour{r.neighbour()}}, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(t.Context(), ""); err != nil {
			t.Error(err)
		}
		finish(t.Context(), s)
	}()
	(&bridge{s: s, log: discard()}).Panic("code logic bug", nil)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := s.Run(ctx); err == nil || !strings.Contains(err.Error(), "code logic bug") {
		t.Errorf("Run returned %v, want what GoBGP reported", err)
	}
	if _, err := s.Read(t.Context()); err == nil {
		t.Error("Read knows something although GoBGP failed")
	}
}
