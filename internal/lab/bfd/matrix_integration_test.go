//go:build integration

package bfd

import (
	"fmt"
	"os"
	"runtime"
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
	// slack is for the scheduling of two daemons and of the test on a busy machine.
	slack = 100 * time.Millisecond
	// still is how long the machine may stand still for a bound to count: more
	// than that and a session of 100 ms × 3 may have ended by itself.
	still = slack / 2
)

// TestInterop has sessions with FRR and BIRD, over IPv4 and IPv6, one hop and
// two, and ends them in three ways: rhid is stopped, is killed, or cut off. Each
// cell is how long the router takes to say Down after that; RHID_FULL has all
// timers, CI one.
func TestInterop(t *testing.T) {
	intervals := []time.Duration{100 * time.Millisecond}
	if full() {
		intervals = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond}
	}
	var rows []string
	for _, i := range intervals {
		b := newBench(t, i, false)
		for _, end := range []struct {
			name string
			do   func() (took map[string]time.Duration, misses []string)
		}{{"stop", b.stop}, {"kill", b.kill}, {"cut", b.cut}} {
			var took map[string]time.Duration
			lab.Steady(t, still, func() (misses []string) {
				b.start()
				took, misses = end.do()
				return misses
			})
			for _, p := range paths() {
				rows = append(rows, fmt.Sprintf("%-4s | %s | %-6s | %v × 3 | %-4s | %6.1f ms",
					p.router, p.family, p.hops, i, end.name, float64(took[p.name()].Microseconds())/1000))
			}
		}
	}
	t.Logf("router, family, hops, timers, end, until the router says Down:\n%s", strings.Join(rows, "\n"))
}

// TestInteropAuthentication is the same with BIRD and meticulous keyed SHA-1,
// which FRR does not have.
func TestInteropAuthentication(t *testing.T) {
	b := newBench(t, 100*time.Millisecond, true)
	lab.Steady(t, still, func() []string {
		b.start()
		all, misses := b.kill()
		for name, took := range all {
			if strings.HasPrefix(name, "bird") {
				t.Logf("%s with meticulous keyed SHA-1: Down after %v", name, took)
			}
		}
		return misses
	})
}

// TestNoFalseLoss has all sessions up at 100 ms × 3 while every processor is busy
// with something else, and counts the sessions that are lost: ten minutes with
// RHID_FULL; otherwise a quarter of one. A loss while the machine itself stood
// still does not count.
// RHID_BUSY is how many processes keep it busy, one for each processor otherwise.
func TestNoFalseLoss(t *testing.T) {
	lasts := 15 * time.Second
	if full() {
		lasts = 10 * time.Minute
	}
	b := newBench(t, 100*time.Millisecond, false)
	b.start()
	busy := runtime.NumCPU()
	if n, err := strconv.Atoi(os.Getenv("RHID_BUSY")); err == nil {
		busy = n
	}
	for range busy {
		b.host.Start("busy", "sh", "-c", "while :; do :; done")
	}
	const parts, most = 5, 40
	t.Logf("%d times %v with %d busy processes:", parts, lasts/parts, busy)
	pauses := lab.WatchPauses()
	for ran, tries := 0, 1; ran < parts; tries++ {
		lost := b.losses(lasts / parts)
		next := lab.WatchPauses() // before the other ends, so that nothing is missed
		paused := pauses.Stop()
		pauses = next
		switch {
		case len(lost) == 0:
			ran++
		case paused <= still || tries == most:
			t.Fatalf("lost, while the machine stood still for %v at most:\n%s", paused, strings.Join(lost, "\n"))
		default:
			t.Logf("not counted, since the machine stood still for %v:\n%s", paused, strings.Join(lost, "\n"))
			b.WaitFor("all sessions up again", comeUp, b.allUp)
			time.Sleep(2 * time.Second) // both sides have answered every poll
		}
	}
	pauses.Stop()
}

