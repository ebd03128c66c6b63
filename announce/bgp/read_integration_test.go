//go:build integration

package bgp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"rhid/announce"
)

// TestReadTakesMilliseconds is no unit test, for the race detector would make ten
// times as much of it.
func TestReadTakesMilliseconds(t *testing.T) {
	const routes, limit = 1000, 5 * time.Millisecond
	var neighbours []Neighbour
	var routers []*router
	for i := range 4 {
		r := newRouter(t, netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)}).String(), routeASN)
		routers = append(routers, r)
		neighbours = append(neighbours, r.neighbour())
	}
	var allowed strings.Builder
	var prefixes []string
	for i := range routes {
		prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 255, byte(i >> 8), byte(i)}), 32).String())
		allowed.WriteString(prefixes[i] + " ")
	}
	b := start(t, allowed.String(), neighbours...)
	for _, r := range routers {
		b.join(r)
	}
	for _, p := range prefixes {
		b.put(p, announce.Attrs{Metric: 100, Prepend: 1, LargeCommunities: []announce.LargeCommunity{{Global: ourASN, Local1: 1}}})
	}
	for _, n := range neighbours {
		b.place(prefixes[routes-1], n.Address.String(), "present", "")
	}
	best := time.Hour
	for range 30 { // the best of many: other work on the machine is not Read's
		begin := time.Now()
		seen, err := b.Read(t.Context())
		best = min(best, time.Since(begin))
		if err != nil || len(seen) != routes {
			t.Fatalf("Read: %d routes, %v", len(seen), err)
		}
	}
	t.Logf("Read of %d routes at %d neighbours: %v", routes, len(neighbours), best)
	if best > limit {
		t.Errorf("Read takes %v, more than %v", best, limit)
	}
}
