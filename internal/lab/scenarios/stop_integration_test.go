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

	"rhid/internal/lab"
)

const (
	drainTime   = 1500 * time.Millisecond
	stopTimeout = 8 * time.Second
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
	appendix string
}

func stopDefault() stopText {
	return stopText{
		asn: 65010, atmBase: 100, spare: true, torBird: true, hold: "3s",
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
`, c.asn, c.hold, siteDevices, stopLinger, drainTime, stopTimeout)
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
	time.Sleep(2 * stopLinger)
	s.refused()
	s.changed()
	s.metricChanged()
	s.routerRemoved()
	s.drained()
	s.secondSignal()
	s.blackHoled()
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

// end asks rhid to end and says how long it took.
func (s *stopLab) end(signals int) (time.Duration, error) {
	s.t.Helper()
	began := time.Now()
	for range signals {
		s.rhid.Signal(syscall.SIGTERM)
		time.Sleep(50 * time.Millisecond)
	}
	err := s.rhid.Wait(stopTimeout + 5*time.Second)
	took := time.Since(began)
	if took > stopTimeout {
		s.t.Errorf("rhid ended after %v, stop.timeout is %v", took, stopTimeout)
	}
	return took, err
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
	ended := make(chan struct{})
	var took time.Duration
	var err error
	began := time.Now()
	s.rhid.Signal(syscall.SIGTERM)
	go func() {
		defer close(ended)
		err = s.rhid.Wait(stopTimeout + 5*time.Second)
		took = time.Since(began)
	}()
	for _, v := range []string{siteATM, siteATM6} {
		s.WaitFor(v+" drained at both routers", drainTime, func() bool { return stopDrained(s.torFRR.BGP(v)) && stopDrained(s.torBird.BGP(v)) })
	}
	s.WaitFor("the worst cost of counter at branch", drainTime, func() bool {
		cost, ok := s.branch.OSPFCost(siteCounter)
		cost6, ok6 := s.branch.OSPFCost(siteCounter6)
		return ok && ok6 && cost == 10+10+100 && cost6 == cost // two links, and the metric of rank 1
	})
	seen := time.Since(began)
	frr, bird := s.torFRR.BGP(siteATM), s.torBird.BGP(siteATM)
	if frr.LocalPref != 0 {
		s.t.Errorf("drain: FRR has local preference %d, want 0 by GRACEFUL_SHUTDOWN", frr.LocalPref)
	}
	s.t.Logf("drain: seen everywhere after %s; at FRR %+v; at BIRD %+v", ms(seen), frr, bird)
	<-ended
	if err != nil || took > stopTimeout {
		s.t.Errorf("drain: rhid ended after %v (%v), stop.timeout is %v", took, err, stopTimeout)
	}
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
		local := s.host.where(func(c siteChange) bool { return c.Gone && c.Kind == "address" && c.Prefix.String() == v })
		if len(local) != 1 {
			s.t.Fatalf("drain: the address of %s went %d times", v, len(local))
		}
		s.t.Logf("drain: %-8s %-16s drain %s, withdraw %s, NOTIFICATION %s, address gone %s after SIGTERM", router, v,
			ms(drain.At.Sub(began)), ms(gone.At.Sub(began)), ms(end.At.Sub(began)), ms(local[0].At.Sub(began)))
		if gone.At.Sub(drain.At) < drainTime-50*time.Millisecond {
			s.t.Errorf("drain: %s was withdrawn %v after the drain, drain_time is %v", v, gone.At.Sub(drain.At), drainTime)
		}
		if !end.At.After(gone.At) || local[0].At.Sub(gone.At) < stopLinger {
			s.t.Errorf("drain: %s: wrong order at %s", v, router)
		}
	}
}

// secondSignal stops rhid twice: the second one skips the drain.
func (s *stopLab) secondSignal() {
	s.t.Helper()
	s.rhid = s.run(stopDefault().String())
	s.settled()
	s.forget()
	began := time.Now()
	took, err := s.end(2)
	if err != nil {
		s.t.Errorf("two signals: rhid ended with %v", err)
	}
	gone := s.frr.Wait("atm's withdraw", 30*time.Second, func(e lab.Event) bool { return e.Withdraws(siteATM) }).At.Sub(began)
	if gone >= drainTime {
		s.t.Errorf("two signals: atm was withdrawn after %v, as if nobody had cut drain_time %v short", gone, drainTime)
	}
	s.t.Logf("two signals: withdrawn after %s, rhid ended after %v", ms(gone), took.Round(time.Millisecond))
	s.nothingLeft("two signals")
}

// blackHoled stops rhid while one router does not hear it any more, and the
// session with that has long to live. The other router is told all the same.
func (s *stopLab) blackHoled() {
	s.t.Helper()
	s.torFRR.Must("vtysh", "-c", "configure terminal", "-c", "router bgp 65001", "-c", "neighbor RHID timers 20 60")
	c := stopDefault()
	c.hold = "60s"
	s.rhid = s.run(c.String())
	s.settled()
	for _, n := range s.status().Neighbours {
		if strings.HasPrefix(n.Name, "tor-frr") && n.HoldSeconds != 60 {
			s.t.Fatalf("hold time with %s is %d s, the test needs 60", n.Name, n.HoldSeconds)
		}
	}
	s.forget()
	s.Blackhole("lb1:eth1")
	began := time.Now()
	took, err := s.end(1)
	gone := s.bird.Wait("atm's withdraw at tor-bird", 30*time.Second, func(e lab.Event) bool { return e.Withdraws(siteATM) })
	s.t.Logf("black hole: rhid ended after %v (%v), tor-bird was told after %s", took.Round(time.Millisecond), err, ms(gone.At.Sub(began)))
	if !s.torFRR.BGP(siteATM).Present {
		s.t.Errorf("black hole: tor-frr does not have the route any more, so it was not black-holed")
	}
	if late := gone.At.Sub(began); late > drainTime+time.Second {
		s.t.Errorf("black hole: tor-bird was told after %v: the black-holed router held it up", late)
	}
	s.nothingLeft("black hole")

	// The session is not even up when the next life ends.
	s.rhid = s.run(c.String())
	s.WaitFor("atm at tor-bird", siteUp, func() bool { return s.torBird.BGP(siteATM).Present })
	took, err = s.end(1)
	s.t.Logf("black hole from the start: rhid ended after %v (%v)", took.Round(time.Millisecond), err)
	s.nothingLeft("black hole from the start")
}
