//go:build integration

package lab_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/internal/lab"
)

var addrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestBGPTables(t *testing.T) {
	l := lab.Start(t, "testdata/bgp/bgp.clab.yml", lab.Options{})
	a, c := l.Node("a"), l.Node("c")
	for _, peer := range []string{"10.0.0.2", "10.0.1.2", "fd00::2"} {
		l.WaitFor("session of a with "+peer, 30*time.Second, func() bool { return a.BGPUp(peer) })
	}
	l.WaitFor("session of c", 30*time.Second, func() bool { return c.BGPUp("10.0.1.1") })
	// bgpd has a path some time before it has compared it with the others.
	l.WaitFor("two paths at a, c's used for GRACEFUL_SHUTDOWN of b's", 30*time.Second, func() bool {
		return len(a.BGPPaths("10.255.0.10/32")) == 2 && a.BGP("10.255.0.10/32").From.String() == "10.0.1.2"
	})

	want := lab.BGPPath{
		Present: true, From: netip.MustParseAddr("10.0.0.2"), NextHop: netip.MustParseAddr("10.0.0.2"), Origin: "igp", MED: 100,
		ASPath: []uint32{65002, 65002}, Communities: []string{"65000:100", "65535:0"}, LargeCommunities: []string{"65010:1:0"},
	}
	for _, p := range a.FRRBGP("10.255.0.10/32") {
		if p.From == want.From {
			if diff := cmp.Diff(want, p, addrs); diff != "" {
				t.Errorf("b's path at a (-want +got):\n%s", diff)
			}
		}
	}
	l.WaitFor("the IPv6 path at a", 30*time.Second, func() bool { return a.BGP("fd00:255::10/128").Present })
	if v6 := a.BGP("fd00:255::10/128"); v6.NextHop.String() != "fd00::2" || len(v6.ASPath) != 1 {
		t.Errorf("IPv6 path at a: %+v", v6)
	}
	if none := a.BGP("10.255.0.99/32"); none.Present {
		t.Errorf("path of a prefix that nobody has: %+v", none)
	}
	if none := c.BGP("10.255.0.99/32"); none.Present {
		t.Errorf("path in BIRD of a prefix that nobody has: %+v", none)
	}

	a.Must("vtysh", "-c", "configure terminal", "-c", "router bgp 65001", "-c", "address-family ipv4 unicast", "-c", "network 10.255.0.11/32")
	l.WaitFor("a's own prefix at c", 30*time.Second, func() bool { return c.BGP("10.255.0.11/32").Present })
	want = lab.BGPPath{
		Present: true, Best: true, From: netip.MustParseAddr("10.0.1.1"), NextHop: netip.MustParseAddr("10.0.1.1"), Origin: "igp", MED: 9,
		LocalPref: 100, ASPath: []uint32{65001}, Communities: []string{"65000:7", "65535:65281"}, LargeCommunities: []string{"65010:2:1"},
	}
	if diff := cmp.Diff(want, c.BirdBGP("10.255.0.11/32")[0], addrs); diff != "" {
		t.Errorf("a's path at c (-want +got):\n%s", diff)
	}
}

func TestBGPOnTheWire(t *testing.T) {
	l := lab.Start(t, "testdata/bgp/bgp.clab.yml", lab.Options{})
	a, b := l.Node("a"), l.Node("b")
	statics := map[string]string{"10.255.0.10/32": "vip4", "fd00:255::10/128": "vip6"}
	for prefix := range statics { // the first announcements may have come before anybody looks
		l.WaitFor("b's path of "+prefix+" at a", 30*time.Second, func() bool {
			return slices.ContainsFunc(a.BGPPaths(prefix), func(p lab.BGPPath) bool { return slices.Contains(p.ASPath, 65002) })
		})
	}
	l.WaitFor("the IPv6 route at a", 30*time.Second, func() bool { return len(a.Kernel("fd00:255::10/128")) == 1 })
	wire := a.Capture("eth1")
	fib := a.WatchFIB("fd00:255::10/128")
	for prefix, static := range statics {
		b.Must("birdc", "disable", static)
		e := wire.Wait("a withdrawal of "+prefix, 30*time.Second, func(e lab.Event) bool {
			return e.Kind == lab.BGPUpdate && !e.Sent && e.Withdraws(prefix)
		})
		if prefix == "fd00:255::10/128" {
			if gone := fib.WaitGone(30 * time.Second); gone.At.Before(e.At) {
				t.Errorf("a's kernel lost the route %v before the UPDATE arrived", e.At.Sub(gone.At))
			}
		}
	}
	updates := wire.Events(func(e lab.Event) bool { // not those that say that all was told (RFC 4724)
		return e.Kind == lab.BGPUpdate && !e.Sent && len(e.Announced)+len(e.Withdrawn) > 0
	})
	if len(updates) != 2 {
		t.Errorf("%d UPDATEs for two withdrawals: %v", len(updates), updates)
	}
	for prefix, static := range statics {
		b.Must("birdc", "enable", static)
		wire.Wait("an announcement of "+prefix+" by b", 30*time.Second, func(e lab.Event) bool {
			return e.Kind == lab.BGPUpdate && !e.Sent && e.Announces(prefix)
		})
	}
	wire.Reset()
	a.ResetTCP(179)
	wire.Wait("the reset", 30*time.Second, func(e lab.Event) bool { return e.Kind == lab.TCPReset && e.Sent })
	l.WaitFor("the sessions to come back", 30*time.Second, func() bool { return a.BGPUp("10.0.0.2") && a.BGPUp("fd00::2") })
	a.RefuseTCP(179)
	l.WaitFor("b to lose the session", 30*time.Second, func() bool { return !b.BGPUp("10.0.0.1") })
	wire.Reset()
	wire.Wait("b's attempts to be refused", 30*time.Second, func(e lab.Event) bool { return e.Kind == lab.TCPReset && e.Sent })
	a.AcceptTCP(179)
	l.WaitFor("the session after all", 30*time.Second, func() bool { return a.BGPUp("10.0.0.2") })
}
