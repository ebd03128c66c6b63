//go:build integration

package lab_test

import (
	"testing"
	"time"

	"rhid/internal/lab"
)

const tick = 10 * time.Millisecond

// soon waits until the prober has new successes (or failures of a kind).
func soon(t *testing.T, l *lab.Lab, what string, p *lab.Prober, cond func(lab.ProbeResult) bool) {
	t.Helper()
	p.Reset()
	l.WaitFor(what, 30*time.Second, func() bool { return cond(p.Result()) })
}

func failing(kind lab.ConnError) func(lab.ProbeResult) bool {
	return func(r lab.ProbeResult) bool { return r.Errors[kind] > 2 }
}

func good(r lab.ProbeResult) bool { return r.Who["b"] > 2 }

func TestServerAndProber(t *testing.T) {
	l := lab.Start(t, pair, lab.Options{})
	a, b := l.Node("a"), l.Node("b")
	for _, addr := range []string{"10.0.0.2:9100", "[fd00::2]:9100"} {
		s := b.Serve(":9100")
		p := a.Probe(addr, tick)
		soon(t, l, "answers", p, good)
		s.Stop()
		soon(t, l, "refusals", p, failing(lab.ConnRefused))
		s.Resume()
		soon(t, l, "answers again", p, good)
		s.Reset(true)
		soon(t, l, "resets", p, failing(lab.ConnReset))
		s.Reset(false)
		s.Mute(true)
		soon(t, l, "silence", p, failing(lab.ConnTimeout))
		s.Mute(false)
		soon(t, l, "answers after silence", p, good)
		b.DropTCP(9100)
		soon(t, l, "a dropped port", p, failing(lab.ConnTimeout))
		b.AcceptTCP(9100)
		soon(t, l, "answers after the drop", p, good)
		r := p.Stop()
		s.Stop()
		if r.OK == 0 {
			t.Errorf("%s: %+v", addr, r)
		}
	}
}

func TestHTTPServer(t *testing.T) {
	l := lab.Start(t, pair, lab.Options{})
	s := l.Node("b").ServeHTTP("10.0.0.2:80")
	p := l.Node("a").ProbeHTTP("10.0.0.2:80", tick)
	soon(t, l, "answers", p, good)
	s.SetStatus(503)
	soon(t, l, "503", p, failing(lab.ConnClosed))
	p.Stop()
}

func TestOutageIsMeasured(t *testing.T) {
	l := lab.Start(t, pair, lab.Options{})
	s := l.Node("b").Serve(":9100")
	p := l.Node("a").Probe("10.0.0.2:9100", tick)
	soon(t, l, "answers", p, good)
	p.Reset()
	stop := time.Now()
	s.Stop()
	stopped := time.Now()
	l.WaitFor("two seconds without server", 30*time.Second, func() bool { return time.Since(stopped) > 2*time.Second })
	resume := time.Now()
	s.Resume()
	resumed := time.Now()
	l.WaitFor("answers again", 30*time.Second, func() bool { return p.Result().OK > 2 })
	r := p.Stop()
	off := grain(p.Attempts())
	if from := r.OutageFrom; from.Before(stop.Add(-off)) || from.After(stopped.Add(off)) {
		t.Errorf("the outage began %v after the server was stopped, with attempts that are up to %v apart: %+v", from.Sub(stopped), off, r)
	}
	if to := r.OutageFrom.Add(r.LongestOutage); to.Before(resume.Add(-off)) || to.After(resumed.Add(off)) {
		t.Errorf("the outage ended %v after the server was back, with attempts that are up to %v apart: %+v", to.Sub(resumed), off, r)
	}
	t.Logf("an outage of %v was measured as %v, with attempts that are up to %v apart", resume.Sub(stopped), r.LongestOutage, off)
}

// grain is the longest that an attempt took, or that passed between two: no
// measurement is finer.
func grain(attempts []lab.Attempt) time.Duration {
	longest := time.Duration(0)
	for i, a := range attempts {
		longest = max(longest, a.Took)
		if i > 0 {
			longest = max(longest, a.Start.Sub(attempts[i-1].Start))
		}
	}
	return longest
}

func TestLongStreams(t *testing.T) {
	l := lab.Start(t, pair, lab.Options{})
	b := l.Node("b")
	s := b.Serve("10.0.0.2:9100")
	st := l.Node("a").LongStreams("10.0.0.2:9100", 5)
	s.Pause()
	began := time.Now()
	l.WaitFor("a while", 30*time.Second, func() bool { return time.Since(began) > 200*time.Millisecond })
	if got := st.Breaks(); len(got) != 0 {
		t.Fatalf("a server that no longer listens broke streams: %+v", got)
	}
	s.Stop()
	l.WaitFor("breaks", 30*time.Second, func() bool { return len(st.Breaks()) == 5 })
	for _, br := range st.Close() {
		if br.Kind != lab.ConnReset || br.Who != "b" || br.After < 200*time.Millisecond {
			t.Errorf("break %+v", br)
		}
	}
}

func TestCaptureOfRefusals(t *testing.T) {
	l := lab.Start(t, pair, lab.Options{})
	a, b := l.Node("a"), l.Node("b")
	c := b.Capture("eth1")
	p := a.Probe("10.0.0.2:9100", tick)
	rst := c.Wait("a reset from b", 30*time.Second, func(e lab.Event) bool { return e.Kind == lab.TCPReset && e.Sent })
	p.Stop()
	if rst.Src.String() != "10.0.0.2:9100" || rst.Iface != "eth1" || time.Since(rst.At) > 30*time.Second || time.Since(rst.At) < 0 {
		t.Errorf("reset: %+v", rst)
	}
	a.Must("ip", "route", "add", "10.255.0.1/32", "via", "10.0.0.2")
	a.Must("ip", "route", "add", "fd00:255::1/128", "via", "fd00::2")
	b.Sysctl("net.ipv6.conf.all.forwarding", "1")
	b.Sysctl("net.ipv4.icmp_ratelimit", "0")
	b.Sysctl("net.ipv6.icmp.ratelimit", "0")
	b.Must("ip", "route", "add", "unreachable", "10.255.0.1/32")
	b.Must("ip", "route", "add", "unreachable", "fd00:255::1/128")
	for _, addr := range []string{"10.255.0.1:9100", "[fd00:255::1]:9100"} {
		c.Reset()
		p := a.Probe(addr, tick)
		c.Wait("an unreachable from b", 30*time.Second, func(e lab.Event) bool { return e.Kind == lab.Unreachable && e.Sent })
		soon(t, l, "unreachables at a", p, failing(lab.ConnUnreachable))
		p.Stop()
	}
}
