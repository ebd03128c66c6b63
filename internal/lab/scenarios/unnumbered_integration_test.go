//go:build integration

package scenarios

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/internal/control"
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
	s.WaitFor("the session to be down", siteUp, func() bool { return !s.torFRR.BGP(siteATM).Present })
	s.torFRR.Must("ip", "link", "set", "eth1", "up")
	began = time.Now()
	s.WaitFor("the VIP at tor-frr again", 2*siteUp, func() bool { return len(s.torFRR.Kernel(siteATM)) == 1 })
	t.Logf("the VIP was back %v after the link", time.Since(began).Round(time.Millisecond))
}

// TestUnnumberedTwins has two FRR routers on two links that both have fe80::1.
// One is a neighbour, the other is refused with both named; once it has another
// address it is a neighbour, too, and each has lb1's own address on its link as
// next hop.
func TestUnnumberedTwins(t *testing.T) {
	s := startSite(t, lab.Options{})
	s.torFRR.Must("vtysh", "-c", "configure terminal", "-c", "router bgp 65001", "-c", "no neighbor 10.1.1.1", "-c", "no neighbor fd00:1:1::1")
	s.coreFRR.Must("/usr/lib/frr/bgpd", "-d")
	for asn, n := range map[string]*lab.Node{"65001": s.torFRR, "65003": s.coreFRR} {
		n.Must("ip", "-6", "address", "flush", "dev", "eth1", "scope", "link")
		n.Must("ip", "-6", "address", "add", "fe80::1/64", "dev", "eth1", "nodad")
		n.Must("vtysh", "-c", "configure terminal", "-c", "router bgp "+asn, "-c", "no bgp ebgp-requires-policy", "-c", "timers bgp 1 3",
			"-c", "neighbor eth1 interface v6only remote-as 65010", "-c", "neighbor eth1 timers connect 1",
			"-c", "address-family ipv4 unicast", "-c", "neighbor eth1 activate", "-c", "exit", "-c", "address-family ipv6 unicast", "-c", "neighbor eth1 activate")
	}
	for _, iface := range []string{"eth1", "eth3"} {
		s.lb.Sysctl("net.ipv6.conf."+iface+".accept_ra", "0")
	}
	head, tail, _ := strings.Cut(s.shipped(), "    routers:\n")
	_, tail, _ = strings.Cut(tail, "nodes:\n")
	text := "stop: {drain_time: 300ms}\nvip: {linger: 300ms}\n" + head + "    routers:\n      - {name: left, interface: eth1, asn: 65001, hold: 3s}\n      - {name: right, interface: eth3, asn: 65003, hold: 3s}\nnodes:\n" + tail
	rhid := s.run(text)

	up := func() (names []string, refusal string) {
		for _, n := range s.status().Neighbours {
			if n.Established {
				names = append(names, n.Name)
			} else {
				refusal = n.Why
			}
		}
		return names, refusal
	}
	var first []string
	var why string
	s.WaitFor("one neighbour and one refusal", 2*siteUp, func() bool {
		first, why = up()
		return len(first) == 1 && strings.Contains(why, "has the same link-local address as router "+first[0])
	})
	s.WaitFor("an alarm that says so", siteUp, func() bool {
		return slices.ContainsFunc(s.status().Alarms, func(a control.Alarm) bool {
			return a.Code == "neighbour-down" && strings.Contains(a.Detail, "has the same link-local address as router ")
		})
	})
	t.Logf("neighbour %v; the other: %s", first, why)
	other, iface := s.coreFRR, "eth3"
	if first[0] == "right" {
		other, iface = s.torFRR, "eth1"
	}
	event := s.waitEvent(0, "neighbour", "found and refused", siteUp)
	if event.Subject != iface || !strings.Contains(event.Detail, why) {
		t.Errorf("event %+v, want that of %s: %s", event, iface, why)
	}
	if got := other.FRRBGP(siteATM); len(got) > 0 {
		t.Errorf("the refused router has %+v", got)
	}

	other.Must("ip", "-6", "address", "add", "fe80::2/64", "dev", "eth1", "nodad")
	other.Must("ip", "-6", "address", "delete", "fe80::1/64", "dev", "eth1")
	s.lb.StopRhid(rhid, siteUp) // a router that is silent counts as gone after 35 s only
	began := time.Now()
	s.run(text)
	s.WaitFor("both neighbours", 2*siteUp, func() bool { names, _ := up(); return len(names) == 2 })
	for n, own := range map[*lab.Node]string{s.torFRR: "eth1", s.coreFRR: "eth3"} {
		for _, vip := range []string{siteATM, siteATM6} {
			s.WaitFor(vip+" at "+n.Name, siteUp, func() bool { return len(s.vias(n, vip)) == 1 })
			if via := s.vias(n, vip)[0]; !strings.Contains(s.lb.Must("ip", "-6", "address", "show", "dev", own), via+"/64") {
				t.Errorf("%s has %s via %s, which is not lb1's address on %s", n.Name, vip, via, own)
			}
		}
	}
	t.Logf("with another address both routers have the VIPs after %v, each by lb1's address on its link", time.Since(began).Round(time.Millisecond))
}
