//go:build integration

package scenarios

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

// TestS3BGP measures how long a VIP over BGP outlives its host at the first FRR
// and the first BIRD router, without BFD: with hold time 3 s, and 9 s where
// RHID_FULL is set. A killed process closes its sessions; one that is stopped or
// cut off is missed after the hold time.
func TestS3BGP(t *testing.T) {
	s := &s3{siteLab: startSite(t, lab.Options{}), watches: map[string]*lab.FIBWatch{}, figures: map[string]spread{}}
	for _, n := range []*lab.Node{s.torFRR, s.torBird} {
		for _, v := range []string{siteATM, siteATM6} {
			s.watches[n.Name+" "+v] = n.WatchFIB(v)
		}
	}
	holds := []time.Duration{3 * time.Second}
	if os.Getenv("RHID_FULL") != "" {
		holds = append(holds, 9*time.Second)
	}
	for i, hold := range holds {
		if i > 0 {
			s.lb.StopRhid(s.rhid, siteUp)
		}
		s.holdTime(hold)
		s.rhid = s.run(strings.Replace(s.unleased(), "hold: 3s", "hold: "+hold.String(), 1)) // Kill would wait for the lease's guard
		for range runs(t) {
			for _, d := range s3Deaths() {
				lab.Steady(t, stood, func() []string { return s.dieBGP(d, hold) })
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.figures)) {
		t.Logf("S3 %-55s %v", name, s.figures[name])
	}
}

// holdTime sets the BGP routers' side; the lower of both sides counts.
func (s *siteLab) holdTime(hold time.Duration) {
	s.t.Helper()
	seconds := int(hold.Seconds())
	for _, peer := range []string{"10.1.1.1", "fd00:1:1::1"} {
		s.torFRR.Must("vtysh", "-c", "configure terminal", "-c", "router bgp 65001",
			"-c", fmt.Sprintf("neighbor %s timers %d %d", peer, seconds/3, seconds))
	}
	own, err := s.torBird.ReadFile("/etc/bird/bird.conf")
	if err != nil {
		s.t.Fatal(err)
	}
	const head = "template bgp rhid from timing {\n"
	s.torBird.WriteFile("/tmp/hold.conf", strings.Replace(own, head, fmt.Sprintf("%s  hold time %d;\n  keepalive time %d;\n", head, seconds, seconds/3), 1))
	if out := s.torBird.Must("birdc", "configure", `"/tmp/hold.conf"`); !strings.Contains(out, "Reconfigur") {
		s.t.Fatalf("BIRD: %s", out)
	}
}

// dieBGP has the host end once and come back. It returns which limits were
// missed.
func (s *s3) dieBGP(d s3Death, hold time.Duration) (misses []string) {
	s.t.Helper()
	s.overBGP()
	time.Sleep(time.Second) // for keepalives to have gone both ways
	for _, w := range s.watches {
		w.Reset()
	}
	bound := hold + time.Second
	if d.name == "kill -9" {
		bound = killLimit
	}
	began := time.Now()
	d.do(s)
	for what, w := range s.watches {
		router, vip, _ := strings.Cut(what, " ")
		row := fmt.Sprintf("%s, hold %v, %s, %s", d.name, hold, router, vip)
		took := w.WaitGone(s3Limit).At.Sub(began)
		s.figures[row] = append(s.figures[row], took)
		if took > bound {
			misses = append(misses, fmt.Sprintf("%s: gone after %v, limit %v", row, took, bound))
		}
	}
	d.undo(s)
	return misses
}
