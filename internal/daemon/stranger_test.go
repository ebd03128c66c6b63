package daemon

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rhid/announce"
	"rhid/announce/bgp"
	"rhid/internal/config"
)

const strangerConfig = `
bgp: {asn: 65010}
sites:
  - {name: beijing, routers: [{address: 10.1.0.1, asn: 65000, name: tor}, {address: 10.1.0.2, asn: 65000}]}
nodes:
  - {name: lb-1, site: beijing, address: 10.1.0.11}
  - {name: lb-2, site: beijing, address: 10.1.0.12}
checks:
  web: {type: http, address: "10.9.1.1:80"}
services:
  - {name: atm, vips: [10.255.0.10/32, 10.255.0.12/32, 10.255.0.13/32, 10.255.0.14/32], order: [lb-1, lb-2], check: web}
  - {name: block, vips: [10.255.1.0/28], order: [lb-1, lb-2], check: web}
`

// Routes of somebody else are found and named; the cluster's own are not.
func TestStrangers(t *testing.T) {
	cfg, err := config.Parse("rhid.yaml", []byte(strangerConfig), nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newModel(cfg, "lb-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	ours := []announce.LargeCommunity{{Global: 65010, Local1: 2, Local2: 0}}
	seen := func(prefix, router string, large []announce.LargeCommunity, path ...uint32) map[netip.Prefix][]bgp.Sighting {
		return map[netip.Prefix][]bgp.Sighting{netip.MustParsePrefix(prefix): {{Neighbour: router, Here: true, LargeCommunities: large, ASPath: path}}}
	}
	x := newStrangers()
	for _, tt := range []struct {
		name         string
		vips, others map[netip.Prefix][]bgp.Sighting
		want         string
	}{
		{"the cluster's AS, and the router may strip communities", seen("10.255.0.10/32", "10.1.0.1", nil, 65000, 65010), nil, ""},
		{"the cluster's own", seen("10.255.0.10/32", "10.1.0.1", ours, 65000, 65010), nil, ""},
		{
			"a twin with the same ASN, and the router does not strip",
			seen("10.255.0.10/32", "10.1.0.1", nil, 65000, 65010), nil,
			"vip-stranger 10.255.0.10/32: router tor (10.1.0.1) has this VIP from AS 65010 (path 65000 65010) without a community of the cluster: a hijack, or a twin that is configured apart",
		},
		{
			"a hijack", seen("10.255.0.10/32", "10.1.0.2", []announce.LargeCommunity{{Global: 65010, Local1: 9}}, 65000, 65099), nil,
			"vip-stranger 10.255.0.10/32: router 10.1.0.2 has this VIP from AS 65099 (path 65000 65099) without a community of the cluster: a hijack, or a twin that is configured apart",
		},
		{
			"withdrawn",
			map[netip.Prefix][]bgp.Sighting{netip.MustParsePrefix("10.255.0.10/32"): {{Neighbour: "10.1.0.2"}}}, nil, "",
		},
		{
			"a summary", nil, seen("10.255.0.0/24", "10.1.0.2", nil, 65000),
			"vip-covered 10.255.0.0/24: router 10.1.0.2 has 10.255.0.0/24 from AS 65000 (path 65000), which contains 10.255.0.10/32, 10.255.0.12/32, 10.255.0.13/32 and 1 more: where the VIP is withdrawn, traffic follows it",
		},
		{
			"a part of a block", nil, seen("10.255.1.8/29", "10.1.0.2", nil),
			"vip-split 10.255.1.8/29: router 10.1.0.2 has 10.255.1.8/29 from its own AS, a part of the VIP 10.255.1.0/28: it draws that part's traffic from every node",
		},
	} {
		x.alarms = x.find(m, tt.vips, tt.others)
		got := ""
		for _, a := range x.list() {
			got += a.Code + " " + a.What + ": " + a.Detail
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
