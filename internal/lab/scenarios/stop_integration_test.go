//go:build integration

package scenarios

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/internal/control"
	"rhid/internal/lab"
)

const (
	drainTime   = 4 * time.Second // the time to look at the drain at all routers
	drainShort  = time.Second     // where nobody looks
	stopTimeout = 10 * time.Second
	stopLinger  = 500 * time.Millisecond

	// VIPs of services that come and go with the configuration, over BGP.
	stopEbb, stopSpare, stopFresh = "10.255.0.40/32", "10.255.0.50/32", "10.255.0.60/32"
	stopEbbPort                   = 9400
)

// stopText is a configuration; its parts are what the reloads change.
type stopText struct {
	asn      int
	atmBase  int    // MED of atm
	ebb      string // check and servers of the service that is down
	spare    bool
	fresh    bool
	torBird  bool
	hold     string
	drain    time.Duration
	appendix string
}

func stopDefault() stopText {
	return stopText{
		asn: 65010, atmBase: 100, spare: true, torBird: true, hold: "3s", drain: drainTime,
		ebb: `servers: {addresses: ["10.9.1.1:9400"]}, check: tcp-connect, metric: {base: 100}`,
	}
}

func (c stopText) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, `bgp: {asn: %d, hold: %s}
kernel: {next_hop: tier, tiers: [10, 100, 200], %s}
vip: {linger: %s}
stop: {drain_time: %s, timeout: %s}
sites:
  - name: beijing
    routers:
      - {name: tor-frr, address: 10.1.1.2, asn: 65001, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4]}
      - {name: tor-frr-6, address: "fd00:1:1::2", asn: 65001, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv6]}
`, c.asn, c.hold, siteDevices, stopLinger, c.drain, stopTimeout)
	if c.torBird {
		b.WriteString(`      - {name: tor-bird, address: 10.1.2.2, asn: 65002, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4]}
      - {name: tor-bird-6, address: "fd00:1:2::2", asn: 65002, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv6]}
`)
	}
	fmt.Fprintf(&b, `nodes:
  - {name: lb1, site: beijing, address: 10.1.0.11}
checks:
  tcp-connect: {type: tcp, interval: 500ms, timeout: 400ms, fall: 2, rise: 2}
  tcp-other: {type: tcp, interval: 400ms, timeout: 300ms, fall: 3, rise: 2}
services:
  - {name: atm, vips: [%s, %q], servers: {addresses: ["10.9.1.1:9100", "10.9.1.2:9100"]}, check: tcp-connect, metric: {base: %d, step: 100}}
  - {name: counter, vips: [%s, %q], via: [kernel], servers: {addresses: ["10.9.1.1:9200", "10.9.1.2:9200"]}, check: tcp-connect, metric: {base: 10, step: 90}}
  - {name: ebb, vips: [%s], %s}
`, siteATM, siteATM6, c.atmBase, siteCounter, siteCounter6, stopEbb, c.ebb)
	if c.spare {
		fmt.Fprintf(&b, "  - {name: spare, vips: [%s], servers: {addresses: [\"10.9.1.1:9100\"]}, check: tcp-connect}\n", stopSpare)
	}
	if c.fresh {
		fmt.Fprintf(&b, "  - {name: fresh, vips: [%s], servers: {addresses: [\"10.9.1.2:9100\"]}, check: tcp-connect}\n", stopFresh)
	}
	return b.String() + c.appendix
}

// stopLab is the scenario under way.
type stopLab struct {
	*siteLab
	rhid      *lab.Proc
	host      *siteKernel
	frr, bird *lab.Capture // what lb1 and the routers say to each other, at the routers
	sessions  map[string]siteSession
}

