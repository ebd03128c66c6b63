//go:build integration

package scenarios

import (
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/internal/control"
	"rhid/internal/lab"
)

// TestSessionsAtRouters has rhid take its passwords from systemd credentials and
// change one of them, both routers ask for everything again, and both lack what
// rhid then names in its status.
func TestSessionsAtRouters(t *testing.T) {
	s := startSite(t, lab.Options{})
	g := &guards{siteLab: s}
	var lines []string
	for line := range strings.Lines(s.shipped()) {
		for _, router := range []string{"frr", "bird"} {
			if strings.Contains(line, "{name: tor-"+router) {
				line = strings.Replace(line, "password_file: /etc/rhid/bgp.pw", "password_credential: bgp-"+router, 1)
			}
		}
		lines = append(lines, line)
	}
	for _, router := range []string{"frr", "bird"} {
		s.lb.WriteFile("/run/credentials/bgp-"+router, "lab-only-password\n")
	}
	s.configure(strings.Join(lines, ""))
	s.lb.Start("rhid", "env", "CREDENTIALS_DIRECTORY=/run/credentials", "/usr/bin/rhid", "run", "--config", siteConfig)
	for _, n := range []*lab.Node{s.torFRR, s.torBird} {
		for _, vip := range []string{siteATM, siteATM6} {
			s.WaitFor(vip+" at "+n.Name, siteUp, func() bool { return n.BGP(vip).Present })
		}
	}

	before := s.session(s.torFRR, "10.1.1.1").Established
	began := time.Now()
	g.frr("router bgp 65001", "neighbor RHID password another-password")
	s.lb.WriteFile("/run/credentials/bgp-frr", "another-password\n")
	s.lb.Rhid("reload")
	s.WaitFor("a session with the new password, and the VIP", siteUp, func() bool {
		now := s.session(s.torFRR, "10.1.1.1")
		return now.Established > before && now.State == "Established" && s.torFRR.BGP(siteATM).Present
	})
	t.Logf("new password from a credential: tor-frr has the VIP again %v after it was changed there", time.Since(began).Round(time.Millisecond))
	s.neighbour("tor-bird", func(n control.Neighbour) bool { return n.Established && n.Flaps == 0 })
	s.neighbour("tor-frr", func(n control.Neighbour) bool { return n.Established })
	s.WaitFor("the other session with tor-frr", siteUp, func() bool { return s.torFRR.BGPUp("fd00:1:1::1") })

	for n, ask := range map[*lab.Node][]string{
		s.torFRR: {"vtysh", "-c", "clear bgp ipv4 unicast 10.1.1.1 soft in"}, s.torBird: {"birdc", "reload in rhid4"},
	} {
		wire := n.Capture("eth1")
		began := time.Now()
		n.Must(ask...)
		again := wire.Wait("atm again at "+n.Name, siteUp, func(e lab.Event) bool { return !e.Sent && e.Announces(siteATM) })
		t.Logf("route refresh: %s has %s again %s after it asked", n.Name, siteATM, ms(again.At.Sub(began)))
	}
	s.neighbour("tor-bird", func(n control.Neighbour) bool { return n.Established && n.Flaps == 0 })

	g.frr("router bgp 65001", "neighbor 10.1.1.1 dont-capability-negotiate")
	s.torFRR.Must("vtysh", "-c", "clear bgp 10.1.1.1")
	conf, err := s.torBird.ReadFile("/etc/bird/bird.conf")
	if err != nil {
		t.Fatal(err)
	}
	s.torBird.WriteFile("/tmp/bird.conf", strings.Replace(conf, "protocol bgp rhid6 from rhid {\n", "protocol bgp rhid6 from rhid {\n  enable route refresh off; enable as4 off;\n", 1))
	s.torBird.Must("birdc", `configure "/tmp/bird.conf"`)
	for _, tt := range []struct{ name, lacks string }{
		{"tor-frr", "4-octet AS numbers (RFC 6793), route refresh (RFC 2918)"},
		{"tor-bird-6", "4-octet AS numbers (RFC 6793), route refresh (RFC 2918)"},
	} {
		s.neighbour(tt.name, func(n control.Neighbour) bool { return n.Established && strings.Join(n.Lacks, ", ") == tt.lacks })
		s.WaitFor("status naming what "+tt.name+" lacks", siteUp, func() bool {
			text, _ := s.lb.Run("/usr/bin/rhid", "status", "neighbours") // with an alarm it ends with status 1
			return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
				return strings.Contains(line, tt.name+" ") && strings.Contains(line, tt.lacks)
			})
		})
		t.Logf("%s lacks %s", tt.name, tt.lacks)
	}
	s.WaitFor("the VIP over a session without capabilities", siteUp, func() bool { return s.torFRR.BGP(siteATM).Present })
}

// neighbour waits until rhid says something of a neighbour.
func (s *siteLab) neighbour(name string, is func(control.Neighbour) bool) {
	s.t.Helper()
	var last control.Neighbour
	for end := time.Now().Add(siteUp); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, n := range s.status().Neighbours {
			if n.Name == name {
				last = n
			}
		}
		if last.Name == name && is(last) {
			return
		}
	}
	s.t.Fatalf("rhid says of %s: %+v", name, last)
}
