//go:build integration

package scenarios

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/internal/lab"
)

const boundedTimeout = 6 * time.Second // stop.timeout

const boundedConfig = `
bgp: {asn: 65010, hold: 60s}
kernel: {next_hop: tier, tiers: [10, 100, 200], readback: {from: [frr, bird]}}
vip: {linger: 300ms}
stop: {drain_time: 500ms, timeout: 6s}
nodes:
  - name: lb1
    address: 10.1.0.11
    routers: [%s]
checks:
  pool: {type: tcp, interval: 200ms, timeout: 150ms, fall: 2, rise: 2}
services:
  - {name: s, vips: [%s], via: [%s], servers: {addresses: ["10.9.1.1:9100"]}, check: pool}
`

// boundedStop is an end of rhid while those that it talks to do not answer.
type boundedStop struct {
	name   string
	full   bool // with RHID_FULL only
	via    string
	vip    string
	router []string // of those in boundedRouters
	hide   func(s *siteLab)
	back   func(s *siteLab)
	stays  siteForm
}

func boundedRouter(name string) string {
	at := map[string]string{"tor-frr": "10.1.1.2, asn: 65001", "tor-bird": "10.1.2.2, asn: 65002"}[name]
	return fmt.Sprintf("{name: %s, address: %s, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4]}", name, at)
}

func boundedStops() []boundedStop {
	cut := func(ifaces ...string) (hide, back func(s *siteLab)) {
		return func(s *siteLab) {
				for _, i := range ifaces {
					s.Blackhole("lb1:" + i)
				}
			}, func(s *siteLab) {
				for _, i := range ifaces {
					s.Unblackhole("lb1:" + i)
				}
			}
	}
	oneHide, oneBack := cut("eth1")
	twoHide, twoBack := cut("eth1", "eth2")
	return []boundedStop{
		{"BGP, its one neighbour black-holed", true, "bgp", siteATM, []string{"tor-frr"}, oneHide, oneBack, siteForm{}},
		{"BGP, both neighbours black-holed", true, "bgp", siteATM, []string{"tor-frr", "tor-bird"}, twoHide, twoBack, siteForm{}},
		{
			"kernel, zebra frozen", false, "kernel", siteCounter, nil,
			func(s *siteLab) { s.lb.Freeze("zebra") }, func(s *siteLab) { s.lb.Thaw("zebra") },
			siteForm{Local: 1}, // FRR still leads clients here: they are answered
		},
	}
}

// TestStopIsBounded stops rhid while nobody takes its withdraw. It ends within
// stop.timeout all the same, and leaves no route on the host. The ways of BGP are
// gone with RHID_FULL only: TestReloadAndStop has one of them.
func TestStopIsBounded(t *testing.T) {
	s := startSite(t, lab.Options{})
	s.torFRR.Must("vtysh", "-c", "configure terminal", "-c", "router bgp 65001", "-c", "neighbor RHID timers 20 60")
	host := watchKernel(t, s.lb)
	for _, b := range boundedStops() {
		if b.full && os.Getenv("RHID_FULL") == "" {
			continue
		}
		lab.Steady(t, stood, func() []string { return b.end(s, host) })
	}
}

// end stops rhid once, and returns what was not as it must be.
func (b boundedStop) end(s *siteLab, host *siteKernel) (misses []string) {
	s.t.Helper()
	var routers []string
	for _, r := range b.router {
		routers = append(routers, boundedRouter(r))
	}
	rhid := s.run(fmt.Sprintf(boundedConfig, strings.Join(routers, ", "), b.vip, b.via))
	s.WaitFor(b.vip+" announced", siteUp, func() bool { return strings.Contains(s.lb.Rhid("events"), "announced") && len(s.status().Alarms) == 0 })
	b.hide(s)
	began := time.Now()
	rhid.Signal(syscall.SIGTERM)
	err := rhid.Wait(siteUp)
	took := time.Since(began)
	s.t.Logf("%s: ended after %v (%v); on the host: %+v", b.name, took.Round(time.Millisecond), err, s.form(host, b.vip))
	if took > boundedTimeout {
		misses = append(misses, fmt.Sprintf("%s: ended after %v, stop.timeout is %v", b.name, took, boundedTimeout))
	}
	if got := s.form(host, b.vip); got != b.stays {
		misses = append(misses, fmt.Sprintf("%s: on the host is %+v, want %+v", b.name, got, b.stays))
	}
	b.back(s)
	s.torFRR.Must("vtysh", "-c", "clear bgp *") // its session has 60 s to live, and takes no other
	return misses
}
