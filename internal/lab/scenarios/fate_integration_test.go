//go:build integration

package scenarios

import (
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

const (
	fateOne, fateTwo = "10.255.0.70/32", "10.255.0.71/32"   // fate: per-vip
	fateV4, fateV6   = "10.255.0.72/32", "fd00:255::72/128" // families: apart
	fateBlock        = "10.255.0.128/28"                    // a block
	fateConfig       = `
vip: {bind: always, linger: 500ms}
checks:
  own: {type: tcp, interval: 300ms, timeout: 250ms, fall: 2, rise: 2, allow_vip: true}
services:
  - {name: each, vips: [10.255.0.70/32, 10.255.0.71/32], fate: per-vip, servers: {addresses: ["vip:9700"]}, check: own}
  - {name: both, vips: [10.255.0.72/32, "fd00:255::72/128"], families: apart, servers: {addresses: ["127.0.0.1:9711", "[::1]:9711"]}, check: own}
  - {name: block, vips: [10.255.0.128/28], servers: {addresses: ["127.0.0.1:9711"]}, check: own}
`
)

// TestFate has VIPs of one service die one by one and family by family, on real
// routers; and a block of VIPs that clients reach at each of its addresses.
func TestFate(t *testing.T) {
	s := startSite(t, lab.Options{})
	for _, line := range []string{"ip prefix-list VIPS seq 5 permit 10.255.0.0/24 ge 28"} {
		s.torFRR.Must("vtysh", "-c", "configure terminal", "-c", line)
	}
	v4, v6 := s.lb.Serve("127.0.0.1:9711"), s.lb.Serve("[::1]:9711")
	head, _, _ := strings.Cut(s.shipped(), "checks:\n")
	s.run(head + fateConfig)
	s.WaitFor("the VIPs on lb1", siteUp, func() bool {
		return len(s.lb.KernelTable(255, fateOne)) == 1 && len(s.lb.KernelTable(255, fateTwo)) == 1
	})
	one := s.lb.Serve("10.255.0.70:9700")
	s.lb.Serve("10.255.0.71:9700")
	at := func(vip string) bool { return len(s.torFRR.Kernel(vip)) == 1 }
	for _, vip := range []string{fateOne, fateTwo, fateV4, fateV6, fateBlock} {
		s.WaitFor(vip+" at tor-frr", siteUp, func() bool { return at(vip) })
	}

	dies := func(what string, srv *lab.Server, gone string, stay ...string) {
		t.Helper()
		began := time.Now()
		srv.Stop()
		s.WaitFor(gone+" gone from tor-frr", siteUp, func() bool { return !at(gone) })
		t.Logf("%s: %s left tor-frr after %v", what, gone, time.Since(began).Round(time.Millisecond))
		time.Sleep(1200 * time.Millisecond) // a check takes 300 to 850 ms to turn
		for _, vip := range stay {
			if !at(vip) {
				t.Errorf("%s: %s left, too", what, vip)
			}
		}
	}
	dies("per-vip", one, fateOne, fateTwo, fateV4, fateV6, fateBlock)
	dies("families apart", v6, fateV6, fateTwo, fateV4, fateBlock)
	for _, addr := range []string{"10.255.0.128", "10.255.0.135", "10.255.0.143"} {
		s.torFRR.Must("ping", "-c1", "-w20", addr) // as many as it takes
	}
	dies("the block", v4, fateBlock, fateTwo)
}
