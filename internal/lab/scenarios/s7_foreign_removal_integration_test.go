//go:build integration

package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/announce"
	"rhid/internal/lab"
)

// repairLimit is how long a repair may take (issue 2, "Must be shown" 4).
const repairLimit = 2 * time.Second

// s7Probe is the time between two connections to each VIP: no more of them than a
// busy machine's load balancer can accept.
const s7Probe = 50 * time.Millisecond

// foreignRemoval is something that somebody else does to lb1.
type foreignRemoval struct {
	name  string
	lines []string // commands
	after []string // commands that put back what is not rhid's
	hurts []string // VIPs that must be repaired
	far   []string // VIPs whose route may leave the far routers meanwhile
	stays []string // VIPs of hurts that the kernel itself puts back
	deaf  bool     // clients have no answers meanwhile, for reasons of the network's own
	once  bool     // rhid must not repair anything between two lines
}

// spares are the VIPs that a removal must leave alone.
func (r foreignRemoval) spares() []string {
	return slices.DeleteFunc(siteVIPs(), func(v string) bool { return slices.Contains(r.hurts, v) })
}

func foreignRemovals() []foreignRemoval {
	four := []string{siteATM, siteCounter}
	others := []string{"ip addr add 127.0.0.1/8 dev lo", "ip addr add 10.1.0.11/32 dev lo"}
	return []foreignRemoval{
		{name: "address deleted", lines: []string{"ip addr del " + siteATM + " dev lo"}, hurts: []string{siteATM}},
		{name: "only the IPv6 address deleted", lines: []string{"ip addr del " + siteATM6 + " dev lo"}, hurts: []string{siteATM6}},
		{name: "local route of the address deleted", lines: []string{"ip route del local " + siteATM + " dev lo table local"}, hurts: []string{siteATM}},
		{name: "IPv6 local route of the address deleted", lines: []string{"ip -6 route del local " + siteATM6 + " dev lo table local"}, hurts: []string{siteATM6}},
		{name: "AnyIP route deleted", lines: []string{"ip route del local " + siteCounter + " dev lo table local"}, hurts: []string{siteCounter}},
		{name: "IPv6 AnyIP route deleted", lines: []string{"ip -6 route del local " + siteCounter6 + " dev lo table local"}, hurts: []string{siteCounter6}},
		{name: "announcement deleted", lines: []string{"ip route del " + siteCounter + " proto 151"}, hurts: []string{siteCounter}, far: []string{siteCounter}},
		{name: "IPv6 announcement deleted", lines: []string{"ip -6 route del " + siteCounter6 + " proto 151"}, hurts: []string{siteCounter6}, far: []string{siteCounter6}},
		{name: "route flush", lines: []string{"ip -4 route flush table all proto 151"}, hurts: []string{siteCounter}, far: []string{siteCounter}},
		{name: "IPv6 route flush", lines: []string{"ip -6 route flush table all proto 151"}, hurts: []string{siteCounter6}, far: []string{siteCounter6}},
		{
			name:  "last other address of lo deleted",
			lines: []string{"ip addr del 127.0.0.1/8 dev lo", "ip addr del 10.1.0.11/32 dev lo"}, after: others,
		},
		{ // the kernel then takes out every IPv4 route over lo, and tells nobody
			name:  "every IPv4 address of lo deleted, the VIP as the last",
			lines: []string{"ip addr del 127.0.0.1/8 dev lo", "ip addr del 10.1.0.11/32 dev lo", "ip addr del " + siteATM + " dev lo", "ip addr del " + siteLease + " dev lo"}, after: others,
			hurts: four, far: four[1:], once: true,
		},
		{ // the kernel takes the IPv4 routes out, and the guard the IPv6 ones if it comes before the renewal
			name: "the lease deleted", lines: []string{"ip addr del " + siteLease + " dev lo"},
			hurts: []string{siteCounter, siteCounter6}, far: []string{siteCounter, siteCounter6}, stays: []string{siteCounter6},
		},
		{name: "every IPv6 address of lo flushed", lines: []string{"ip -6 addr flush dev lo"}, after: []string{"ip addr add ::1/128 dev lo"}, hurts: []string{siteATM6}},
		{name: "lo down and up", lines: []string{"ip link set lo down", "ip link set lo up"}, hurts: siteVIPs(), far: []string{siteCounter, siteCounter6}, stays: []string{siteATM}},
	}
}

