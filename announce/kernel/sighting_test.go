package kernel

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// by is a route that a routing daemon put in.
func by(proto uint8, prefix string, metric uint32, hops ...string) foreign {
	f := foreign{route: route{kind: unix.RTN_UNICAST, dst: pfx(prefix), proto: proto, metric: metric, table: unix.RT_TABLE_MAIN}}
	for _, h := range hops {
		f.hops = append(f.hops, netip.MustParseAddr(h))
	}
	return f
}

func TestSightings(t *testing.T) {
	f := newFake()
	f.foreign = []foreign{
		by(unix.RTPROT_OSPF, vip4, 20, "10.1.0.1", "10.1.0.2"),
		by(unix.RTPROT_OSPF, "10.3.0.0/24", 20, "10.1.0.1"),
		by(unix.RTPROT_BIRD, "fd00:3::/64", 32, "fe80::1"),
		by(unix.RTPROT_BIRD, "10.4.0.0/24", 32), // of a link, or a blackhole
	}
	w := newWorld(f, testSettings(), slog.New(slog.DiscardHandler))
	want := Sightings{
		VIPs: map[netip.Prefix][]Sighting{
			pfx(vip4): {{"ospf", []netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")}, 20}},
		},
		IPv4: 1, IPv6: 1,
	}
	look := func(name string, want Sightings) {
		t.Helper()
		got, err := w.Sightings()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	look("at first", want)
	f.foreign = nil
	look("nothing was heard", want)
	own := w.conf.Load().announcement(want4(100, 0), nil)
	w.sight(w.conf.Load(), unix.RTM_DELROUTE, wire(own))
	look("the own route is none of them", want)
	gone := by(unix.RTPROT_OSPF, vip4, 20, "10.1.0.1").route
	w.sight(w.conf.Load(), unix.RTM_DELROUTE, wire(gone))
	look("gone", Sightings{VIPs: map[netip.Prefix][]Sighting{}})
	if n := len(w.Sighted()); n != 1 {
		t.Errorf("%d signals wait, want 1", n)
	}
}

func TestSightedOnlyForVIPs(t *testing.T) {
	w := newWorld(newFake(), testSettings(), slog.New(slog.DiscardHandler))
	c := w.conf.Load()
	w.sight(c, unix.RTM_NEWROUTE, wire(by(unix.RTPROT_OSPF, "10.3.0.0/24", 20).route))
	if n := len(w.Sighted()); n != 0 {
		t.Errorf("another route is a signal")
	}
	w.sight(c, unix.RTM_NEWLINK, wireLink(7, false)) // which takes IPv4 routes along in silence
	if n := len(w.Sighted()); n != 1 {
		t.Errorf("a link that goes down is none")
	}
}

func TestNextHops(t *testing.T) {
	r := by(unix.RTPROT_OSPF, vip4, 20).route
	via := r
	via.gateway = netip.MustParseAddr("10.1.0.1")
	hop := func(last byte) []byte {
		return append([]byte{16, 0, 0, 0, 2, 0, 0, 0}, nl.NewRtAttr(unix.RTA_GATEWAY, []byte{10, 1, 0, last}).Serialize()...)
	}
	multi := nl.NewRtAttr(unix.RTA_MULTIPATH, append(append(hop(1), hop(2)...), hop(2)...)).Serialize()
	other := nl.NewRtAttr(unix.RTA_VIA, append([]byte{unix.AF_INET6, 0}, netip.MustParseAddr("fe80::1").AsSlice()...)).Serialize()
	tests := []struct {
		name string
		msg  []byte
		want string
	}{
		{"one", wire(via), "[10.1.0.1]"},
		{"several, one twice", append(wire(r), multi...), "[10.1.0.1 10.1.0.2]"},
		{"of the other family", append(wire(r), other...), "[fe80::1]"},
		{"none", wire(r), "[]"},
		{"cut short", append(wire(r), nl.NewRtAttr(unix.RTA_MULTIPATH, hop(1)[:12]).Serialize()...), "[]"},
	}
	for _, tt := range tests {
		if got := addrsText(nextHops(tt.msg)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func addrsText(all []netip.Addr) string {
	out := "["
	for i, a := range all {
		if i > 0 {
			out += " "
		}
		out += a.String()
	}
	return out + "]"
}
