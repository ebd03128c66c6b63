package bgp

import (
	"net/netip"
	"testing"

	"rhid/announce"
)

// Each neighbour gets the attributes meant for it, all of them replaced, and
// one that is not to be told gets nothing.
func TestTowards(t *testing.T) {
	plain, other, inner := newRouter(t, "127.0.1.1", routeASN), newRouter(t, "127.0.1.2", routeASN), newRouter(t, "127.0.1.3", ourASN)
	b := start(t, "192.0.2.10/32 2001:db8::10/128", plain.neighbour(), other.neighbour(), inner.neighbour())
	for _, r := range []*router{plain, other, inner} {
		b.join(r)
	}
	route := announce.Route{
		Prefix: netip.MustParsePrefix("192.0.2.10/32"),
		Attrs:  announce.Attrs{Metric: 100, Prepend: 1, Communities: []uint32{7}, Bandwidth: 10_000},
		Towards: announce.Towards{Attrs: map[string]announce.Attrs{
			"127.0.1.2": {Metric: 5, Prepend: 3, Communities: []uint32{65000<<16 | 9}, LargeCommunities: []announce.LargeCommunity{{Global: 1, Local1: 2, Local2: 3}}},
			"127.0.1.3": {Metric: 6, Prepend: 2, LocalPref: 50, Origin: announce.OriginIncomplete},
		}},
	}
	put := func() {
		t.Helper()
		if err := b.Put(t.Context(), route); err != nil {
			t.Fatal(err)
		}
	}
	want := func(r *router, text string) {
		t.Helper()
		if got := r.update(); got != text {
			t.Errorf("router %v received\n %s, want\n %s", r.addr, got, text)
		}
	}
	put()
	want(plain, "+192.0.2.10/32, path [65010 65010], via 127.0.0.1, med 100, communities [7], bandwidth 1.25e+09")
	want(other, "+192.0.2.10/32, path [65010 65010 65010 65010], via 127.0.0.1, med 5, communities [4259840009], bandwidth 1.25e+09, large [1:2:3]")
	want(inner, "+192.0.2.10/32, origin 2, path [], via 127.0.0.1, med 6, pref 50, bandwidth 1.25e+09")
	for _, at := range []string{"127.0.1.1", "127.0.1.2", "127.0.1.3"} {
		b.place("192.0.2.10/32", at, "present", "")
	}
	if seen, err := b.Read(t.Context()); err != nil || !b.Same(route, seen[route.Prefix]) {
		t.Errorf("what was put is not the same as %+v (%v)", seen, err)
	}

	// Others of the same kind share the statements; one more rank adds some.
	six := route
	six.Prefix = netip.MustParsePrefix("2001:db8::10/128")
	if mark, inForce, err := b.special.mark(normal(six)); err != nil || mark != firstSpecial || !inForce {
		t.Errorf("a route that says the same has mark %d (in force: %v, %v)", mark, inForce, err)
	}

	route.Towards = announce.Towards{Except: []string{"127.0.1.2"}}
	put()
	want(plain, "+192.0.2.10/32, path [65010 65010], via 127.0.0.1, med 100, communities [7], bandwidth 1.25e+09")
	want(other, "-192.0.2.10/32")
	other.keepalive()
	b.until("nothing left at 127.0.1.2", func() (bool, string) {
		other.keepalive()
		seen, err := b.Read(t.Context())
		return err == nil && len(seen[route.Prefix].Places) == 2, "a place"
	})
	other.quiet()

	route.Attrs.Metric = 200
	put()
	want(plain, "+192.0.2.10/32, path [65010 65010], via 127.0.0.1, med 200, communities [7], bandwidth 1.25e+09")
	route.Towards = announce.Towards{}
	put() // GoBGP tells the others once more, too
	want(plain, "+192.0.2.10/32, path [65010 65010], via 127.0.0.1, med 200, communities [7], bandwidth 1.25e+09")
	want(other, "+192.0.2.10/32, path [65010 65010], via 127.0.0.1, med 200, communities [7], bandwidth 1.25e+09")
	for _, at := range []string{"127.0.1.1", "127.0.1.2", "127.0.1.3"} {
		b.place("192.0.2.10/32", at, "present", "")
	}
	b.remove("192.0.2.10/32")
	want(plain, "-192.0.2.10/32")
}

// GoBGP's table is read back with what its marks stand for.
func TestTowardsIsReadBack(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32", r.neighbour())
	route := announce.Route{
		Prefix: netip.MustParsePrefix("192.0.2.10/32"), Attrs: announce.Attrs{Prepend: 4},
		Towards: announce.Towards{Attrs: map[string]announce.Attrs{"127.0.1.1": {Metric: 5}}},
	}
	if err := b.Put(t.Context(), route); err != nil {
		t.Fatal(err)
	}
	if err := b.listTable(); err != nil {
		t.Fatal(err)
	}
	if seen, err := b.Read(t.Context()); err != nil || !b.Same(route, seen[route.Prefix]) {
		t.Errorf("read back as %+v (%v)", seen, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.table, route.Prefix) // as if another life of the books had put it
	b.correctLocked(map[netip.Prefix]foundPath{route.Prefix: {mark: firstSpecial}})
	if got := b.table[route.Prefix].route; got.Attrs.Prepend != 4 || !got.Towards.Equal(route.Towards) {
		t.Errorf("the book says %+v", got)
	}
	clear(b.table)
	b.special.prune(b.table)
	if len(b.special.byMark) != 0 {
		t.Error("what no route says is kept")
	}
}
