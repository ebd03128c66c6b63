//go:build integration

package scenarios

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

// numbered matches the two sessions of the shipped configuration with tor-frr.
var numbered = regexp.MustCompile(`(?m)^ +- \{name: tor-frr(-6)?, .*\n`)

// TestUnnumbered has lb1 and tor-frr know each other by the link only: router
// advertisements from both, a session between link-local addresses, IPv4 VIPs
// with an IPv6 next hop. The router is found again with another address.
func TestUnnumbered(t *testing.T) {
	s := startSite(t, lab.Options{})
	g := &guards{siteLab: s}
	g.frr("router bgp 65001", "no neighbor 10.1.1.1", "no neighbor fd00:1:1::1", "neighbor eth1 interface v6only remote-as 65010", "neighbor eth1 timers connect 1",
		"address-family ipv4 unicast", "neighbor eth1 activate", "neighbor eth1 route-map VIPS in", "neighbor eth1 route-map VIPS out", "exit",
		"address-family ipv6 unicast", "neighbor eth1 activate", "neighbor eth1 route-map VIPS in", "neighbor eth1 route-map VIPS out")
	s.lb.Sysctl("net.ipv6.conf.eth1.accept_ra", "0") // else the host takes a default route and an address from the router
	text := strings.Replace(numbered.ReplaceAllString(s.shipped(), ""), "    routers:\n", "    routers:\n      - {name: tor-frr, interface: eth1, asn: 65001, hold: 3s}\n", 1)
	if strings.Count(text, "tor-frr") != 1 {
		t.Fatalf("the shipped configuration has changed:\n%s", text)
	}
	began := time.Now()
	s.run(text)
	s.settled()
	t.Logf("all VIPs are at the routers %v after the start of rhid", time.Since(began).Round(time.Millisecond))
	found := ""
	for _, e := range s.events(0) {
		if e.Kind == "neighbour" && e.What == "found" {
			found = e.Detail
		}
	}
	for _, n := range s.status().Neighbours {
		if n.Name == "tor-frr" {
			t.Logf("%s: neighbour %s at %s is %s", found, n.Name, n.Address, n.State)
		}
	}
	for _, vip := range []string{siteATM, siteATM6} {
		if via := s.vias(s.torFRR, vip); len(via) != 1 || !strings.HasPrefix(via[0], "fe80::") {
			t.Errorf("tor-frr has %s via %v, want a link-local address", vip, via)
		}
	}
	branch := s.client.Probe("10.255.0.10:9100", 20*time.Millisecond)
	time.Sleep(time.Second)
	if got := branch.Stop(); got.OK == 0 || got.Failed > 0 {
		t.Errorf("clients: %+v", got)
	}

	s.torFRR.Must("ip", "link", "set", "eth1", "down")
	s.WaitFor("the session to be down", 10*time.Second, func() bool { return !s.torFRR.BGP(siteATM).Present })
	s.torFRR.Must("ip", "link", "set", "eth1", "up")
	began = time.Now()
	s.WaitFor("the VIP at tor-frr again", siteUp, func() bool { return len(s.torFRR.Kernel(siteATM)) == 1 })
	t.Logf("the VIP was back %v after the link", time.Since(began).Round(time.Millisecond))
}
