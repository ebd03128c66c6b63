//go:build integration

package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/internal/control"
	"rhid/internal/lab"
)

const (
	// bfdGoal is how soon the router's kernel must have dropped the routes of a
	// silent host, with BFD at 100 ms × 3.
	bfdGoal = 400 * time.Millisecond
	// bfdHung is the same for a rhid that lives and does not decide any more: it
	// counts as hung after 2 s.
	bfdHung = 2*time.Second + bfdGoal + 250*time.Millisecond
	// bfdQuick are the timers of the goals. Where nothing is measured, bfdCalm
	// are those that a machine which stands still does not run out of.
	bfdQuick, bfdCalm = 100 * time.Millisecond, 600 * time.Millisecond
)

// bfdDeath is a way for a host to be lost. do says since when it is, for each of
// the routers.
type bfdDeath struct {
	name  string
	limit time.Duration
	do    func(s *bfdSite) (frr, bird time.Time)
	undo  func(s *bfdSite)
}

func bfdDeaths() []bfdDeath {
	once := func(f func(s *bfdSite)) func(*bfdSite) (time.Time, time.Time) {
		return func(s *bfdSite) (time.Time, time.Time) {
			at := time.Now()
			f(s)
			return at, at
		}
	}
	return []bfdDeath{
		{"kill -9", bfdGoal, once(func(s *bfdSite) { s.rhid.Signal(syscall.SIGKILL) }), func(*bfdSite) {}},
		{"SIGSTOP", bfdGoal, once(func(s *bfdSite) { s.rhid.Stop() }), func(*bfdSite) {}},
		{"host cut off, silently", bfdGoal, func(s *bfdSite) (time.Time, time.Time) {
			// The router is the second end of each link to become deaf, and is when
			// the command ends, which may take a while to begin.
			s.Blackhole("lb1:eth1")
			frr := time.Now()
			s.Blackhole("lb1:eth2")
			return frr, time.Now()
		}, func(s *bfdSite) {
			s.Unblackhole("lb1:eth1")
			s.Unblackhole("lb1:eth2")
		}},
		{"event loop hung", bfdHung, once(func(s *bfdSite) {
			// reading the configuration never ends
			s.lb.Must("sh", "-c", "rm "+siteConfig+" && mkfifo "+siteConfig)
			s.rhid.Signal(syscall.SIGHUP)
		}), func(s *bfdSite) { s.lb.Must("rm", siteConfig) }},
	}
}

// bfdSite is the one-site scenario with BFD on the BGP sessions.
type bfdSite struct {
	*siteLab
	rhid    *lab.Proc
	watches map[string]*lab.FIBWatch // by router and VIP
}

// TestS3BFD loses the host in each way that routers cannot see from the TCP
// session, or not at once, and measures until their kernels have dropped its
// routes: FRR and BIRD, IPv4 and IPv6, BFD at 100 ms × 3. RHID_RUNS repeats it.
func TestS3BFD(t *testing.T) {
	s := &bfdSite{siteLab: startSite(t, lab.Options{}), watches: map[string]*lab.FIBWatch{}}
	s.routersSpeakBFD()
	for _, n := range []*lab.Node{s.torFRR, s.torBird} {
		for _, v := range []string{siteATM, siteATM6} {
			s.watches[n.Name+" "+v] = n.WatchFIB(v)
		}
	}
	for _, d := range bfdDeaths() {
		took := map[string]spread{}
		for range runs(t) {
			s.die(d, took)
		}
		// One or two figures may be those of a machine that stood still: then the
		// median of five decides.
		for n := runs(t); len(d.late(took)) > 0 && n < 5; n++ {
			s.die(d, took)
		}
		for _, what := range slices.Sorted(maps.Keys(took)) {
			t.Logf("S3, BFD 100 ms × 3 | %-22s | %-26s | %v", d.name, what, took[what])
		}
		for _, what := range d.late(took) {
			t.Errorf("%s: %s dropped after %v, limit %v", d.name, what, took[what], d.limit)
		}
	}
}

// late are the routers and VIPs whose median is beyond the limit.
func (d bfdDeath) late(took map[string]spread) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(took)), func(what string) bool {
		figures := slices.Sorted(slices.Values(took[what]))
		return figures[len(figures)/2] <= d.limit
	})
}

