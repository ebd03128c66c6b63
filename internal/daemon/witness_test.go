package daemon

import (
	"net/netip"
	"testing"

	"rhid/announce"
	"rhid/announce/bgp"
	"rhid/internal/config"
	"rhid/services"
)

// TestWitness goes through what two routers send back of node 1's route.
func TestWitness(t *testing.T) {
	vip := netip.MustParsePrefix("10.255.0.10/32")
	node := config.Node{Name: "a1", ASN: 65010, ID: 1}
	path := func(router string, id, rank uint32) bgp.Sighting {
		return bgp.Sighting{Neighbour: router, Here: true, LargeCommunities: []announce.LargeCommunity{{Global: 65010, Local1: id, Local2: rank}}}
	}
	nothing := func(router string) bgp.Sighting { return bgp.Sighting{Neighbour: router} }
	exported, hidden := claim{exported: true}, claim{exported: true, hidden: true}
	ranked := func(rank int) claim { return claim{exported: true, rank: rank} }
	type step struct {
		claim claim
		now   []bgp.Sighting
		want  services.Witness
	}
	for name, steps := range map[string][]step{
		"a router that never had it abstains": {{exported, []bgp.Sighting{nothing("r1")}, services.Abstains}},
		"seen, and gone": {
			{exported, []bgp.Sighting{path("r1", 1, 0)}, services.SeesRoute},
			{exported, []bgp.Sighting{nothing("r1")}, services.RouteGone},
		},
		"gone from one router of two": {
			{exported, []bgp.Sighting{path("r1", 1, 0), path("r2", 1, 0)}, services.SeesRoute},
			{exported, []bgp.Sighting{nothing("r1"), path("r2", 1, 0)}, services.SeesRoute},
		},
		"replaced by one that ranks worse": {
			{exported, []bgp.Sighting{path("r1", 1, 0)}, services.SeesRoute},
			{exported, []bgp.Sighting{path("r1", 2, 1)}, services.RouteGone},
		},
		"replaced by another best one": {
			{exported, []bgp.Sighting{path("r1", 1, 0)}, services.SeesRoute},
			{exported, []bgp.Sighting{path("r1", 2, 0)}, services.Abstains},
		},
		"gone, and stays so when the own one is there": {
			{exported, []bgp.Sighting{path("r1", 1, 0)}, services.SeesRoute},
			{exported, []bgp.Sighting{nothing("r1")}, services.RouteGone},
			{hidden, []bgp.Sighting{path("r1", 2, 0)}, services.RouteGone},
			{hidden, []bgp.Sighting{path("r1", 1, 0)}, services.SeesRoute},
		},
		"withdrawn because the own one is as good, also later": {
			{exported, []bgp.Sighting{path("r1", 1, 0)}, services.SeesRoute},
			{hidden, []bgp.Sighting{nothing("r1")}, services.Abstains},
			{exported, []bgp.Sighting{nothing("r1")}, services.Abstains},
			{exported, []bgp.Sighting{path("r1", 1, 0)}, services.SeesRoute},
		},
		"replaced by one that is as good as it is at its present rank": {
			{ranked(2), []bgp.Sighting{path("r1", 1, 2)}, services.SeesRoute},
			{ranked(2), []bgp.Sighting{path("r1", 2, 2)}, services.Abstains},
		},
		"the node went to another rank, which was heard of later": {
			{ranked(0), []bgp.Sighting{path("r1", 1, 0)}, services.SeesRoute},
			{ranked(0), []bgp.Sighting{path("r1", 2, 1)}, services.RouteGone},
			{ranked(2), []bgp.Sighting{path("r1", 2, 1)}, services.Abstains},
			{ranked(2), []bgp.Sighting{nothing("r1")}, services.Abstains},
		},
		"gone, and the node says so itself: its next session counts": {
			{exported, []bgp.Sighting{path("r1", 1, 0)}, services.SeesRoute},
			{exported, []bgp.Sighting{nothing("r1")}, services.RouteGone},
			{claim{}, []bgp.Sighting{nothing("r1")}, services.Abstains},
			{hidden, []bgp.Sighting{nothing("r1")}, services.Abstains},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWitness()
			s := &service{conf: &config.Service{VIPs: []netip.Prefix{vip}}}
			for i, st := range steps {
				if got := w.hearOf(node, s, st.claim, map[netip.Prefix][]bgp.Sighting{vip: st.now}); got != st.want {
					t.Errorf("step %d: got %d, want %d", i, got, st.want)
				}
			}
		})
	}
}