// s7 is the scenario under way.
type s7 struct {
	*siteLab
	host   *siteKernel
	wire   *lab.Capture // at tor-frr
	far    map[string]*lab.FIBWatch
	probes map[string]*lab.Prober
	since  time.Time // of forget
	began  time.Time // when the branch was watched first
	rhid   *lab.Proc
	misses []string // of the removal under way
}

// TestS7ForeignRemoval has somebody else take away what rhid put into the
// kernel. All of it comes back in time, once, and without a touch of the VIPs
// that were not concerned, on the host and at the routers behind it.
func TestS7ForeignRemoval(t *testing.T) {
	s := &s7{siteLab: startSite(t, lab.Options{}), far: map[string]*lab.FIBWatch{}, probes: map[string]*lab.Prober{}}
	s.rhid = s.run(s.shipped())
	s.waitBranch(siteVIPs()...)
	s.host = watchKernel(t, s.lb)
	s.wholeAt(s.host, siteUp, siteVIPs()...)
	s.wire = s.torFRR.Capture("eth1")
	for _, v := range siteVIPs() {
		s.far[v] = s.branch.WatchFIB(v)
	}
	s.began = time.Now()
	s.probes[siteATM] = s.client.Probe("10.255.0.10:9100", s7Probe)
	s.probes[siteATM6] = s.client.Probe("[fd00:255::10]:9100", s7Probe)
	s.probes[siteCounter] = s.client.ProbeHTTP("10.255.0.20:9200", s7Probe)
	s.probes[siteCounter6] = s.client.ProbeHTTP("[fd00:255::20]:9200", s7Probe)
	s.calm()
	for _, r := range foreignRemovals() {
		lab.Steady(t, stood, func() []string { return s.remove(r) })
	}
	lab.Steady(t, stood, s.forgotten)
	s.restartZebra()
	for _, p := range s.probes {
		p.Stop()
	}
}

// calm waits until a fresh network has no more to say: BIRD may send an LSA of its
// own once more, 5 s after the last, and the branch then sets its routes anew.
func (s *s7) calm() {
	s.t.Helper()
	s.settled()
	s.WaitFor("6 s without a change at the branch", 2*siteUp, func() bool {
		var last time.Time
		for _, w := range s.far {
			for _, e := range w.Events() {
				last = latest(last, e.At)
			}
		}
		return time.Since(latest(last, s.began)) > 6*time.Second
	})
}

// remove makes one removal and sees to it that it is repaired. It returns what
// was not as it must be.
func (s *s7) remove(r foreignRemoval) []string {
	s.t.Helper()
	s.forget()
	if r.once {
		s.rhid.Stop()
	}
	var began time.Time
	for _, line := range r.lines {
		began = time.Now()
		s.lb.Must("sh", "-c", line)
	}
	if r.once {
		s.rhid.Cont()
	}
	repaired := s.wholeAt(s.host, siteUp, r.hurts...)
	began = s.removedAt(r, began)
	hostTook := max(0, repaired.Sub(began))
	if hostTook > repairLimit {
		s.bad("%s: repaired on the host after %v, limit %v", r.name, hostTook, repairLimit)
	}
	farTook := time.Duration(0) // 0 where no route went
	for _, v := range r.far {
		s.WaitFor(v+" at branch again", siteUp, func() bool { return len(s.branch.Kernel(v)) > 0 })
		if at := s.lastThere(v); !at.IsZero() {
			farTook = max(farTook, at.Sub(began))
		}
	}
	if farTook > repairLimit {
		s.bad("%s: repaired at branch after %v, limit %v", r.name, farTook, repairLimit)
	}
	for _, line := range r.after {
		s.lb.Must("sh", "-c", line)
	}
	time.Sleep(1200 * time.Millisecond) // a full comparison of rhid's: nothing more may come of it
	s.t.Logf("%-58s host %9s, branch %9s, longest outages %s", r.name, ms(hostTook), ms(farTook), s.outages())
	s.check(r)
	return s.misses
}

