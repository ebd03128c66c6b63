//go:build integration

package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

// killLimit is how soon a BGP route must be gone after kill -9: the kernel
// closes the sessions at once, FRR needs some 60 ms.
const killLimit = 500 * time.Millisecond

// guardComm is what the kernel calls the process that guards the lease.
const guardComm = "exe"

// crash is the scenario under way.
type crash struct {
	*siteLab
	rhid          *lab.Proc
	host          *siteKernel
	far           map[string]*lab.FIBWatch // at branch
	client, other *lab.Prober              // of the kernel backend's VIPs
}

// TestCrash kills rhid without a lease. Over BGP its VIPs are gone at once. What
// it left in the kernel serves on, is adopted by the next life without a touch, or
// removed by that when it is no longer wanted, or by `rhid cleanup`. With the
// lease, which is the default, see TestS3Kernel and TestLeaseIsAdopted.
func TestCrash(t *testing.T) {
	s := &crash{siteLab: startSite(t, lab.Options{}), far: map[string]*lab.FIBWatch{}}
	s.rhid = s.run(s.unleased())
	s.host = watchKernel(t, s.lb)
	for _, v := range siteVIPs() {
		s.far[v] = s.branch.WatchFIB(v)
	}
	lab.Steady(t, stood, s.goneAtOnce)
	time.Sleep(1500 * time.Millisecond) // longer than any timer of a dead process would run
	for _, m := range append(s.moved("while rhid is dead"), s.adopted()...) {
		t.Error(m)
	}
	s.cleanedUp()
	s.unwantedRemoved()
}

// probe begins to connect from the client, no more often than a busy machine's
// load balancer can accept.
func (s *crash) probe() {
	s.client = s.siteLab.client.ProbeHTTP("10.255.0.20:9200", 20*time.Millisecond)
	s.other = s.siteLab.client.ProbeHTTP("[fd00:255::20]:9200", 20*time.Millisecond)
}

// atRest waits until everything is announced and forgets how that came.
func (s *crash) atRest() {
	s.t.Helper()
	s.settled()
	s.wholeAt(s.host, siteUp, siteVIPs()...)
	s.forget()
}

func (s *crash) forget() {
	s.host.reset()
	for _, w := range s.far {
		w.Reset()
	}
}

// goneAtOnce kills rhid and looks at the BGP routers. It returns which limits
// were missed.
func (s *crash) goneAtOnce() (misses []string) {
	s.t.Helper()
	if !s.rhid.Running() {
		s.rhid = s.lb.StartRhid(siteConfig)
	}
	s.atRest()
	if s.client == nil {
		s.probe()
	}
	watches := map[string]*lab.FIBWatch{}
	for _, n := range []*lab.Node{s.torFRR, s.torBird} {
		for _, v := range []string{siteATM, siteATM6} {
			watches[n.Name+" "+v] = n.WatchFIB(v)
		}
	}
	killed := time.Now()
	s.rhid.Kill()
	for what, w := range watches {
		took := w.WaitGone(siteUp).At.Sub(killed)
		s.t.Logf("kill -9: %-26s gone from the kernel after %s", what, ms(took))
		if took > killLimit {
			misses = append(misses, fmt.Sprintf("kill -9: %s gone after %v, limit %v", what, took, killLimit))
		}
		w.Close()
	}
	for _, v := range []string{siteATM, siteATM6} {
		took := s.far[v].WaitGone(siteUp).At.Sub(killed)
		s.t.Logf("kill -9: %-26s gone from the kernel after %s", "branch "+v, ms(took))
		for _, n := range []*lab.Node{s.torFRR, s.torBird} {
			s.WaitFor(n.Name+" without a path to "+v, siteUp, func() bool { return len(n.BGPPaths(v)) == 0 })
		}
	}
	return misses
}

// moved is what changed of what rhid left in the kernel, on the host and at the
// branch, and what clients noticed of it: nothing, if all is well.
func (s *crash) moved(when string) (all []string) {
	s.t.Helper()
	bad := func(format string, args ...any) { all = append(all, when+": "+fmt.Sprintf(format, args...)) }
	for _, v := range siteVIPs() {
		if got := s.host.of(v); len(got) > 0 {
			bad("%s changed on the host: %v", v, got)
		}
		if got := s.form(s.host, v); got != siteWhole(v) {
			bad("%s stands in the kernel as %+v, want %+v", v, got, siteWhole(v))
		}
	}
	for _, v := range []string{siteCounter, siteCounter6} {
		if got := s.far[v].Events(); len(got) > 0 {
			bad("the route of %s changed at branch: %v", v, got)
		}
	}
	for _, p := range []*lab.Prober{s.client, s.other} {
		r := p.Result()
		s.t.Logf("%s: %d connections, %d failed %v", when, r.OK+r.Failed, r.Failed, r.Errors)
		if r.Failed > 0 {
			bad("connections failed: %d %v, for %v since %v", r.Failed, r.Errors, r.LongestOutage, r.OutageFrom.Format(time.StampMilli))
		}
	}
	return all
}

