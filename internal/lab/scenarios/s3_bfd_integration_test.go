//go:build integration

package scenarios

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
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
			frr := time.Now()
			s.Blackhole("tor-frr:eth1")
			bird := time.Now()
			s.Blackhole("tor-bird:eth1")
			return frr, bird
		}, func(s *bfdSite) {
			s.Unblackhole("tor-frr:eth1")
			s.Unblackhole("tor-bird:eth1")
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
	runs := 1
	if n, err := strconv.Atoi(os.Getenv("RHID_RUNS")); err == nil {
		runs = n
	}
	took := map[string]spread{}
	for range runs {
		for _, d := range bfdDeaths() {
			s.die(d, took)
		}
	}
	for _, d := range bfdDeaths() {
		for _, what := range slices.Sorted(maps.Keys(s.watches)) {
			t.Logf("S3, BFD 100 ms × 3 | %-22s | %-26s | %v", d.name, what, took[d.name+what])
		}
	}
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

// start starts rhid and waits until it is announced and BFD is up.
func (s *bfdSite) start() {
	s.t.Helper()
	text := "stop: {drain_time: 500ms}\nvip: {linger: 300ms}\n" + strings.ReplaceAll(s.shipped(), "families: [ipv", "bfd: {interval: 100ms, multiplier: 3}, families: [ipv")
	s.rhid = s.run(text)
	s.settled()
	s.until("BFD with every router", func(n control.Neighbour) bool {
		return n.Established && n.BFD.State == "up" && n.BFD.DetectionMS == 300
	})
	time.Sleep(500 * time.Millisecond) // BIRD takes an answer to a poll into account at its next packet
	for _, w := range s.watches {
		w.Reset()
	}
}

// die loses the host once.
func (s *bfdSite) die(d bfdDeath, took map[string]spread) {
	s.t.Helper()
	s.start()
	frr, bird := d.do(s)
	for what, w := range s.watches {
		began := frr
		if strings.HasPrefix(what, s.torBird.Name) {
			began = bird
		}
		t := w.WaitGone(10 * time.Second).At.Sub(began)
		took[d.name+what] = append(took[d.name+what], t)
		if t > d.limit {
			s.t.Errorf("%s: %s dropped after %v, limit %v", d.name, what, t, d.limit)
		}
	}
	s.rhid.Kill()
	d.undo(s)
	for what := range s.watches {
		node, vip, _ := strings.Cut(what, " ")
		s.WaitFor(fmt.Sprintf("%s without %s", node, vip), siteUp, func() bool { return len(s.Node(node).Kernel(vip)) == 0 })
	}
}