// TestReloadAndStop goes through the life of a daemon after its start: reloads
// that are refused, reloads that change something, and the ways to end.
func TestReloadAndStop(t *testing.T) {
	s := &stopLab{siteLab: startSite(t, lab.Options{})}
	ebb := s.srv1.Serve(fmt.Sprintf(":%d", stopEbbPort))
	s.rhid = s.run(stopDefault().String())
	s.host = watchKernel(t, s.lb)
	s.frr, s.bird = s.torFRR.Capture("eth1"), s.torBird.Capture("eth1")
	s.settled()
	s.waitBranch(stopEbb, stopSpare)
	s.sessions = s.frrSessions()

	ebb.Stop()
	s.frr.Wait("ebb's withdraw", 30*time.Second, func(e lab.Event) bool { return e.Withdraws(stopEbb) })
	s.host.gone(s.siteLab, stopEbb)
	s.refused()
	s.changed()
	s.metricChanged()
	s.routerRemoved()
	s.drained()
	s.secondSignal()
	s.torFRR.Must("vtysh", "-c", "configure terminal", "-c", "router bgp 65001", "-c", "neighbor RHID timers 20 60")
	lab.Steady(t, stood, s.blackHoled)
	s.blackHoledFromStart()
}

func (s *stopLab) frrSessions() map[string]siteSession {
	s.t.Helper()
	return map[string]siteSession{
		"10.1.1.1": s.session(s.torFRR, "10.1.1.1"), "fd00:1:1::1": s.session(s.torFRR, "fd00:1:1::1"),
	}
}

// sessionsLive sees to it that the sessions of tor-frr are those of the start.
func (s *stopLab) sessionsLive(when string) {
	s.t.Helper()
	for neighbour, now := range s.frrSessions() {
		if was := s.sessions[neighbour]; !now.same(was) {
			s.t.Errorf("%s: the session of tor-frr with %s is %+v, was %+v", when, neighbour, now, was)
		}
	}
}

// forget forgets what happened so far.
func (s *stopLab) forget() {
	s.frr.Reset()
	s.bird.Reset()
	s.host.reset()
}

// hup changes the configuration and asks rhid to take it over. It returns what
// rhid said to it: "reloaded" or "reload-refused".
func (s *stopLab) hup(text string) (what, detail string) {
	s.t.Helper()
	since := s.lastEvent()
	s.configure(text)
	s.lb.SignalAll("rhid", syscall.SIGHUP)
	s.WaitFor("an answer to SIGHUP", 30*time.Second, func() bool {
		for _, e := range s.events(since) {
			if e.Kind == "daemon" && strings.HasPrefix(e.What, "reload") {
				what, detail = e.What, e.Detail
			}
		}
		return what != ""
	})
	return what, detail
}

// stopUpdates are the prefixes in UPDATEs that a router received, in order: "+" for
// announced, "-" for withdrawn.
func stopUpdates(c *lab.Capture) []string {
	var out []string
	for _, e := range c.Events(func(e lab.Event) bool { return e.Kind == lab.BGPUpdate && !e.Sent }) {
		list := func(sign string, ps []netip.Prefix) {
			for _, p := range ps {
				out = append(out, sign+p.String())
			}
		}
		list("-", e.Withdrawn)
		list("+", e.Announced)
	}
	slices.Sort(out)
	return out
}

// still sees to it that exactly these UPDATEs arrived at both routers, that
// the sessions of tor-frr live on, and that nothing but the given VIPs changed
// on the host.
func (s *stopLab) still(when string, updates []string, vips ...string) {
	s.t.Helper()
	slices.Sort(updates)
	for name, c := range map[string]*lab.Capture{"tor-frr": s.frr, "tor-bird": s.bird} {
		if got := stopUpdates(c); !slices.Equal(got, updates) {
			s.t.Errorf("%s: %s received %v, want %v", when, name, got, updates)
		}
	}
	s.sessionsLive(when)
	touched := s.host.where(func(c siteChange) bool {
		addr := c.Prefix.Addr()
		ours := netip.MustParsePrefix("10.255.0.0/24").Contains(addr) || netip.MustParsePrefix("fd00:255::/64").Contains(addr)
		return ours && !slices.Contains(vips, c.Prefix.String())
	})
	if len(touched) > 0 {
		s.t.Errorf("%s: other VIPs changed on the host: %v", when, touched)
	}
}