// adopted starts rhid again over its own leftovers. It returns what moved.
func (s *crash) adopted() (moved []string) {
	s.t.Helper()
	began := time.Now()
	s.rhid = s.lb.StartRhid(siteConfig)
	s.waitEvent(0, "daemon", "ready", siteUp)
	ready := time.Since(began)
	s.settled()
	s.t.Logf("restart: ready after %v, all VIPs at branch after %v", ready.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	time.Sleep(1500 * time.Millisecond) // a full comparison with everything decided
	moved = s.moved("restart")
	s.client.Stop()
	s.other.Stop()
	s.WaitFor("status saying that all is as wanted", siteUp, func() bool {
		for _, svc := range s.status().Services {
			for _, v := range svc.VIPs {
				if !v.Local.Differs.IsZero() || !v.Local.Settled() {
					return false
				}
				for _, r := range v.Routes {
					if !r.Differs.IsZero() || !r.Settled() {
						return false
					}
				}
			}
		}
		return true
	})
	return moved
}

// unwantedRemoved starts rhid over leftovers of a service that is no longer
// configured and of one whose servers have died meanwhile. Both go, and not
// before everything is decided.
func (s *crash) unwantedRemoved() {
	s.t.Helper()
	s.rhid = s.lb.StartRhid(siteConfig)
	s.atRest()
	s.rhid.Kill()
	for _, n := range []*lab.Node{s.srv1, s.srv2} {
		n.KillAll("haproxy")
	}
	text := s.unleased()
	from, to := strings.Index(text, "  - name: atm"), strings.Index(text, "  - name: counter")
	s.configure(text[:from] + text[to:] + "    vip: {linger: 500ms}\n")
	s.forget()
	began := time.Now()
	s.rhid = s.lb.StartRhid(siteConfig)
	decided := s.waitEvent(0, "service", "withdraw", siteUp).Time
	for _, v := range siteVIPs() {
		s.WaitFor(v+" gone from lb1", siteUp, func() bool { return s.form(s.host, v) == siteForm{} })
	}
	gone := time.Since(began)
	for _, v := range []string{siteCounter, siteCounter6} {
		s.far[v].WaitGone(siteUp)
	}
	for _, c := range s.host.where(func(c siteChange) bool { return c.Gone && c.At.Before(decided) }) {
		s.t.Errorf("unwanted leftovers: %v before the service was decided: %v", decided.Sub(c.At), c)
	}
	s.t.Logf("unwanted leftovers: decided %v after the start, all gone after %v", decided.Sub(began).Round(time.Millisecond), gone.Round(time.Millisecond))
}

// unleased is the shipped configuration without the lease.
func (s *siteLab) unleased() string {
	s.t.Helper()
	text := strings.Replace(s.shipped(), "kernel:\n", "kernel:\n  lease: false\n", 1)
	if text == s.shipped() {
		s.t.Fatal("the shipped configuration has no kernel section")
	}
	return text
}

// cleanedUp kills rhid and removes by hand what it left.
func (s *crash) cleanedUp() {
	s.t.Helper()
	const others = "ip -o addr; ip -4 route show table all; ip -6 route show table all"
	mine := func(line string) bool {
		for _, v := range []string{"10.255.0.", "fd00:255:", "10.3.0.", "fd00:3:", "fd00:2:", "10.2."} { // the rest is learned by OSPF
			if strings.Contains(line, v) {
				return true
			}
		}
		return false
	}
	rest := func() string {
		var out strings.Builder
		for line := range strings.Lines(s.lb.Must("sh", "-c", others)) {
			if !mine(line) {
				out.WriteString(line)
			}
		}
		return out.String()
	}
	s.forget()
	s.rhid.Kill()
	s.far[siteATM].WaitGone(siteUp)
	before := rest()
	s.forget()
	began := time.Now()
	out := s.lb.Rhid("cleanup", "--config", siteConfig)
	took := time.Since(began)
	for _, v := range siteVIPs() {
		if got := s.form(s.host, v); got != (siteForm{}) {
			s.t.Errorf("cleanup: %s still stands in the kernel as %+v", v, got)
		}
		if addr, _, _ := strings.Cut(v, "/"); !strings.Contains(out, addr) {
			s.t.Errorf("cleanup: does not say that it removed %s:\n%s", v, out)
		}
	}
	if after := rest(); after != before {
		s.t.Errorf("cleanup: other addresses or routes of lb1 changed:\n%s\nwere\n%s", after, before)
	}
	for _, v := range []string{siteCounter, siteCounter6} {
		s.t.Logf("cleanup: %s gone from branch %s after its start", v, ms(s.far[v].WaitGone(siteUp).At.Sub(began)))
	}
	s.t.Logf("cleanup: took %v and said\n%s", took.Round(time.Millisecond), out)
	if n := strings.Count(out, "\n"); n != 6 { // two addresses, two AnyIP routes, two announcements
		s.t.Errorf("cleanup: removed %d objects, want 6", n)
	}
	if again := s.lb.Rhid("cleanup", "--config", siteConfig); again != "nothing to remove\n" {
		s.t.Errorf("cleanup: the second time it says %q", again)
	}
}
