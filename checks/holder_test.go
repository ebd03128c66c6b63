package checks

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// grip is a Holder that holds nothing, and breaks when a test says so.
type grip struct {
	*script
	mu       sync.Mutex
	broken   func(Result)
	from     *grip
	released bool
}

func (g *grip) Watch(broken func(Result)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = broken
}

func (g *grip) Inherit(from Holder) { g.from, _ = from.(*grip) }
func (g *grip) Release()            { g.released = true }

func (g *grip) breaks() {
	g.mu.Lock()
	broken := g.broken
	g.mu.Unlock()
	broken(Result{Cause: CauseNetwork, Detail: "broke", Start: time.Now()})
}

func newGrip() *grip { return &grip{script: newScript(good)} }

func heldSpec(key string, g *grip) Spec {
	s := specOf("a", g)
	s.Key = key
	s.Timing = Timing{Interval: 10 * time.Second, Timeout: time.Second, Rise: 1, Fall: 1}
	return s
}

func TestBreakCountsBetweenProbes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGrip()
		r := startRunner(t, heldSpec("1", g))
		if ev := <-r.Events(); ev.State != Up {
			t.Fatalf("first event %+v", ev)
		}
		elapse(3 * time.Second)
		g.breaks()
		begin := time.Now()
		ev := <-r.Events()
		if d := time.Since(begin); ev.State != Down || ev.Result.Detail != "broke" || d != 0 {
			t.Errorf("event %+v after %s, want down at once", ev, d)
		}
		if n := len(g.times()); n != 1 {
			t.Errorf("%d probes, want none more before its time", n)
		}
		if ev := <-r.Events(); ev.State != Up || time.Since(begin) != 7*time.Second {
			t.Errorf("event %+v after %s, want up at the next slot", ev, time.Since(begin))
		}
		if st, _ := r.StatusOf("a"); st.Runs != 3 || st.Fails != 1 {
			t.Errorf("status %+v, want 3 results, one of them failed", st)
		}
	})
}

// A server that drops each connection at once is asked no more often for it.
func TestBreaksKeepTheirDistance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGrip()
		g.set(func(ctx context.Context) Result {
			go g.breaks()
			return good(ctx)
		})
		s := heldSpec("1", g)
		s.Timing.FastInterval = 2 * time.Second
		r := startRunner(t, s)
		go func() {
			for {
				select {
				case <-r.Events():
				case <-t.Context().Done():
					return
				}
			}
		}()
		elapse(60 * time.Second)
		if n := len(g.times()); n > 31 {
			t.Errorf("%d probes in 60 s with a fast interval of 2 s", n)
		}
	})
}

func TestReloadHandsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, same, other := newGrip(), newGrip(), newGrip()
		r := startRunner(t, heldSpec("1", g))
		<-r.Events()
		mustUpdate(t, r, heldSpec("1", same))
		if same.from != g || g.released {
			t.Errorf("the same check: %+v inherited, released %t", same.from, g.released)
		}
		mustUpdate(t, r, heldSpec("2", other))
		if other.from != nil || !same.released {
			t.Errorf("another check: %+v inherited, released %t", other.from, same.released)
		}
		same.breaks() // which was under way
		elapse(time.Millisecond)
		wantState(t, r, "a", Up)
		mustUpdate(t, r)
		if !other.released {
			t.Error("a check that is gone still holds")
		}
		other.breaks()
		if _, known := r.StatusOf("a"); known {
			t.Error("a check that is gone came back")
		}
	})
}

func TestStopReleases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGrip()
		r := NewRunner(slog.New(slog.DiscardHandler), RunnerOptions{})
		mustUpdate(t, r, heldSpec("1", g))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-r.Events()
			cancel()
		}()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if !g.released {
			t.Error("the runner ended and still holds")
		}
		g.breaks()
		if st, _ := r.StatusOf("a"); st.Fails != 0 {
			t.Errorf("status %+v after the end", st)
		}
	})
}

// Common settings amend what a holder tells, and do not come between it and
// the runner.
func TestAmendedHolder(t *testing.T) {
	made := map[string]*grip{}
	prober := func(name string) Holder {
		made[name] = newGrip()
		p, err := NewProber(gripOptions{made[name]}, Target{Host: "10.0.0.1", Port: 1}, Common{Invert: true, MaintenanceFile: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return p.(Holder)
	}
	first, next := prober("first"), prober("next")
	told := make(chan Result, 1)
	first.Watch(func(res Result) { told <- res })
	made["first"].breaks()
	if res := <-told; !res.OK || !res.Maintenance || res.Detail != "failed, which inverted is a success: broke" {
		t.Errorf("told %+v", res)
	}
	next.Inherit(first)
	next.Release()
	if made["next"].from != made["first"] || !made["next"].released {
		t.Errorf("%+v: it was not asked to inherit and to release", made["next"])
	}
	if _, err := NewProber(gripOptions{newGrip()}, Target{Host: "host.example", Port: 1}, Common{ResolveAll: true}); err == nil {
		t.Error("one connection to many addresses")
	}
}

type gripOptions struct{ g *grip }

func (gripOptions) Problems() []Problem             { return nil }
func (gripOptions) NeedsTarget() TargetKind         { return TargetPort }
func (o gripOptions) Prober(Target) (Prober, error) { return o.g, nil }
