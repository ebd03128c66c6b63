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

	"rhid/internal/lab"
)

const (
	s3Lease = 2500 * time.Millisecond // until a route under lease has left the far router's kernel
	s3Stays = 5 * time.Second         // how long a route without lease is watched for not leaving
	s3Limit = 30 * time.Second        // of everything else
)

// s3Death is a way for a host to end.
type s3Death struct {
	name  string
	do    func(s *s3)
	undo  func(s *s3)
	alone bool // the routing daemons beside rhid live on
}

func s3Deaths() []s3Death {
	return []s3Death{
		{"kill -9", func(s *s3) { s.rhid.Kill() }, func(s *s3) { s.rhid = s.lb.StartRhid(siteConfig) }, true},
		{"SIGSTOP", func(s *s3) { s.rhid.Stop() }, func(s *s3) { s.rhid.Cont() }, true},
		{"cut off", func(s *s3) { s.links(s.Blackhole) }, func(s *s3) { s.links(s.Unblackhole) }, false},
	}
}

// TestS3Kernel measures how long a VIP in OSPF outlives its host: the time until
// the first FRR and the first BIRD router have lost the route, with the lease and
// without. A cut link is seen by OSPF's dead interval (4 s here) and by nothing of
// rhid's. Once by default, RHID_RUNS times where that is set.
func TestS3Kernel(t *testing.T) {
	s := &s3{siteLab: startSite(t, lab.Options{}), watches: map[string]*lab.FIBWatch{}, figures: map[string]spread{}}
	for _, n := range []string{"core-frr", "core-bird"} {
		for _, v := range []string{siteCounter, siteCounter6} {
			s.watches[n+" "+v] = s.Node(n).WatchFIB(v)
		}
	}
	for _, lease := range []bool{true, false} {
		if lease {
			s.rhid = s.run(s.shipped())
		} else {
			s.lb.StopRhid(s.rhid, siteUp)
			s.rhid = s.run(s.unleased())
		}
		for range runs(t) {
			for _, d := range s3Deaths() {
				lab.Steady(t, stood, func() []string { return s.die(d, lease) })
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.figures)) {
		t.Logf("S3 %-55s %v", name, s.figures[name])
	}
}

// runs is how often to measure.
func runs(t *testing.T) int {
	t.Helper()
	text := os.Getenv("RHID_RUNS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("RHID_RUNS=%q is not a number of runs", text)
	}
	return n
}

type s3 struct {
	*siteLab
	rhid    *lab.Proc
	watches map[string]*lab.FIBWatch // by router and VIP
	figures map[string]spread
}

// links does something to all of lb1's links to routers.
func (s *s3) links(do func(string)) {
	for i := 1; i <= 4; i++ {
		do(fmt.Sprintf("lb1:eth%d", i))
	}
}

// die has the host end once and come back. It returns what was not as it must be.
func (s *s3) die(d s3Death, lease bool) (misses []string) {
	s.t.Helper()
	s.settled()
	for _, w := range s.watches {
		w.Reset()
	}
	began := time.Now()
	d.do(s)
	leaves := lease || !d.alone
	if !leaves {
		time.Sleep(s3Stays)
	}
	for what, w := range s.watches {
		router, vip, _ := strings.Cut(what, " ")
		row := fmt.Sprintf("%s, %s, %s, %s", d.name, map[bool]string{true: "lease", false: "no lease"}[lease], router, vip)
		if !leaves {
			if events := w.Events(); len(events) > 0 {
				misses = append(misses, fmt.Sprintf("%s: changed although nobody took it out: %+v", row, events))
			}
			s.t.Logf("S3 %-55s watched for %v", row, s3Stays)
			continue
		}
		s.WaitFor(row+": gone, and told so", s3Limit, func() bool { return s.lostFromLB(router, vip) && !s.lastLoss(w).IsZero() })
		took := s.lastLoss(w).Sub(began)
		s.figures[row] = append(s.figures[row], took)
		if lease && d.alone && took > s3Lease {
			misses = append(misses, fmt.Sprintf("%s: gone after %v, limit %v", row, took, s3Lease))
		}
	}
	d.undo(s)
	return misses
}

// lostFromLB says whether a router no longer has a VIP from lb1. It may have one
// from the other side for a moment: the other daemon's LSA by way of the branch.
func (s *s3) lostFromLB(router, vip string) bool {
	s.t.Helper()
	return !slices.ContainsFunc(s.Node(router).Kernel(vip), func(r lab.KernelRoute) bool { return r.Dev == "eth1" })
}

// lastLoss is since when the router has had no route from lb1, zero if it has one.
func (s *s3) lastLoss(w *lab.FIBWatch) time.Time {
	s.t.Helper()
	var at time.Time
	for _, e := range w.Events() {
		lb := slices.ContainsFunc(e.Hops, func(r lab.KernelRoute) bool { return r.Dev == "eth1" })
		if isDelete(e) || !lb {
			at = earliest(at, e.At)
		} else {
			at = time.Time{}
		}
	}
	return at
}

// TestLeaseIsAdopted kills rhid and starts it again before the lease has lapsed:
// nothing moves.
func TestLeaseIsAdopted(t *testing.T) {
	s := &crash{siteLab: startSite(t, lab.Options{}), far: map[string]*lab.FIBWatch{}}
	s.rhid = s.run(s.shipped())
	s.host = watchKernel(t, s.lb)
	for _, v := range siteVIPs() {
		s.far[v] = s.branch.WatchFIB(v)
	}
	lab.Steady(t, stood, s.leaseAdopted)
}

// leaseAdopted returns what moved.
func (s *crash) leaseAdopted() (moved []string) {
	s.t.Helper()
	s.atRest()
	s.probe()
	// Just renewed, the lease has all its time left.
	s.WaitFor("the lease being renewed", siteUp, func() bool { return len(s.host.of(siteLease)) > 0 })
	s.rhid.Signal(syscall.SIGKILL) // its guard, which lives on, has the output open, and Kill would wait for that
	for syscall.Kill(s.rhid.Pid(), 0) == nil {
		time.Sleep(time.Millisecond) // or its socket would pass for the next one's
	}
	moved = s.adopted()
	// the old life's guard gives way, and the new one's does nothing
	s.WaitFor("the end of the old life's guard", siteUp, func() bool { return len(s.lb.Pids(guardComm)) == 1 })
	s.host.reset()
	time.Sleep(2 * time.Second)
	for _, c := range s.host.where(func(c siteChange) bool { return slices.Contains(siteVIPs(), c.Prefix.String()) }) {
		moved = append(moved, fmt.Sprintf("after the restart: %v", c))
	}
	return moved
}
