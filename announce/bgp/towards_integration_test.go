//go:build integration

package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/announce"
	"rhid/internal/lab"
)

// towardsRoute looks different to each of routerNeighbours: the first has it
// as it is, the second not at all, the third with attributes of its own.
func towardsRoute(prefix string) announce.Route {
	return announce.Route{
		Prefix: netip.MustParsePrefix(prefix),
		Attrs:  announce.Attrs{Metric: 100, Communities: []uint32{65010<<16 | 7}},
		Towards: announce.Towards{
			Except: []string{"2001:db8:1::254"},
			Attrs: map[string]announce.Attrs{"10.99.0.254": {
				Metric: 5, Prepend: 3, Origin: announce.OriginIncomplete, Communities: []uint32{65010<<16 | 9},
				LargeCommunities: []announce.LargeCommunity{{Global: ourASN, Local1: 3, Local2: 1}},
			}},
		},
	}
}

// What differs between neighbours, as FRR has it; and a change of it.
func TestFRRTowards(t *testing.T) {
	if !inside(t) {
		return
	}
	f := startFRR(t)
	b := startWith(t, routerSettings())
	established(b)
	route := towardsRoute(vip4)
	has := func(what string, want ...string) {
		t.Helper()
		begin := time.Now()
		b.until("FRR to have "+what, func() (bool, string) {
			got := f.paths(vip4)
			text := routesText(got)
			for _, w := range want {
				if !strings.Contains(text, w) {
					return false, text
				}
			}
			return len(got) == len(want), text
		})
		t.Logf("FRR has %s after %v:\n%s", what, time.Since(begin), routesText(f.paths(vip4)))
	}
	put := func() {
		t.Helper()
		if err := b.Put(t.Context(), route); err != nil {
			t.Fatal(err)
		}
	}
	put()
	has("what differs", "from 192.0.2.1 via 192.0.2.1 path [65010] med 100 communities [65010:7] large []",
		"from 10.99.0.1 via 10.99.0.1 path [65010 65010 65010 65010] med 5 communities [65010:9] large [65010:3:1]")
	b.place(vip4, "10.99.0.254", "present", "")

	route.Towards = announce.Towards{Except: []string{"192.0.2.254"}}
	put()
	has("what differs then", "from 10.99.0.1 via 10.99.0.1 path [65010] med 100 communities [65010:7] large []",
		"from 2001:db8:1::1 via 2001:db8:1::1 path [65010] med 100 communities [65010:7] large []")
	b.until("the withdraw to be confirmed", func() (bool, string) {
		seen, err := b.Read(t.Context())
		if err != nil {
			return false, err.Error()
		}
		places := seen[netip.MustParsePrefix(vip4)].Places
		return len(places) == 2, fmt.Sprint(places)
	})
}

// A new password on a running session: the others are not touched, and the
// route is away for no longer than a reconnect takes.
func TestFRRNewPassword(t *testing.T) {
	if !inside(t) {
		return
	}
	f := startFRR(t)
	b := startWith(t, routerSettings())
	established(b)
	putBoth(b)
	b.place(vip4, "192.0.2.254", "present", "")
	others := []time.Time{b.state("2001:db8:1::254", stateEstablished).Since, b.state("10.99.0.254", stateEstablished).Since}
	st := routerSettings()
	tries := 0
	lab.Steady(t, still, func() (misses []string) {
		tries++
		st.Neighbours = slices.Clone(st.Neighbours)
		st.Neighbours[0].Password = fmt.Sprint("another-secret-", tries)
		was := b.state("192.0.2.254", stateEstablished).Since
		f.vty("configure terminal", "router bgp 65000", "neighbor 192.0.2.1 password "+st.Neighbours[0].Password)
		began := time.Now()
		if err := b.Configure(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		b.until("a new session", func() (bool, string) {
			got := b.state("192.0.2.254", stateEstablished).Since
			return got.After(was), fmt.Sprint("established ", got)
		})
		b.until("the route to be back", func() (bool, string) { // FRR takes no new session before it has dropped what the old one told
			got := routesText(f.paths(vip4))
			return strings.Contains(got, "from 192.0.2.1 "), got
		})
		took := time.Since(began)
		t.Logf("new password: session back and route at FRR again %v after the change", took)
		if took > 4*time.Second {
			misses = append(misses, fmt.Sprintf("the route was back only after %v", took))
		}
		b.place(vip4, "192.0.2.254", "present", "")
		return misses
	})
	for i, name := range []string{"2001:db8:1::254", "10.99.0.254"} {
		if got := b.state(name, stateEstablished).Since; !got.Equal(others[i]) {
			t.Errorf("the session with %s was touched: established %v, before %v", name, got, others[i])
		}
	}
}
