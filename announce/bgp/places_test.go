package bgp

import (
	"net/netip"
	"testing"

	"rhid/announce"

	"github.com/google/go-cmp/cmp"
)

// A route has a place at the neighbours of its family, and nowhere else is it
// missing; but where nobody takes its family, that must be seen.
func TestPlacesAreOfTheFamily(t *testing.T) {
	peer := func(address string, v4, v6 bool) *neighbour {
		return newNeighbour(Neighbour{Address: netip.MustParseAddr(address), ASN: routeASN, IPv4: v4, IPv6: v6}, ourASN)
	}
	four, six := peer("192.0.2.1", true, false), peer("2001:db8::1", false, true)
	tests := []struct {
		name       string
		neighbours []*neighbour
		prefix     string
		want       map[string]string // why by place
	}{
		{"IPv4", []*neighbour{four, six}, "192.0.2.10/32", map[string]string{"192.0.2.1": "session not established: idle"}},
		{"IPv6", []*neighbour{four, six}, "2001:db8:ff::10/128", map[string]string{"2001:db8::1": "session not established: idle"}},
		{"nobody takes IPv6", []*neighbour{four}, "2001:db8:ff::10/128", map[string]string{"192.0.2.1": "family ipv6 not configured"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := netip.MustParsePrefix(test.prefix)
			s := &Speaker{
				set:        Settings{Allowed: []netip.Prefix{p}},
				neighbours: test.neighbours,
				table:      map[netip.Prefix]*entry{p: newEntry(announce.Route{Prefix: p}, 0)},
			}
			seen, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, place := range seen[p].Places {
				got[place.Name] = place.Why
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}