// losses lets time pass, and returns what was no session in the state up.
func (b *bench) losses(lasts time.Duration) (lost []string) {
	b.t.Helper()
	flaps := map[string]int{}
	for _, n := range b.neighbours() {
		flaps[n.Name] = n.BFD.Flaps
	}
	began := time.Now()
	time.Sleep(lasts)
	for _, p := range paths() {
		gaps := map[bool]time.Duration{}
		last := map[bool]time.Time{true: began, false: began}
		packets := b.wire[p.router].of(p, began)
		for _, k := range packets {
			gaps[k.out] = max(gaps[k.out], k.at.Sub(last[k.out]))
			last[k.out] = k.at
			if k.state != "up" {
				lost = append(lost, fmt.Sprintf("%s: %v after %v, sent by the router: %v", p.name(), k.state, k.at.Sub(began), k.out))
			}
		}
		b.t.Logf("%-16s %d packets, longest pause of rhid %v, of the router %v",
			p.name(), len(packets), gaps[false].Round(time.Millisecond), gaps[true].Round(time.Millisecond))
	}
	for _, n := range b.neighbours() {
		if n.BFD.State != "up" || n.BFD.Flaps != flaps[n.Name] {
			lost = append(lost, fmt.Sprintf("rhid has %s in state %s, lost %d times", n.Name, n.BFD.State, n.BFD.Flaps-flaps[n.Name]))
		}
	}
	return lost
}

// allUp says whether rhid has every session.
func (b *bench) allUp() bool {
	return !slices.ContainsFunc(b.neighbours(), func(n control.Neighbour) bool { return n.BFD.State != "up" })
}

// stop stops rhid as an administrator does. The routers must be told, and must
// not find out by silence. It returns how long each of them took, and what was not
// as it must be.
func (b *bench) stop() (took map[string]time.Duration, misses []string) {
	b.t.Helper()
	began := time.Now()
	b.host.StopRhid(b.rhid, comeUp)
	took = map[string]time.Duration{}
	for _, p := range paths() {
		down := b.says(p, "down", began)
		var told time.Time
		for _, k := range b.wire[p.router].of(p, began) {
			if !k.out && k.state == "admin-down" && told.IsZero() {
				told = k.at
			}
		}
		if took[p.name()] = down.Sub(told); told.IsZero() || down.Before(told) {
			misses = append(misses, fmt.Sprintf("%s: the router said Down %v before it was told of the end", p.name(), told.Sub(down)))
		}
		if took[p.name()] > slack {
			misses = append(misses, fmt.Sprintf("%s: the router answered AdminDown after %v", p.name(), took[p.name()]))
		}
	}
	return took, misses
}

// kill kills rhid.
func (b *bench) kill() (took map[string]time.Duration, misses []string) {
	b.t.Helper()
	began := time.Now()
	b.rhid.Signal(syscall.SIGKILL)
	took = map[string]time.Duration{}
	for _, p := range paths() {
		var miss []string
		took[p.name()], miss = b.silent(p, began)
		misses = append(misses, miss...)
	}
	b.rhid.Kill()
	return took, misses
}

// silent waits until the router finds the host silent, and compares that with
// what was negotiated: the last packet came up to one interval before the end.
func (b *bench) silent(p path, began time.Time) (took time.Duration, misses []string) {
	b.t.Helper()
	took = b.says(p, "down", began).Sub(began)
	if took < 2*b.interval-slack/10 || took > 3*b.interval+slack {
		misses = append(misses, fmt.Sprintf("%s: Down after %v, want %v to %v", p.name(), took, 2*b.interval, 3*b.interval))
	}
	return took, misses
}

// cut loses every packet on every link, and sees to it that rhid notices too.
func (b *bench) cut() (took map[string]time.Duration, misses []string) {
	b.t.Helper()
	since := map[string]time.Time{}
	for _, p := range paths() {
		if since[p.cut].IsZero() {
			since[p.cut] = time.Now()
			b.Blackhole(p.cut)
		}
	}
	took = map[string]time.Duration{}
	for _, p := range paths() {
		var miss []string
		took[p.name()], miss = b.silent(p, since[p.cut])
		misses = append(misses, miss...)
	}
	b.WaitFor("rhid to find everybody silent, a moment later than they may", comeUp, func() bool {
		return !slices.ContainsFunc(b.neighbours(), func(n control.Neighbour) bool { return n.BFD.State != "down" })
	})
	for _, n := range b.neighbours() {
		if n.BFD.Diag != "control detection time expired" {
			misses = append(misses, fmt.Sprintf("rhid has %s down for %s", n.Name, n.BFD.Diag))
		}
	}
	for at := range since {
		b.Unblackhole(at)
	}
	b.WaitFor("all sessions up again", comeUp, b.allUp)
	b.rhid.Kill()
	return took, misses
}
