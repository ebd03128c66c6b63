package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is decided on by itself, with which VIPs, by which servers.
func TestParts(t *testing.T) {
	const text = `
bgp: {asn: 65010}
vip: {bind: always}
nodes: [{name: lb, address: 10.1.0.11, routers: [{address: 10.1.0.1, asn: 65000, next_hop6: "fd00:1::11"}]}]
services:
  - name: atm
    vips: [10.255.0.10/32, 10.255.0.11/32, "fd00:255::10/128", 10.255.1.0/28]
    check: {type: tcp}
    servers: {addresses: [%s], min_healthy: 1}
    %s
`
	for _, tt := range []struct {
		name, servers, more string
		want                []string
	}{
		{
			"one for all", `"10.9.1.1:80", "[fd00:9::1]:80"`, "",
			[]string{"atm [10.255.0.10/32 10.255.0.11/32 fd00:255::10/128 10.255.1.0/28] by 1 of 10.9.1.1:80 [fd00:9::1]:80"},
		},
		{
			"families apart", `"10.9.1.1:80", "[fd00:9::1]:80", "web.bank:80"`, "families: apart",
			[]string{
				"atm-ipv4 [10.255.0.10/32 10.255.0.11/32 10.255.1.0/28] by 1 of 10.9.1.1:80 web.bank:80",
				"atm-ipv6 [fd00:255::10/128] by 1 of [fd00:9::1]:80 web.bank:80",
			},
		},
		{
			"each VIP", `"vip:443"`, "fate: per-vip",
			[]string{
				"atm-10.255.0.10 [10.255.0.10/32] by 100% of 10.255.0.10:443",
				"atm-10.255.0.11 [10.255.0.11/32] by 100% of 10.255.0.11:443",
				"atm-fd00-255--10 [fd00:255::10/128] by 100% of [fd00:255::10]:443",
			},
		},
		{
			"any VIP", `"vip:443"`, "fate: any",
			[]string{"atm [10.255.0.10/32 10.255.0.11/32 fd00:255::10/128] by 1 of 10.255.0.10:443 10.255.0.11:443 [fd00:255::10]:443"},
		},
		{
			"all VIPs of each family", `"vip:443"`, "families: apart",
			[]string{
				"atm-ipv4 [10.255.0.10/32 10.255.0.11/32] by 100% of 10.255.0.10:443 10.255.0.11:443",
				"atm-ipv6 [fd00:255::10/128] by 100% of [fd00:255::10]:443",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			full := fmt.Sprintf(text, tt.servers, tt.more)
			if strings.Contains(tt.servers, "vip") {
				full = strings.Replace(full, ", 10.255.1.0/28", "", 1) // a block has no address to check
			}
			cfg, err := Parse("rhid.yaml", []byte(full), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range cfg.Parts() {
				line := fmt.Sprintf("%s %v by %s of", p.Name, p.VIPs, p.Servers.MinHealthy)
				for _, s := range p.Servers.Addresses {
					line += " " + s.Address
				}
				got = append(got, line)
				if p.Of() != "atm" {
					t.Errorf("%s is a part of %s", p.Name, p.Of())
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
			if shown, err := Show(cfg); err != nil {
				t.Errorf("it cannot be shown: %v\n%s", err, shown)
			}
		})
	}
}