func (s *s7) bad(format string, args ...any) {
	s.misses = append(s.misses, fmt.Sprintf(format, args...))
}

// removedAt is when the kernel told of the first loss, or else when the last
// command began: it is silent about some.
func (s *s7) removedAt(r foreignRemoval, began time.Time) time.Time {
	s.t.Helper()
	lost := s.host.where(func(c siteChange) bool {
		return c.Gone && c.At.After(began) && slices.Contains(r.hurts, c.Prefix.String())
	})
	if len(lost) > 0 {
		return lost[0].At
	}
	return began
}

// check looks for what must not have happened.
func (s *s7) check(r foreignRemoval) {
	s.t.Helper()
	for _, v := range siteVIPs() {
		if got := s.form(s.host, v); got != siteWhole(v) {
			s.bad("%s: %s stands in the kernel as %+v, want %+v", r.name, v, got, siteWhole(v))
		}
	}
	for _, v := range r.hurts {
		if slices.Contains(r.stays, v) {
			continue
		}
		if back := s.host.where(func(c siteChange) bool { return c.Prefix.String() == v && !c.Gone }); len(back) == 0 {
			s.bad("%s: nothing of %s was put back, so nothing was taken away", r.name, v)
		}
	}
	for _, v := range r.spares() {
		if got := s.host.of(v); len(got) > 0 {
			s.bad("%s: %s was touched: %v", r.name, v, got)
		}
		if failed := s.failures(v); len(failed) > 0 && !r.deaf {
			s.bad("%s: %d connections to %s failed, the first: %+v", r.name, len(failed), v, failed[0])
		}
	}
	for _, v := range siteVIPs() {
		if slices.Contains(r.far, v) {
			continue
		}
		if got := s.far[v].Events(); len(got) > 0 {
			s.bad("%s: the route of %s changed at branch: %v", r.name, v, got)
		}
	}
	if n := s.wire.Count(lab.BGPUpdate, false); n > 0 {
		s.bad("%s: tor-frr received %d UPDATEs, want none: the address came back in time", r.name, n)
	}
}

// forget waits until the network is at rest and forgets what happened so far.
func (s *s7) forget() {
	s.t.Helper()
	s.settled()
	s.misses, s.since = nil, time.Now()
	s.host.reset()
	s.wire.Reset()
	for _, v := range siteVIPs() {
		s.far[v].Reset()
		s.probes[v].Reset()
	}
}

// lastThere is when a route last came to the branch router, zero if it never
// went.
func (s *s7) lastThere(vip string) time.Time {
	s.t.Helper()
	var at time.Time
	gone := false
	for _, e := range s.far[vip].Events() {
		if e.Kind == lab.FIBDelete {
			gone = true
		} else if gone {
			at, gone = e.At, false
		}
	}
	return at
}

// failures are the attempts to reach a VIP that began since forget and failed.
func (s *s7) failures(vip string) []lab.Attempt {
	return slices.DeleteFunc(s.probes[vip].Attempts(), func(a lab.Attempt) bool {
		return a.Error == "" || a.Start.Before(s.since)
	})
}

// outages are the longest times without an answer, for the figures.
func (s *s7) outages() string {
	out := ""
	for _, v := range siteVIPs() {
		out += " " + ms(s.probes[v].Result().LongestOutage)
	}
	return out
}

// healLimit is how soon a route that FRR has forgotten is at the far router
// again: rhid gives FRR 2 s of its own, looks once a second, and adds it anew.
const healLimit = 5 * time.Second

