package daemon

import (
	"net/netip"
	"strings"
	"testing"

	"rhid/internal/config"
)

// Of two routers with the same link-local address the first found is a
// neighbour, and one that is configured comes before it.
func TestMeeting(t *testing.T) {
	cfg, err := config.Parse("rhid.yaml", []byte(`
bgp: {asn: 65010}
nodes:
  - name: lb-1
    address: 10.1.0.11
    routers:
      - {name: fixed, address: "fe80::9%eth9", asn: 65000}
      - {name: left, interface: eth1, asn: 65000}
      - {name: right, interface: eth2, asn: 65000}
services: [{name: atm, vips: [10.255.0.10/32], check: {type: tcp}, servers: {addresses: ["10.9.1.1:80"]}}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	found := func(at ...string) (out []heard) {
		for _, a := range at {
			addr := netip.MustParseAddr(a)
			out = append(out, heard{addr.Zone(), addr})
		}
		return out
	}
	for _, tt := range []struct {
		name        string
		found       []heard
		left, right string // the address, or why not
	}{
		{"none", nil, "no router advertisement was heard on eth1", "no router advertisement was heard on eth2"},
		{"one", found("fe80::1%eth2"), "no router advertisement was heard on eth1", "fe80::1%eth2"},
		{"both", found("fe80::1%eth1", "fe80::2%eth2"), "fe80::1%eth1", "fe80::2%eth2"},
		{"the same", found("fe80::1%eth1", "fe80::1%eth2"), "fe80::1%eth1", "the router at fe80::1%eth2 has the same link-local address as router left (fe80::1%eth1), and"},
		{"the same, the other way round", found("fe80::1%eth2", "fe80::1%eth1"), "the router at fe80::1%eth1 has the same link-local address as router right (fe80::1%eth2), and", "fe80::1%eth2"},
		{"that of a configured one", found("fe80::1%eth1", "fe80::9%eth2"), "fe80::1%eth1", "as router fixed (fe80::9%eth9), and"},
	} {
		m := &model{cfg: cfg, self: cfg.Nodes[0], found: tt.found}
		for iface, want := range map[string]string{"eth1": tt.left, "eth2": tt.right} {
			addr, why := m.meeting(iface)
			if why == "" {
				why = addr.String()
			}
			if !strings.Contains(why, want) {
				t.Errorf("%s: %s: %s, want %s", tt.name, iface, why, want)
			}
		}
	}
}
