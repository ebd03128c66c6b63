//go:build integration

package scenarios

import (
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

// TestRouterText has real FRR and BIRD run what `rhid config router` prints, in
// the place of their own configurations: over BGP on both top-of-rack routers,
// over OSPF beside rhid and on the routers behind it. Sessions come up, every VIP
// arrives at the branch by both ways, and nothing else leaves.
func TestRouterText(t *testing.T) {
	s := &routerText{startSite(t, lab.Options{})}
	text := s.shipped()
	for router, source := range map[string]string{
		"address: 10.1.1.2,": "10.1.1.1", `address: "fd00:1:1::2",`: "fd00:1:1::1",
		"address: 10.1.2.2,": "10.1.2.1", `address: "fd00:1:2::2",`: "fd00:1:2::1",
	} {
		was := text
		if text = strings.Replace(text, router, router+` source: "`+source+`", bfd: {interval: 300ms},`, 1); text == was {
			t.Fatalf("the shipped configuration has no router with %s", router)
		}
	}
	s.configure(text)
	s.torFRR.Must("/usr/lib/frr/bfdd", "-d")
	s.frrBGP()
	s.birdBGP()
	s.frrOSPF()
	s.birdOSPF()
	s.run(text)
	s.settled()
	for router, peers := range map[*lab.Node][]string{s.torFRR: {"10.1.1.1", "fd00:1:1::1"}, s.torBird: {"10.1.2.1", "fd00:1:2::1"}} {
		for _, peer := range peers {
			s.WaitFor(router.Name+"'s session with "+peer, siteUp, func() bool { return router.BGPUp(peer) })
		}
	}
	s.WaitFor("BFD of tor-frr", siteUp, func() bool {
		return strings.Count(s.torFRR.Must("vtysh", "-c", "show bfd peers json"), `"status":"up"`) == 2
	})
	s.WaitFor("BFD of tor-bird", siteUp, func() bool {
		return strings.Count(s.torBird.Must("birdc", "show", "bfd", "sessions"), " Up ") == 2
	})
	for _, v := range []string{siteCounter, siteCounter6} {
		frr, _ := s.coreFRR.OSPFCost(v)
		bird, _ := s.coreBird.OSPFCost(v)
		t.Logf("cost of %s: %d at core-frr, %d at core-bird", v, frr, bird)
	}
	s.nothingElse()
}

type routerText struct{ *siteLab }

// print is the output of the command on lb1.
func (s *routerText) print(args ...string) string {
	s.t.Helper()
	return s.lb.Rhid(append([]string{"config", "router", siteConfig}, args...)...)
}

// vtysh has a running FRR take a configuration.
func (s *routerText) vtysh(n *lab.Node, before []string, text string) {
	s.t.Helper()
	argv := []string{"vtysh", "-c", "configure terminal"}
	for _, line := range before {
		argv = append(argv, "-c", line)
	}
	n.Must(argv...)
	n.WriteFile("/tmp/printed.conf", text)
	out := n.Must("vtysh", "-f", "/tmp/printed.conf")
	if strings.Contains(out, "% ") || strings.Contains(strings.ToLower(out), "unknown command") {
		s.t.Errorf("%s: FRR does not take what was printed: %s\n%s", n.Name, out, text)
	}
}

// frrBGP has tor-frr forget its BGP, take what was printed, and its other
// neighbours again.
func (s *routerText) frrBGP() {
	s.t.Helper()
	own, err := s.torFRR.ReadFile("/etc/frr/frr.conf")
	if err != nil {
		s.t.Fatal(err)
	}
	var branch strings.Builder
	branch.WriteString("router bgp 65001\n bgp bestpath as-path multipath-relax\n")
	_, rest, _ := strings.Cut(own, " neighbor BRANCH peer-group\n")
	branch.WriteString(" neighbor BRANCH peer-group\n")
	for line := range strings.Lines(rest) {
		if !strings.Contains(line, "RHID") && !strings.Contains(line, "10.1.1.1") && !strings.Contains(line, "fd00:1:1::1") {
			branch.WriteString(line)
		}
	}
	s.vtysh(s.torFRR, []string{"no router bgp 65001"}, s.print("--for", "frr", "--router", "tor-frr,tor-frr-6", "--secrets")+branch.String())
}

func (s *routerText) birdBGP() {
	s.t.Helper()
	own, err := s.torBird.ReadFile("/etc/bird/bird.conf")
	if err != nil {
		s.t.Fatal(err)
	}
	from, to := strings.Index(own, "protocol bgp rhid4"), strings.Index(own, "protocol bgp branch4")
	s.bird(s.torBird, own[:from]+own[to:]+s.print("--for", "bird", "--router", "tor-bird,tor-bird-6", "--secrets"))
}

// bird has a running BIRD take a configuration.
func (s *routerText) bird(n *lab.Node, text string) {
	s.t.Helper()
	n.WriteFile("/tmp/printed.conf", text)
	if out := n.Must("birdc", "configure", `"/tmp/printed.conf"`); !strings.Contains(out, "Reconfigur") {
		s.t.Errorf("%s: BIRD does not take what was printed: %s\n%s", n.Name, out, text)
	}
}

func (s *routerText) frrOSPF() {
	s.t.Helper()
	host := s.print("--via", "kernel", "--side", "host", "--interface", "eth3")
	s.vtysh(s.lb, []string{"no router ospf", "no router ospf6", "no route-map RHID", "no route-map RHID6"}, host)
	router := s.print("--via", "kernel", "--side", "router", "--router-interface", "eth1")
	s.vtysh(s.coreFRR, nil, router)
}

func (s *routerText) birdOSPF() {
	s.t.Helper()
	host := s.print("--for", "bird", "--via", "kernel", "--side", "host", "--interface", "eth4")
	s.bird(s.lb, strings.Replace(host, "router id 10.1.0.11;", "router id 10.1.0.12;", 1)) // FRR on the same host has the other
	own, err := s.coreBird.ReadFile("/etc/bird/bird.conf")
	if err != nil {
		s.t.Fatal(err)
	}
	router := s.print("--for", "bird", "--via", "kernel", "--side", "router", "--router-interface", "eth1")
	from := strings.Index(own, "protocol ospf")
	s.bird(s.coreBird, own[:from]+strings.ReplaceAll(router, `interface "eth1"`, `interface "eth1", "eth2"`))
}

// nothingElse sees to it that lb1's OSPF daemons export the VIPs and nothing else
// of the kernel's.
func (s *routerText) nothingElse() {
	s.t.Helper()
	s.lb.Must("ip", "route", "add", "10.77.0.0/24", "dev", "lo", "metric", "10", "proto", "151")
	time.Sleep(3 * time.Second)
	for _, n := range []*lab.Node{s.coreFRR, s.coreBird} {
		if got := n.Kernel("10.77.0.0/24"); len(got) > 0 {
			s.t.Errorf("%s has a route that is no VIP: %v", n.Name, got)
		}
	}
	s.waitBranch(siteCounter)
}