// forgotten has FRR lose routes that stand in the kernel: somebody adds one with
// the same destination and metric and takes it out again, and FRR takes that for
// the only one. rhid sees it in FRR's database, says so, and heals it. It returns
// what was not as it must be.
func (s *s7) forgotten() []string {
	s.t.Helper()
	s.forget()
	for _, line := range []string{
		"ip route append " + siteCounter + " dev lo metric 10 proto static",
		"ip -6 route append " + siteCounter6 + " via fd00:9:1::99 dev eth5 metric 10 proto static",
	} {
		s.lb.Must("sh", "-c", line)
	}
	time.Sleep(200 * time.Millisecond) // for FRR to have seen it
	began := time.Now()
	s.lb.Must("ip", "route", "del", siteCounter, "dev", "lo", "metric", "10", "proto", "static")
	s.lb.Must("ip", "-6", "route", "del", siteCounter6, "via", "fd00:9:1::99", "dev", "eth5", "metric", "10", "proto", "static")
	four, six := false, false
	s.WaitFor("status telling that FRR lost both", siteUp, func() bool {
		four, six = four || s.lostByFRR(siteCounter), six || s.lostByFRR(siteCounter6)
		return four && six
	})
	told := time.Since(began)
	for _, v := range []string{siteCounter, siteCounter6} {
		s.WaitFor(v+" in FRR's database again", siteUp, func() bool { return !s.lostByFRR(v) })
	}
	s.fromHost(s.coreFRR, siteCounter, siteCounter6)
	took := time.Since(began)
	s.t.Logf("forgotten by FRR: told after %s, healed at core-frr after %s", ms(told), ms(took))
	if took > healLimit {
		s.bad("forgotten by FRR: healed after %v, limit %v", took, healLimit)
	}
	for _, v := range siteVIPs() {
		if got := s.form(s.host, v); got != siteWhole(v) {
			s.bad("forgotten by FRR: %s stands in the kernel as %+v, want %+v", v, got, siteWhole(v))
		}
	}
	return s.misses
}

// lostByFRR says whether status tells that FRR does not have a route.
func (s *s7) lostByFRR(vip string) bool {
	s.t.Helper()
	for _, svc := range s.status().Services {
		for _, v := range svc.VIPs {
			if v.Prefix.String() == vip {
				return slices.ContainsFunc(v.Routes["kernel"].Places, func(p announce.Place) bool {
					return p.Name == "frr" && p.State != announce.Present
				})
			}
		}
	}
	s.t.Fatalf("status has no %s", vip)
	return false
}

// restartZebra restarts lb1's zebra. Nobody touches what rhid put into the
// kernel, the routers behind keep it, and FRR takes up the next change of it.
func (s *s7) restartZebra() {
	s.t.Helper()
	s.forget()
	before := s.lb.Pids("zebra")
	began := time.Now()
	s.lb.Must("/usr/lib/frr/watchfrr.sh", "restart", "zebra")
	if slices.Equal(before, s.lb.Pids("zebra")) {
		s.t.Fatalf("zebra was not restarted: it is process %v as before", before)
	}
	read := s.WaitFor("zebra on lb1 having the kernel's route", siteUp, func() bool {
		out, err := s.lb.Run("vtysh", "-c", "show ip route "+siteCounter)
		return err == nil && strings.Contains(out, `Known via "kernel"`)
	})
	s.WaitFor("ospfd on lb1 being zebra's client again", siteUp, func() bool { // FRR tries every 10 s
		time.Sleep(200 * time.Millisecond) // vtysh without a pause would be load of its own
		return strings.Contains(s.lb.Must("vtysh", "-c", "show zebra client summary"), "ospf ")
	})
	s.t.Logf("zebra restarted: it has the kernel's routes after %v, ospfd's after %v", read.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	s.check(foreignRemoval{name: "zebra restarted", deaf: true}) // the ways back to the client are FRR's
	for _, m := range s.misses {
		s.t.Error(m)
	}
	s.WaitFor("lb1 having a way back to the client", siteUp, func() bool {
		return len(s.lb.Kernel("10.3.0.0/24")) > 0 && len(s.lb.Kernel("fd00:3::/64")) > 0
	})
	again := foreignRemoval{
		name: "announcement deleted after zebra's restart", lines: []string{"ip route del " + siteCounter + " proto 151"},
		hurts: []string{siteCounter}, far: []string{siteCounter},
	}
	lab.Steady(s.t, stood, func() []string { return s.remove(again) })
}
