//go:build integration

package scenarios

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

const (
	s9Toggle  = 300 * time.Millisecond
	s9Spacing = 5100 * time.Millisecond // kernel.spacing, as the shipped configuration has BIRD
	s9Arrival = 1100 * time.Millisecond // that a withdraw keeps
	s9Bird    = 6 * time.Second         // MinLSInterval and tick of lb1's BIRD
	s9Slack   = 1500 * time.Millisecond // of checks, and of routers
	s9Still   = 50 * time.Millisecond   // a check may miss its server, or this test a toggle, where the machine stands still for longer
)

// s9Time is how long to toggle, and how long to listen to what is at rest.
func s9Time() (toggle, rest time.Duration) {
	if os.Getenv("RHID_FULL") != "" {
		return 10 * time.Minute, 10 * time.Minute
	}
	return 13 * time.Second, 8 * time.Second
}

// TestS9Flapping has a service die and live again every 300 ms, for ten minutes
// with RHID_FULL: what leaves the host is bounded by kernel.spacing over OSPF, and
// by what the checks can see over BGP. Once the service is stable, its routes are
// back in time. What does not change sends nothing.
func TestS9Flapping(t *testing.T) {
	s := &s5{
		bgp:    &bankService{name: "bgp", via: "bgp", number: 30},
		kernel: &bankService{name: "kernel", via: "kernel", number: 40},
	}
	s.bank = startBank(startSite(t, lab.Options{}), s.bgp, s.kernel)
	calm := s.config()
	s.configure(strings.Replace(calm,
		fmt.Sprintf("interval: %v, timeout: 250ms, fall: 2, rise: 2", bankProbe), "interval: 100ms, timeout: 90ms, fall: 1, rise: 1", 1))
	s.lb.Rhid("reload")
	s.wire = s.lb.Capture("")
	lab.Steady(t, s9Still, func() []string {
		s.wire.Reset()
		began := time.Now()
		toggles, stable := s.toggle()
		t.Logf("toggled %d times in %v", toggles, time.Since(began).Round(time.Millisecond))
		misses := s.backInTime(stable)
		misses = append(misses, s.bounded(toggles, time.Since(began))...)
		time.Sleep(time.Until(stable.Add(s9Spacing + s9Bird + s9Slack))) // for what BIRD still has to say
		return misses
	})
	// A check that one missed probe turns is no state that does not change.
	s.configure(calm)
	s.lb.Rhid("reload")
	s.silent()
}

// toggle lets both services die and live, and leaves them alive. It says how often
// and since when.
func (s *s5) toggle() (toggles int, stable time.Time) {
	s.t.Helper()
	ticker := time.NewTicker(s9Toggle)
	defer ticker.Stop()
	length, _ := s9Time()
	for end := time.Now().Add(length); time.Now().Before(end); toggles += 2 {
		for _, svc := range s.services {
			svc.health.Stop()
		}
		<-ticker.C
		stable = time.Now()
		for _, svc := range s.services {
			svc.health.Resume()
		}
		<-ticker.C
	}
	return toggles, stable
}

// backInTime waits for the routes of stable services, and returns those that are
// late.
func (s *s5) backInTime(stable time.Time) (late []string) {
	s.t.Helper()
	for _, svc := range s.services {
		for _, vip := range svc.vips() {
			for _, w := range bankWays(svc.via) {
				s.WaitFor(vip+" at "+w.router+" from lb1", siteUp, func() bool {
					rs := s.Node(w.router).Kernel(vip)
					return len(rs) == 1 && rs[0].Dev == "eth1"
				})
				took := time.Since(stable)
				bound := s9Slack
				switch w.router {
				case "core-frr":
					bound += s9Spacing
				case "core-bird":
					bound += s9Spacing + s9Bird
				}
				s.t.Logf("stable → %s at %s: %s", vip, w.router, ms(took))
				if took > bound {
					late = append(late, fmt.Sprintf("stable → %s at %s: took %v, want at most %v", vip, w.router, took, bound))
				}
			}
		}
	}
	return late
}

// bounded counts what left the host, and returns what is too much. Each
// announcement is followed by one withdraw; two of a kind are at least the spacing
// apart in OSPF.
func (s *s5) bounded(toggles int, took time.Duration) (wrong []string) {
	s.t.Helper()
	for _, svc := range s.services {
		for _, vip := range svc.vips() {
			changes := len(s.watches["lb1"][vip].Events())
			for _, w := range bankWays(svc.via) {
				of := func(e lab.Event) bool {
					return e.Sent && e.Iface == w.iface && e.Kind == w.kind && (e.Announces(vip) || e.Withdraws(vip))
				}
				sent, bound := fresh(s.wire.Events(of), vip), toggles+2
				if svc.via == "kernel" {
					bound = 2 + 2*int(took/(s9Spacing+s9Arrival))
				}
				s.t.Logf("%s to %s: %d updates in %v, at most %d (changes in lb1's kernel, all kinds: %d)", vip, w.router, sent, took.Round(time.Second), bound, changes)
				if sent > bound {
					for _, e := range s.wire.Events(of) {
						s.t.Logf("%v: %s %s→%s announced %v withdrawn %v", e.At.Format("05.000"), e.Iface, e.Src, e.Dst, e.Announced, e.Withdrawn)
					}
					wrong = append(wrong, fmt.Sprintf("%s to %s: %d updates, want at most %d", vip, w.router, sent, bound))
				}
				if sent == 0 {
					s.t.Errorf("%s to %s: no update at all: nothing toggled", vip, w.router)
				}
			}
		}
	}
	return wrong
}

// fresh counts updates of what was announced before. One that says the same as
// that before it is its retransmission: ospf6d acknowledges later than the second
// after which lb1's repeats.
func fresh(events []lab.Event, vip string) (n int) {
	last := "announced"
	for _, e := range events {
		if word := map[bool]string{true: "withdrawn", false: "announced"}[e.Withdraws(vip)]; word != last {
			last = word
			n++
		}
	}
	return n
}

// silent listens to a state that does not change.
func (s *s5) silent() {
	s.t.Helper()
	s.wire.Reset()
	began := time.Now()
	_, rest := s9Time()
	time.Sleep(rest)
	events := s.wire.Events(func(e lab.Event) bool {
		return e.Sent && (e.Kind == lab.BGPUpdate || e.Kind == lab.OSPFUpdate)
	})
	s.t.Logf("at rest for %v: %d updates left lb1", time.Since(began).Round(time.Second), len(events))
	for _, e := range events {
		s.t.Errorf("at rest: %+v", e)
	}
}
