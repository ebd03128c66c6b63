package lab

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var compareAddrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestParseFRRPaths(t *testing.T) {
	got, err := parseFRRPaths(`{"prefix":"10.255.0.10/32","paths":[
	 {"aspath":{"segments":[{"type":"as-sequence","list":[65002,65002]}]},"origin":"IGP","metric":100,"locPrf":0,
	  "community":{"list":["65000:100","gracefulShutdown","noExport"]},"largeCommunity":{"list":["65010:1:0"]},
	  "nexthops":[{"ip":"10.0.0.2"}],"peer":{"peerId":"10.0.0.2"}},
	 {"aspath":{"segments":[]},"origin":"incomplete","bestpath":{"overall":true},
	  "nexthops":[{"ip":"fd00::2","scope":"global"},{"ip":"fe80::1","scope":"link-local"}],"peer":{"peerId":"(unspec)"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []BGPPath{
		{
			Present: true, From: netip.MustParseAddr("10.0.0.2"), NextHop: netip.MustParseAddr("10.0.0.2"), Origin: "igp", MED: 100,
			ASPath:           []uint32{65002, 65002},
			Communities:      []string{"65000:100", "65535:0", "65535:65281"},
			LargeCommunities: []string{"65010:1:0"},
		},
		{Present: true, Best: true, Origin: "incomplete", NextHop: netip.MustParseAddr("fd00::2")},
	}
	if diff := cmp.Diff(want, got, compareAddrs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := parseFRRPaths("{}"); err != nil || len(got) != 0 {
		t.Errorf("no paths: %v, %v", got, err)
	}
	if _, err := parseFRRPaths("% Can't open bgpd"); err == nil {
		t.Error("no error for what is no JSON")
	}
}

const birdTable = `BIRD 2.0.12 ready.
Table master4:
10.255.0.10/32       blackhole [static1 23:21:07.155] * (200)
	Type: static univ
                     unicast [x 23:21:09.807] (100) [AS65002i]
	via 10.0.1.1 on eth1
	Type: BGP univ
	BGP.origin: IGP
	BGP.as_path: 65001 65002
	BGP.next_hop: fd00::1 fe80::1
	BGP.med: 7
	BGP.local_pref: 100
	BGP.community: (65000,100) (65535,0)
	BGP.large_community: (65010, 1, 0)
                     unicast [o4 23:29:31.200] E1 (150/40) [10.2.0.1]
	via 10.1.4.2 on eth4
	Type: OSPF-E1 univ
	OSPF.metric1: 40
`

func TestParseBirdRoutes(t *testing.T) {
	routes := parseBirdRoutes(birdTable)
	if len(routes) != 3 || !routes[0].best || routes[1].best || routes[2].number("OSPF.metric1") != 40 {
		t.Fatalf("routes %+v", routes)
	}
	got, err := routes[1].bgp()
	if err != nil {
		t.Fatal(err)
	}
	hop := netip.MustParseAddr("fd00::1")
	want := BGPPath{
		Present: true, From: hop, NextHop: hop, Origin: "igp", MED: 7, LocalPref: 100, ASPath: []uint32{65001, 65002},
		Communities: []string{"65000:100", "65535:0"}, LargeCommunities: []string{"65010:1:0"},
	}
	if diff := cmp.Diff(want, got, compareAddrs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none := parseBirdRoutes("BIRD 2.0.12 ready.\nNetwork not found\n"); len(none) != 0 {
		t.Errorf("no routes: %+v", none)
	}
}

func TestBirdEstablished(t *testing.T) {
	const text = `BIRD 2.0.12 ready.
Name       Proto      Table      State  Since         Info
a4         BGP        ---        up     23:21:09.807  Established
  BGP state:          Established
    Neighbor address: 10.0.0.1
a6         BGP        ---        start  23:21:09.807  Active
  BGP state:          Active
    Neighbor address: fd00::1
`
	for neighbour, want := range map[string]bool{"10.0.0.1": true, "fd00::1": false, "10.0.0.3": false} {
		if got := birdEstablished(text, neighbour); got != want {
			t.Errorf("%s: %v", neighbour, got)
		}
	}
}

func TestParseFRRCost(t *testing.T) {
	cost, ok, err := parseFRRCost(`{"10.0.0.0/8":[{"protocol":"kernel","metric":5},{"protocol":"ospf","metric":30}]}`)
	if cost != 30 || !ok || err != nil {
		t.Errorf("%d, %v, %v", cost, ok, err)
	}
	if _, ok, err := parseFRRCost(`{}`); ok || err != nil {
		t.Errorf("no route: %v, %v", ok, err)
	}
}

func TestSummarize(t *testing.T) {
	start := time.Now()
	at := func(ms int, who string, e ConnError) Attempt {
		return Attempt{Start: start.Add(time.Duration(ms) * time.Millisecond), Took: 5 * time.Millisecond, Who: who, Error: e}
	}
	for name, c := range map[string]struct {
		attempts []Attempt
		want     ProbeResult
	}{
		"none": {nil, ProbeResult{Who: map[string]int{}, Errors: map[ConnError]int{}}},
		"good": {[]Attempt{at(0, "a", ""), at(10, "b", "")}, ProbeResult{OK: 2, Who: map[string]int{"a": 1, "b": 1}, Errors: map[ConnError]int{}}},
		"two outages": {
			[]Attempt{at(0, "a", ""), at(10, "", ConnReset), at(20, "a", ""), at(30, "", ConnRefused), at(40, "", ConnTimeout), at(70, "b", "")},
			ProbeResult{
				OK: 3, Failed: 3, Who: map[string]int{"a": 2, "b": 1}, Errors: map[ConnError]int{ConnReset: 1, ConnRefused: 1, ConnTimeout: 1},
				LongestOutage: 40 * time.Millisecond, OutageFrom: start.Add(30 * time.Millisecond),
			},
		},
		"to the end": {
			[]Attempt{at(0, "a", ""), at(10, "", ConnReset), at(20, "", ConnReset)},
			ProbeResult{
				OK: 1, Failed: 2, Who: map[string]int{"a": 1}, Errors: map[ConnError]int{ConnReset: 2},
				LongestOutage: 15 * time.Millisecond, OutageFrom: start.Add(10 * time.Millisecond),
			},
		},
	} {
		if diff := cmp.Diff(c.want, summarise(c.attempts)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
