package bgp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"rhid/announce"
)

// manyRoutes is a speaker with 1,000 VIPs and four routers.
func manyRoutes(b *testing.B) (*bench, []string) {
	b.Helper()
	var prefixes []string
	for i := range 1000 {
		prefixes = append(prefixes, fmt.Sprintf("10.255.%d.%d/32", i/250, i%250))
	}
	var neighbours []Neighbour
	var routers []*router
	for i := range 4 {
		r := newRouter(b, netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)}).String(), routeASN)
		r.in = nil // nobody looks at what it receives
		routers, neighbours = append(routers, r), append(neighbours, r.neighbour())
	}
	s := start(b, strings.Join(prefixes, " "), neighbours...)
	for _, r := range routers {
		s.join(r)
	}
	for _, p := range prefixes {
		s.put(p, announce.Attrs{Metric: 100, Prepend: 1, LargeCommunities: []announce.LargeCommunity{{Global: ourASN}}})
	}
	return s, prefixes
}

func BenchmarkRead(b *testing.B) {
	s, _ := manyRoutes(b)
	for b.Loop() {
		if _, err := s.Read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChange changes one route after the other.
func BenchmarkChange(b *testing.B) {
	s, prefixes := manyRoutes(b)
	for i := 0; b.Loop(); i++ {
		s.put(prefixes[i%len(prefixes)], announce.Attrs{Metric: uint32(i), Prepend: 1})
	}
}

// BenchmarkWithdrawAll takes 1,000 routes out, until every withdraw is written.
func BenchmarkWithdrawAll(b *testing.B) {
	s, prefixes := manyRoutes(b)
	for b.Loop() {
		for _, p := range prefixes {
			s.remove(p)
		}
		if !s.await(b.Context(), func() bool {
			left := 0
			for _, n := range s.neighbours {
				left += len(n.sent)
			}
			return left == 0
		}) {
			b.Fatal("not written")
		}
		b.StopTimer()
		for _, p := range prefixes {
			s.put(p, announce.Attrs{})
		}
		b.StartTimer()
	}
}
