//go:build integration

package scenarios

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/services"
)

const minConfig = `
cluster: {name: min, detection: fast, settle_timeout: 2s}
bgp: {asn: 65010, hold: 3s}
vip: {bind: never}
stop: {drain_time: 500ms, timeout: 8s}
sites:
  - name: near
    min_neighbours: 2
    routers:
      - {name: tor-frr, address: 10.1.1.2, asn: 65001, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4]}
      - {name: tor-bird, address: 10.1.2.2, asn: 65002, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4]}
  - name: far
    routers: [{name: tor-frr, address: 10.1.1.2, asn: 65001, multihop: 3, families: [ipv4]}]
nodes:
  - {name: lb1, site: near, address: 10.9.1.254}
  - {name: lb2, site: far, address: 10.9.1.1}
checks:
  pool: {type: tcp, interval: 200ms, timeout: 150ms, fall: 2, rise: 2}
services:
  - {name: atm, vips: [10.255.0.10/32], order: [lb1, lb2], failback: {delay: 500ms}, servers: {addresses: ["10.9.1.1:9100"]}, check: pool}
`

// TestMinNeighbours takes one of a node's two routers away, where its site asks
// for two: the node is standby then, another takes over, and gives back once the
// router is there again. With nobody to take over, it goes on.
func TestMinNeighbours(t *testing.T) {
	s := startAttributes(t)
	for _, n := range []string{"lb1", "lb2"} {
		s.start(n, minConfig)
	}
	holders := func(what string, want ...string) {
		t.Helper()
		took := s.WaitFor(what, siteUp, func() bool {
			var got []string
			for _, p := range s.torFRR.FRRBGP(siteATM) {
				got = append(got, p.From.String())
			}
			return slices.Equal(got, want)
		})
		t.Logf("%s: after %v", what, took.Round(time.Millisecond))
	}
	atLB1, atLB2 := "10.1.1.1", "10.9.1.1"
	holders("lb1 announces, with two routers", atLB1)
	s.WaitFor("the VIP at tor-bird", siteUp, func() bool { return s.torBird.BGP(siteATM).Present })

	s.torBird.KillAll("bird")
	holders("tor-bird is killed: lb2 has taken over, lb1 is gone from tor-frr", atLB2)
	s.WaitFor("lb1 saying that it is withdrawn", siteUp, func() bool { return s.status().Services[0].Verdict == services.Withdraw })
	s.standby("BGP sessions established: 1, min_neighbours is 2")
	s.birdAgain()
	holders("tor-bird is started: lb1 is back, lb2 is gone", atLB1)

	// lb1 still announces while it is standby, when nobody else can.
	s.rhids["lb2"].Signal(syscall.SIGTERM)
	if err := s.rhids["lb2"].Wait(attrStop); err != nil {
		t.Error(err)
	}
	watch := s.torFRR.WatchFIB(siteATM)
	s.torBird.KillAll("bird")
	s.WaitFor("lb1 to be standby", siteUp, func() bool { return s.status().Services[0].Readiness == services.Standby })
	time.Sleep(2 * time.Second)
	if got := watch.Events(); len(got) > 0 {
		t.Errorf("alone: the route at tor-frr changed: %v", got)
	}
	holders("alone: lb1 goes on", atLB1)
	if svc := s.status().Services[0]; svc.Verdict != services.Announce || !strings.Contains(svc.Reason.Evidence, "min_neighbours is 2") {
		t.Errorf("alone: %+v, %+v", svc.Verdict, svc.Reason)
	} else {
		t.Logf("alone: %s because %s: %s", svc.Verdict, svc.Reason.Code, svc.Reason.Evidence)
	}
}

// standby sees to it that lb1 says that it is standby, and why.
func (s *attrLab) standby(why string) {
	s.t.Helper()
	svc := s.status().Services[0]
	if svc.Verdict != services.Withdraw || svc.Readiness != services.Standby || svc.Reason.Code != services.CodeNoRouter || !strings.Contains(svc.Reason.Evidence, why) {
		s.t.Errorf("lb1 says: verdict %s, %s, %+v; want standby, no-router: %s", svc.Verdict, svc.Readiness, svc.Reason, why)
	}
	text := s.lb.Rhid("explain", "atm")
	if !strings.Contains(text, "no-router") || !strings.Contains(text, why) {
		s.t.Errorf("explain does not say why:\n%s", text)
	}
	head, _, _ := strings.Cut(text, "\n\n")
	s.t.Logf("rhid explain atm:\n%s", head)
}

// birdAgain starts BIRD on tor-bird again.
func (s *attrLab) birdAgain() {
	s.t.Helper()
	s.torBird.Must("bird", "-c", "/tmp/bird.conf", "-s", "/run/bird/bird.ctl")
	s.WaitFor("BIRD to have its sessions", siteUp, func() bool { return s.torBird.BGPUp("10.1.2.1") })
}