// end waits for the end of rhid, which was asked at a time, and returns how long
// it took.
func (s *stopLab) end(when string, asked time.Time) time.Duration {
	s.t.Helper()
	err := s.rhid.Wait(siteUp)
	took := time.Since(asked)
	if err != nil || took > stopTimeout {
		s.t.Errorf("%s: rhid ended after %v (%v), stop.timeout is %v", when, took, err, stopTimeout)
	}
	return took
}

// nothingLeft sees to it that no VIP is on lb1.
func (s *stopLab) nothingLeft(when string) {
	s.t.Helper()
	for _, v := range append(siteVIPs(), stopEbb, stopSpare, stopFresh) {
		if got := s.form(s.host, v); got != (siteForm{}) {
			s.t.Errorf("%s: %s still stands on lb1 as %+v", when, v, got)
		}
	}
}

// drained stops rhid and looks at both routers while it drains.
func (s *stopLab) drained() {
	s.t.Helper()
	s.settled()
	s.forget()
	began := time.Now()
	s.rhid.Signal(syscall.SIGTERM)
	var frr, bird lab.BGPPath
	for _, v := range []string{siteATM6, siteATM} {
		s.WaitFor(v+" drained at both routers", drainTime, func() bool {
			frr, bird = s.torFRR.BGP(v), s.torBird.BGP(v)
			return stopDrained(frr) && stopDrained(bird)
		})
	}
	s.WaitFor("the worst cost of counter at branch", drainTime, func() bool {
		cost, ok := s.branch.OSPFCost(siteCounter)
		cost6, ok6 := s.branch.OSPFCost(siteCounter6)
		return ok && ok6 && cost == 10+10+100 && cost6 == cost // two links, and the metric of rank 1
	})
	s.t.Logf("drain: seen everywhere after %s; at FRR %+v; at BIRD %+v", ms(time.Since(began)), frr, bird)
	if frr.LocalPref != 0 {
		s.t.Errorf("drain: FRR has local preference %d, want 0 by GRACEFUL_SHUTDOWN", frr.LocalPref)
	}
	took := s.end("drain", began)
	s.nothingLeft("drain")
	for name, c := range map[string]*lab.Capture{"tor-frr": s.frr, "tor-bird": s.bird} {
		s.order(name, c, began)
	}
	s.t.Logf("drain: rhid ended after %v", took.Round(time.Millisecond))
}

func stopDrained(p lab.BGPPath) bool {
	return p.Present && slices.Contains(p.Communities, "65535:0") && p.MED == 200 && slices.Equal(p.ASPath, []uint32{65010, 65010})
}

// order looks at the wire: the drain, then after drain_time the withdraws,
// then the end of the sessions; and the VIP went from the host last, linger
// after its withdraw.
func (s *stopLab) order(router string, c *lab.Capture, began time.Time) {
	s.t.Helper()
	for _, v := range []string{siteATM, siteATM6} {
		find := func(what string, match func(lab.Event) bool) lab.Event {
			return c.Wait(what+" of "+v+" at "+router, 30*time.Second, func(e lab.Event) bool { return !e.Sent && match(e) })
		}
		drain := find("drain", func(e lab.Event) bool { return e.Announces(v) })
		gone := find("withdraw", func(e lab.Event) bool { return e.Withdraws(v) })
		end := find("the end of the session", func(e lab.Event) bool { return e.Kind == lab.BGPNotification && e.Src.Addr() == gone.Src.Addr() })
		local := s.host.gone(s.siteLab, v).At
		if all := s.host.where(func(c siteChange) bool { return c.Gone && c.Kind == "address" && c.Prefix.String() == v }); len(all) != 1 {
			s.t.Errorf("drain: the address of %s went more than once: %v", v, all)
		}
		s.t.Logf("drain: %-8s %-16s drain %s, withdraw %s, NOTIFICATION %s, address gone %s after SIGTERM", router, v,
			ms(drain.At.Sub(began)), ms(gone.At.Sub(began)), ms(end.At.Sub(began)), ms(local.Sub(began)))
		if gone.At.Sub(drain.At) < drainTime-50*time.Millisecond {
			s.t.Errorf("drain: %s was withdrawn %v after the drain, drain_time is %v", v, gone.At.Sub(drain.At), drainTime)
		}
		if !end.At.After(gone.At) || local.Sub(gone.At) < stopLinger {
			s.t.Errorf("drain: %s: wrong order at %s", v, router)
		}
	}
}

