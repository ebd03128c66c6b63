package checks

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func mustUpdate(t *testing.T, r *Runner, specs ...Spec) {
	t.Helper()
	if err := r.Update(specs); err != nil {
		t.Fatal(err)
	}
}

func TestUpdateSameKeyKeepsStateAndPhase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, q := newScript(good), newScript(good)
		r := startRunner(t, specOf("a", p))
		elapse(3 * time.Second)
		mustUpdate(t, r, specOf("a", q))
		elapse(2 * time.Second)
		wantState(t, r, "a", Up)
		if st, _ := r.StatusOf("a"); st.Runs != 5 {
			t.Errorf("%d runs, want 5 over the reload", st.Runs)
		}
		first, after := p.times()[0], q.times()
		if len(after) != 2 || (after[0]-first)%time.Second != 0 {
			t.Errorf("probes after the reload at %v, first ever at %s; want the same phase", after, first)
		}
	})
}

func TestUpdateChangedKeyKeepsStateUntilDecided(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(good)
		r := startRunner(t, specOf("a", p))
		if ev := <-r.Events(); ev.State != Up {
			t.Fatalf("first event %+v", ev)
		}
		p.set(bad)
		elapse(2 * time.Second) // two failures, and a third would make it fall
		q := newScript(bad)
		s := specOf("a", q)
		s.Key = "2"
		mustUpdate(t, r, s)
		elapse(2 * time.Second)
		wantState(t, r, "a", Up)
		if ev := <-r.Events(); ev.State != Down {
			t.Errorf("event %+v, want down", ev)
		}
		if n := len(q.times()); n != 3 {
			t.Errorf("fell after %d results of the new prober, want 3", n)
		}
	})
}

func TestUpdateVoidsProbeUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(func(ctx context.Context) Result { <-ctx.Done(); return bad(ctx) })
		s := specOf("a", p)
		s.Timing.Fall = 1
		r := startRunner(t, s)
		for len(p.times()) == 0 {
			elapse(10 * time.Millisecond)
		}
		q := newScript(good)
		s.Key, s.Prober = "2", q
		mustUpdate(t, r, s)
		elapse(time.Millisecond)
		if p.running != 0 {
			t.Error("the old probe was not stopped")
		}
		if ev := <-r.Events(); ev.State != Up {
			t.Errorf("event %+v, want up; the old probe's failure must not count", ev)
		}
		if st, _ := r.StatusOf("a"); st.Fails != 0 {
			t.Errorf("%d failures, want none", st.Fails)
		}
	})
}

func TestUpdateRemovedStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(func(ctx context.Context) Result { <-ctx.Done(); return bad(ctx) })
		r := startRunner(t, specOf("a", p), specOf("b", newScript(good)))
		for len(p.times()) == 0 {
			elapse(10 * time.Millisecond)
		}
		mustUpdate(t, r, specOf("b", newScript(good)))
		elapse(time.Millisecond)
		if p.running != 0 {
			t.Error("the removed check's probe was not stopped")
		}
		if _, ok := r.StatusOf("a"); ok {
			t.Error("the removed check is still known")
		}
		elapse(5 * time.Second)
		if n := len(p.times()); n != 1 {
			t.Errorf("the removed check ran %d times", n)
		}
		if st := r.Status(); len(st) != 1 || st[0].ID != "b" {
			t.Errorf("status %+v, want b only", st)
		}
		if len(r.entries) != 1 {
			t.Errorf("%d checks are remembered, want 1", len(r.entries))
		}
	})
}

// A check that is removed while it hangs, and comes back, must not run twice
// at once; and it starts anew once it can.
func TestUpdateHungCheckComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newScript(func(context.Context) Result { <-release; return Result{OK: true} })
		r := startRunner(t, specOf("a", p))
		elapse(1500 * time.Millisecond)
		mustUpdate(t, r)
		elapse(time.Second)
		mustUpdate(t, r, specOf("a", p))
		elapse(2 * time.Second)
		if n := len(p.times()); n != 1 {
			t.Fatalf("%d probes while the first hangs, want 1", n)
		}
		st, _ := r.StatusOf("a")
		if !strings.HasPrefix(st.Last.Detail, "previous run still has not ended") {
			t.Errorf("last result %q", st.Last.Detail)
		}
		p.set(good)
		close(release)
		elapse(3 * time.Second)
		wantState(t, r, "a", Up)
		if p.overlap {
			t.Error("two probes of one check overlapped")
		}
	})
}

func TestUpdateIntervalChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(good)
		r := startRunner(t, specOf("a", p))
		elapse(3 * time.Second)
		n := len(p.times())
		s := specOf("a", p)
		s.Timing.Interval = 5 * time.Second
		mustUpdate(t, r, s)
		elapse(20 * time.Second)
		if got := len(p.times()) - n; got != 4 {
			t.Errorf("%d probes in 20 s at 5 s, want 4", got)
		}
		wantState(t, r, "a", Up)
	})
}

func TestUpdateRefuses(t *testing.T) {
	p := newScript(good)
	with := func(f func(*Spec)) Spec {
		s := specOf("a", p)
		f(&s)
		return s
	}
	tests := []struct {
		name  string
		specs []Spec
		want  string
	}{
		{"duplicate", []Spec{specOf("a", p), specOf("a", p)}, "check a is there twice"},
		{"no prober", []Spec{with(func(s *Spec) { s.Prober = nil })}, "check a: has no prober"},
		{"no interval", []Spec{with(func(s *Spec) { s.Timing.Interval = 0 })}, "must be longer than 0"},
		{"timeout as long as the interval", []Spec{with(func(s *Spec) { s.Timing.Timeout = time.Second })}, "shorter than the interval 1s"},
		{"timeout as long as the fast interval", []Spec{with(func(s *Spec) { s.Timing.FastInterval = 800 * time.Millisecond })}, "the fast interval 800ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRunner(slog.New(slog.DiscardHandler), RunnerOptions{})
			mustUpdate(t, r, specOf("kept", p))
			err := r.Update(tt.specs)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if _, ok := r.StatusOf("kept"); !ok {
				t.Error("a refused update changed the set")
			}
		})
	}
}