// routersSpeakBFD turns BFD on at the top-of-rack routers.
func (s *bfdSite) routersSpeakBFD() {
	s.t.Helper()
	s.torFRR.Must("/usr/lib/frr/bfdd", "-d")
	s.WaitFor("bfdd", siteUp, func() bool {
		_, err := s.torFRR.Run("vtysh", "-d", "bfdd", "-c", "show bfd peers")
		return err == nil
	})
	s.torFRR.Must("vtysh", "-c", "configure", "-c", "bfd", "-c", "profile rhid",
		"-c", "receive-interval 100", "-c", "transmit-interval 100", "-c", "detect-multiplier 3", "-c", "exit", "-c", "exit",
		"-c", "router bgp 65001", "-c", "neighbor RHID bfd", "-c", "neighbor RHID bfd profile rhid")
	conf, err := s.torBird.ReadFile("/etc/bird/bird.conf")
	if err != nil {
		s.t.Fatal(err)
	}
	conf = strings.Replace(conf, "template bgp rhid from timing {\n", "template bgp rhid from timing {\n  bfd on;\n", 1)
	conf += "protocol bfd { interface \"*\" { interval 100 ms; multiplier 3; }; }\n"
	s.torBird.WriteFile("/tmp/bird.conf", conf)
	if out := s.torBird.Must("birdc", `configure "/tmp/bird.conf"`); !strings.Contains(out, "Reconfigur") {
		s.t.Fatalf("BIRD: %s", out)
	}
}

// start starts rhid with BFD and waits until it is announced and BFD is up.
func (s *bfdSite) start(interval time.Duration) {
	s.t.Helper()
	text := "stop: {drain_time: 500ms}\nvip: {linger: 300ms}\n" + s.speaking(interval)
	s.rhid = s.run(text)
	s.overBGP()
	s.bfdUp("BFD with every router", interval)
	time.Sleep(500 * time.Millisecond) // BIRD takes an answer to a poll into account at its next packet
}

// speaking is the shipped configuration with BFD, without the lease: its guard
// would outlive a killed rhid.
func (s *bfdSite) speaking(interval time.Duration) string {
	s.t.Helper()
	return strings.ReplaceAll(s.unleased(), "families: [ipv", fmt.Sprintf("bfd: {interval: %v, multiplier: 3}, families: [ipv", interval))
}

// bfdUp waits until BFD is up with all routers, which multiply by 3.
func (s *bfdSite) bfdUp(what string, interval time.Duration) {
	s.t.Helper()
	each := float64(interval / time.Millisecond)
	s.until(what, func(n control.Neighbour) bool {
		return n.Established && n.BFD.State == "up" && n.BFD.IntervalMS == each && n.BFD.DetectionMS == 3*each
	})
}

// die loses the host once. BFD that ended before, on a machine that stood still,
// is no figure.
func (s *bfdSite) die(d bfdDeath, took map[string]spread) {
	s.t.Helper()
	for range 3 {
		if s.lost(d, took) {
			return
		}
	}
	s.t.Fatalf("%s: three times the routes were gone before", d.name)
}

// lost loses the host, and says whether the routers had its routes until then.
func (s *bfdSite) lost(d bfdDeath, took map[string]spread) bool {
	s.t.Helper()
	s.start(bfdQuick)
	whole := true
	for what, w := range s.watches {
		node, vip, _ := strings.Cut(what, " ")
		w.Reset()
		whole = whole && len(s.Node(node).Kernel(vip)) == 1
	}
	frr, bird := d.do(s)
	figures := map[string]time.Duration{}
	for what, w := range s.watches {
		node, vip, _ := strings.Cut(what, " ")
		s.WaitFor(fmt.Sprintf("%s without %s", node, vip), siteUp, func() bool { return len(s.Node(node).Kernel(vip)) == 0 })
		began := frr
		if node == s.torBird.Name {
			began = bird
		}
		if whole {
			figures[what] = w.WaitGone(siteUp).At.Sub(began)
			whole = figures[what] > 0
		}
	}
	s.rhid.Kill()
	d.undo(s)
	if whole {
		for what, figure := range figures {
			took[what] = append(took[what], figure)
		}
	}
	return whole
}