// secondSignal stops rhid twice: the second one skips the drain.
func (s *stopLab) secondSignal() {
	s.t.Helper()
	s.rhid = s.run(stopDefault().String())
	s.overBGP()
	s.forget()
	began := time.Now()
	s.rhid.Signal(syscall.SIGTERM)
	// Two signals at once would be one.
	s.frr.Wait("atm's drain", siteUp, func(e lab.Event) bool { return !e.Sent && e.Announces(siteATM) })
	s.rhid.Signal(syscall.SIGTERM)
	took := s.end("two signals", began)
	gone := s.frr.Wait("atm's withdraw", siteUp, func(e lab.Event) bool { return e.Withdraws(siteATM) }).At.Sub(began)
	if gone >= drainTime {
		s.t.Errorf("two signals: atm was withdrawn after %v, as if nobody had cut drain_time %v short", gone, drainTime)
	}
	s.t.Logf("two signals: withdrawn after %s, rhid ended after %v", ms(gone), took.Round(time.Millisecond))
	s.nothingLeft("two signals")
}

// stopBlackHoled is a configuration for a router with which the session has long
// to live when the router does not hear anything any more.
func stopBlackHoled() string {
	c := stopDefault()
	c.hold, c.drain = "60s", drainShort
	return c.String()
}

// blackHoled stops rhid while one router does not hear it any more. The other
// router is told all the same. It returns whether that was too late.
func (s *stopLab) blackHoled() (misses []string) {
	s.t.Helper()
	s.rhid = s.run(stopBlackHoled())
	s.overBGP()
	s.WaitFor("a hold time of 60 s with tor-frr", siteUp, func() bool {
		return !slices.ContainsFunc(s.status().Neighbours, func(n control.Neighbour) bool {
			return strings.HasPrefix(n.Name, "tor-frr") && n.HoldSeconds != 60
		})
	})
	s.forget()
	s.Blackhole("lb1:eth1")
	began := time.Now()
	s.rhid.Signal(syscall.SIGTERM)
	took := s.end("black hole", began)
	gone := s.bird.Wait("atm's withdraw at tor-bird", siteUp, func(e lab.Event) bool { return e.Withdraws(siteATM) })
	s.t.Logf("black hole: rhid ended after %v, tor-bird was told after %s", took.Round(time.Millisecond), ms(gone.At.Sub(began)))
	if !s.torFRR.BGP(siteATM).Present {
		s.t.Errorf("black hole: tor-frr does not have the route any more, so it was not black-holed")
	}
	if late := gone.At.Sub(began); late > drainShort+time.Second {
		misses = append(misses, fmt.Sprintf("black hole: tor-bird was told after %v: the black-holed router held it up", late))
	}
	s.nothingLeft("black hole")
	s.Unblackhole("lb1:eth1")
	s.torFRR.Must("vtysh", "-c", "clear bgp *")
	return misses
}

// blackHoledFromStart stops rhid while the session with a router was never up.
func (s *stopLab) blackHoledFromStart() {
	s.t.Helper()
	s.Blackhole("lb1:eth1")
	s.rhid = s.run(stopBlackHoled())
	s.WaitFor("atm at tor-bird", siteUp, func() bool { return s.torBird.BGP(siteATM).Present })
	began := time.Now()
	s.rhid.Signal(syscall.SIGTERM)
	s.t.Logf("black hole from the start: rhid ended after %v", s.end("black hole from the start", began).Round(time.Millisecond))
	s.nothingLeft("black hole from the start")
}
