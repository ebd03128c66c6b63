package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rhid/announce"
	"rhid/internal/config"
	"rhid/services"
)

const toldConfig = `
bgp: {asn: 65010}
sites:
  - name: beijing
    attributes:
      ranks: [{med: 10}, {med: 20, prepend: 0, communities: ["65000:20", "65000:1:20"]}]
      worst: {med: 900, prepend: 5}
    routers:
      - {address: 10.1.0.1, asn: 65000}
      - {address: 10.1.0.2, asn: 65000, attributes: {draining: {med: 7, origin: incomplete}, degraded: {communities: ["65000:99"]}}}
      - {address: 10.1.0.3, asn: 65010, services: [pos], attributes: {worst: {local_preference: 5}}}
nodes:
  - {name: lb-1, site: beijing, address: 10.1.0.11, link_bandwidth: 10000}
  - {name: lb-2, site: beijing, address: 10.1.0.12}
checks:
  web: {type: http, address: "10.9.1.1:80"}
services:
  - {name: atm, vips: [10.255.0.10/32], order: [lb-1, lb-2], check: web, communities: ["65000:7"], metric: {base: 100, step: 100}}
  - {name: pos, vips: [10.255.0.11/32], order: [lb-1, lb-2], check: web, all_down: keep, link_bandwidth: {lb-1: 25000}}
`

// What each router is told, by rank and by state.
func TestTold(t *testing.T) {
	cfg, err := config.Parse("rhid.yaml", []byte(toldConfig), nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newModel(cfg, "lb-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	large := func(rank uint32, more ...announce.LargeCommunity) []announce.LargeCommunity {
		return append([]announce.LargeCommunity{{Global: 65010, Local1: 1, Local2: rank}}, more...)
	}
	degraded := announce.LargeCommunity{Global: 65010, Local2: 1}
	const std, shutdown = 65000<<16 | 7, 0xFFFF0000
	for _, tt := range []struct {
		name    string
		service int
		phase   phase
		verdict services.Decision
		want    told
	}{
		{
			"rank 0", 0, phaseRunning, services.Decision{Verdict: services.Announce},
			told{
				announce.Attrs{Metric: 100, Bandwidth: 10_000, Communities: []uint32{std}, LargeCommunities: large(0)},
				announce.Towards{Except: []string{"10.1.0.3"}, Attrs: map[string]announce.Attrs{
					"10.1.0.1": {Metric: 10, Bandwidth: 10_000, Communities: []uint32{std}, LargeCommunities: large(0)},
				}},
			},
		},
		{
			"rank 1", 0, phaseRunning, services.Decision{Verdict: services.Announce, Rank: 1},
			told{
				announce.Attrs{Rank: 1, Metric: 200, Prepend: 1, Bandwidth: 10_000, Communities: []uint32{std}, LargeCommunities: large(1)},
				announce.Towards{Except: []string{"10.1.0.3"}, Attrs: map[string]announce.Attrs{
					"10.1.0.1": {Rank: 1, Metric: 20, Bandwidth: 10_000, Communities: []uint32{std, 65000<<16 | 20}, LargeCommunities: large(1, announce.LargeCommunity{Global: 65000, Local1: 1, Local2: 20})},
				}},
			},
		},
		{
			"draining", 0, phaseDraining, services.Decision{Verdict: services.Announce},
			told{
				announce.Attrs{Rank: 2, Metric: 300, Prepend: 2, Bandwidth: 10_000, Communities: []uint32{std, shutdown}, LargeCommunities: large(2)},
				announce.Towards{Except: []string{"10.1.0.3"}, Attrs: map[string]announce.Attrs{
					"10.1.0.1": {Rank: 2, Metric: 900, Prepend: 5, Bandwidth: 10_000, Communities: []uint32{std, shutdown}, LargeCommunities: large(2)},
					"10.1.0.2": {Rank: 2, Metric: 7, Prepend: 2, Origin: announce.OriginIncomplete, Bandwidth: 10_000, Communities: []uint32{std, shutdown}, LargeCommunities: large(2)},
				}},
			},
		},
		{
			"kept though down", 1, phaseRunning, services.Decision{Verdict: services.Announce, Degraded: true},
			told{
				announce.Attrs{Rank: 2, Metric: 300, Prepend: 2, Bandwidth: 25_000, LargeCommunities: large(2, degraded)},
				announce.Towards{Attrs: map[string]announce.Attrs{
					"10.1.0.1": {Rank: 2, Metric: 900, Prepend: 5, Bandwidth: 25_000, LargeCommunities: large(2, degraded)},
					"10.1.0.2": {Rank: 2, Metric: 300, Prepend: 2, Bandwidth: 25_000, Communities: []uint32{65000<<16 | 99}, LargeCommunities: large(2, degraded)},
					"10.1.0.3": {Rank: 2, Metric: 300, Prepend: 2, LocalPref: 5, Bandwidth: 25_000, LargeCommunities: large(2, degraded)},
				}},
			},
		},
	} {
		s := m.services[tt.service]
		v := m.want(s, s.conf.VIPs[0], tt.verdict, tt.phase)
		if diff := cmp.Diff(tt.want, told{v.Attrs, v.Towards}, cmp.AllowUnexported(told{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
