package routerconf

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rhid/internal/config"
)

const file = `bgp: {asn: 65010, hold: 3s}
kernel: {KERNEL}
sites:
  - name: beijing
    routers:
      - {name: tor, address: 10.1.0.1, asn: 65001, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4]}
      - {name: far, address: "fd00::1", asn: 65001, multihop: 3, services: [atm], bfd: {interval: 100ms}}
nodes:
  - {name: lb1, site: beijing, address: 10.1.0.11}
  - {name: lb2, site: beijing, address: 10.1.0.12}
services:
  - {name: atm, vips: [10.255.0.10/32, "fd00:255::10/128"], check: {type: tcp, address: "10.9.1.1:80"}}
  - {name: pos, vips: [10.255.0.11/32], check: {type: tcp, address: "10.9.1.1:80"}}
  - {name: counter, via: [kernel], vips: [10.255.0.20/32, "fd00:255::20/128"], check: {type: tcp, address: "10.9.1.1:80"}}
`

func parse(t *testing.T, kernel string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("rhid.yaml", []byte(strings.Replace(file, "KERNEL", kernel, 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestWrite(t *testing.T) {
	secret := func(config.Router) (string, error) { return "secret", nil }
	for _, tt := range []struct {
		name   string
		kernel string
		o      Options
		has    []string
		hasNot []string
	}{
		{
			"frr", "", Options{For: FRR, Via: "bgp", Routers: []string{"tor"}},
			[]string{
				"router bgp 65001\n", " neighbor 10.1.0.11 remote-as 65010\n", " neighbor 10.1.0.12 ttl-security hops 1\n",
				" neighbor 10.1.0.11 timers 1 3\n", "permit 10.255.0.11/32\n", "  neighbor 10.1.0.11 route-map RHID-VIPS out\n",
				" ! neighbor 10.1.0.11 password the first line of /etc/rhid/bgp.pw on the host\n", " bgp graceful-restart-disable\n",
			},
			[]string{"ipv6", "10.255.0.20", "multihop"},
		},
		{
			"frr, with passwords", "", Options{For: FRR, Via: "bgp", Node: "lb2", Password: secret},
			[]string{" neighbor 10.1.0.12 password secret\n", " neighbor 10.1.0.12 ebgp-multihop 3\n", " neighbor 10.1.0.12 bfd 3 100 100\n", "  neighbor 10.1.0.12 maximum-prefix 12\n"},
			[]string{"10.1.0.11 "},
		},
		{
			"two neighbours that are one router", "", Options{For: FRR, Via: "bgp", Node: "lb1", Routers: []string{"tor", "fd00::1"}},
			[]string{" neighbor 10.1.0.11 ttl-security hops 1\n", " neighbor 10.1.0.11 ebgp-multihop 3\n"},
			[]string{"Router far"},
		},
		{
			"bird", "", Options{For: BIRD, Via: "bgp", Password: secret},
			[]string{
				"  neighbor 10.1.0.11 as 65010;\n", "  password \"secret\";\n", "  multihop 3;\n", "  ttl security on;\n", "  bfd on;\n", "  multihop { min rx interval 100 ms; min tx interval 100 ms; multiplier 3; };\n",
				"filter rhid_vips4 { if net ~ [ 10.255.0.10/32, 10.255.0.11/32 ] then accept; reject; }\n",
			},
			[]string{"10.255.0.20"},
		},
		{
			"cisco", "", Options{For: Cisco, Via: "bgp"},
			[]string{" neighbor 10.1.0.11 ttl-security hops 1\n", "  neighbor 10.1.0.11 prefix-list RHID-VIPS out\n", " neighbor 10.1.0.11 timers 1 3\n", " neighbor 10.1.0.11 fall-over bfd\n"},
			nil,
		},
		{
			"huawei", "", Options{For: Huawei, Via: "bgp"},
			[]string{" peer 10.1.0.11 as-number 65010\n", " peer 10.1.0.11 valid-ttl-hops 1\n", "ip ip-prefix RHID-VIPS index 10 permit 10.255.0.10 32\n", "  peer 10.1.0.11 ip-prefix RHID-VIPS export\n", " peer 10.1.0.11 bfd enable\n"},
			nil,
		},
		{
			"frr beside rhid, tiers", "next_hop: tier, tiers: [10, 100]", Options{For: FRR, Via: "kernel", Node: "lb1", HostInterface: "ens3", RouterInterface: "eth7", Area: "0.0.0.1"},
			[]string{
				"interface ens3\n ip ospf area 0.0.0.1\n", "interface eth7\n", " match ip next-hop prefix-list RHID-TIER-100\n set metric 100\n",
				" ospf router-id 10.1.0.11\n", "ipv6 prefix-list RHID-VIPS6 seq 5 permit fd00:255::20/128\n",
			},
			[]string{"10.255.0.10", "lb2"},
		},
		{
			"frr beside rhid, tiers with devices", "next_hop: tier, tiers: [10, 100], tier_devices: [t0, t1]", Options{For: FRR, Via: "kernel", Side: SideHost, Node: "lb1"},
			[]string{
				"route-map RHID-OSPF6 permit 10\n match ipv6 address prefix-list RHID-VIPS6\n match interface t0\n set metric 10\n",
				"route-map RHID-OSPF6 permit 20\n match ipv6 address prefix-list RHID-VIPS6\n match interface t1\n set metric 100\n",
			},
			[]string{"+1", "permit 30"},
		},
		{
			"frr beside rhid, metric", "protocol: 150", Options{For: FRR, Via: "kernel", Side: SideHost, Node: "lb1"},
			[]string{" match ip address prefix-list RHID-VIPS\n set metric +1\n"},
			[]string{"TIER", "The router"},
		},
		{
			"bird beside rhid", "protocol: 150, table: 151", Options{For: BIRD, Via: "kernel", Side: SideHost, HostInterface: "ens3", Area: "0"},
			[]string{"krt_source != 150", "  kernel table 151;\n", "area 0 { interface \"ens3\"", "net !~ [ fd00:255::20/128 ]", "On host lb2"},
			[]string{"The router"},
		},
		{
			"bird as the router", "", Options{For: BIRD, Via: "kernel", Side: SideRouter, Node: "lb1", RouterInterface: "eth7", Area: "0"},
			[]string{"interface \"eth7\" { type ptp; hello 1; dead 4;", "export none"},
			[]string{"learn"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kernel := tt.kernel
			if kernel == "" {
				kernel = "lease: true"
			}
			got, err := Write(parse(t, kernel), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.has {
				if !strings.Contains(got, want) {
					t.Errorf("lacks %q:\n%s", want, got)
				}
			}
			for _, bad := range tt.hasNot {
				if strings.Contains(got, bad) {
					t.Errorf("has %q:\n%s", bad, got)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for want, o := range map[string]Options{
		`nothing can be written for "junos"; frr, bird, cisco and huawei are known`: {For: "junos", Via: "bgp"},
		"via kernel is for the routing daemon beside rhid, frr or bird, not cisco":  {For: Cisco, Via: "kernel"},
		`"isis" is neither bgp nor kernel`:                                          {For: FRR, Via: "isis"},
		"over BGP rhid speaks itself: there is no host's side":                      {For: FRR, Via: "bgp", Side: SideHost},
		"the configuration has no such BGP router":                                  {For: FRR, Via: "bgp", Routers: []string{"nobody"}},
		"no service of such a node is announced via kernel":                         {For: FRR, Via: "kernel", Node: "lb9"},
		"kernel.table is 151: FRR redistributes from the main table only":           {For: FRR, Via: "kernel"},
		"router tor: no password":                                                   {For: FRR, Via: "bgp", Password: func(config.Router) (string, error) { return "", errors.New("no password") }},
	} {
		_, err := Write(parse(t, "table: 151"), o)
		if err == nil {
			t.Errorf("no error, want %q", want)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
