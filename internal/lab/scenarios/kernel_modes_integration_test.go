//go:build integration

package scenarios

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"rhid/internal/lab"
)

// TestKernelModes withdraws under traffic in every form that a kernel route of
// rhid's may have, IPv4 and IPv6, and with the VIP as an address, which is for
// BIRD alone. Each must keep the order of scenario S1.
func TestKernelModes(t *testing.T) {
	svc := &bankService{name: "kernel", via: "kernel", number: 40}
	b := startBank(startSite(t, lab.Options{}), svc)
	s := &s1{bank: b, wire: b.lb.Capture(""), figures: map[string]spread{}}
	// lo and blackhole have no tier: FRR gives them one cost.
	b.lb.Must("vtysh", "-c", "configure terminal", "-c", "route-map RHID permit 40",
		"-c", "match ip address prefix-list VIPS", "-c", "set metric 10", "-c", "exit", "-c", "route-map RHID6 permit 40",
		"-c", "match ipv6 address prefix-list VIPS6", "-c", "set metric 10")
	for i, form := range []string{"tier", "lo", "blackhole"} {
		text := strings.Replace(b.config(), "next_hop: tier", "next_hop: "+form, 1)
		if form != "tier" {
			text = strings.Replace(text, siteDevices, "", 1)
		}
		b.configure(text)
		b.lb.Rhid("reload")
		for _, vip := range svc.vips() { // kernel.spacing puts a change of form off for 5 s
			b.WaitFor(vip+" on lb1 as "+form, bankRise, func() bool {
				return slices.ContainsFunc(b.lb.Kernel(vip), func(r lab.KernelRoute) bool { return kernelForm(r) == form })
			})
		}
		for _, r := range s.run(i+1, []*bankService{svc}) {
			t.Logf("%s, AnyIP: in order %v", form, r.ok)
		}
	}
	b.waitAnnounced(svc)
	s.address(svc)
}

// kernelForm is the form of an announcement: a tier is a next hop, in IPv6 a device.
func kernelForm(r lab.KernelRoute) string {
	switch {
	case r.Proto != siteProto:
		return ""
	case r.Type == unix.RTN_BLACKHOLE:
		return "blackhole"
	case r.Via.IsValid() || r.Dev == "rhid-t0":
		return "tier"
	default:
		return r.Dev
	}
}

// address has the VIP be an address on lo. FRR prefers its connected route to the
// kernel route and exports nothing; BIRD does not mind.
func (s *s1) address(svc *bankService) {
	s.t.Helper()
	s.lb.SignalAll("rhid", syscall.SIGTERM)
	s.WaitFor("the end of rhid", 2*siteUp, func() bool { return len(s.lb.Pids("rhid")) == 0 })
	text := strings.Replace(s.config(), "vip: {", "vip: {mode: address, ", 1)
	s.siteLab.run(strings.Replace(text, "from: [frr, bird]", "from: [bird]", 1))
	for _, vip := range svc.vips() {
		s.WaitFor(vip+" at core-bird from lb1", bankRise, func() bool { return fromLB(s.coreBird, vip) })
		if fromLB(s.coreFRR, vip) {
			s.t.Errorf("FRR exports %s although it is connected", vip)
		}
	}
	s.forget(svc)
	svc.health.Stop()
	for _, vip := range svc.vips() {
		gone := s.watches["lb1"][vip].Wait("no longer local", s1Limit, isLocalGone).At
		s.WaitFor(vip+" gone from core-bird", s1Limit, func() bool { return len(s.coreBird.Kernel(vip)) == 0 })
		far := s.watches["core-bird"][vip].WaitGone(s1Limit).At
		s.t.Logf("address: %s gone from core-bird %s before the address", vip, ms(gone.Sub(far)))
		if !far.Before(gone) {
			s.t.Errorf("%s went %v before core-bird had lost its route", vip, far.Sub(gone))
		}
	}
}

// fromLB says whether a router has a route straight from lb1.
func fromLB(n *lab.Node, vip string) bool {
	return slices.ContainsFunc(n.Kernel(vip), func(r lab.KernelRoute) bool { return r.Dev == "eth1" })
}
