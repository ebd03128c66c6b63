package checks

import (
	"context"
	"testing"
	"time"
)

// standStill makes the runner believe that the process was not run for d up
// to now.
func standStill(r *Runner, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastBeat = r.lastBeat.Add(-d)
}

// hangs is a probe that runs into its timeout.
func hangs(ctx context.Context) Result {
	<-ctx.Done()
	return Result{Cause: CauseTimeout, Detail: "no answer within 800ms"}
}

func TestStallVoidsFailuresUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(good)
		s := specOf("a", p)
		s.Timing.Fall = 1
		r := startRunner(t, s)
		elapse(3 * time.Second)
		p.set(hangs)
		n := len(p.times())
		for len(p.times()) == n {
			elapse(50 * time.Millisecond)
		}
		p.set(good)
		elapse(400 * time.Millisecond)
		standStill(r, 10*time.Second)
		begun := len(p.times())
		elapse(400 * time.Millisecond)
		wantState(t, r, "a", Up)
		st, _ := r.StatusOf("a")
		if st.Fails != 0 || st.Streak != 0 {
			t.Errorf("%d failures, streak %d; want none", st.Fails, st.Streak)
		}
		if got := len(p.times()) - begun; got != 1 {
			t.Errorf("%d probes right after the void one, want 1", got)
		}
		elapse(3 * time.Second)
		starts := p.times()
		if (starts[len(starts)-1]-starts[0])%time.Second != 0 {
			t.Errorf("the phase moved: %v", starts)
		}
	})
}

// A success of the time of a stall counts: the target did answer.
func TestStallKeepsSuccesses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(func(ctx context.Context) Result {
			<-time.After(500 * time.Millisecond)
			return good(ctx)
		})
		r := startRunner(t, specOf("a", p))
		for len(p.times()) == 0 {
			elapse(50 * time.Millisecond)
		}
		standStill(r, 10*time.Second)
		elapse(600 * time.Millisecond)
		if st, _ := r.StatusOf("a"); st.Runs != 1 {
			t.Errorf("%d results, want 1", st.Runs)
		}
	})
}

// A host that is always late does not go blind: after maxDiscards void
// results, a failure counts.
func TestStallForgivesOnlySoOften(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(hangs)
		s := specOf("a", p)
		s.Timing.Fall = 1
		r := startRunner(t, s)
		for len(p.times()) < maxDiscards+1 {
			elapse(100 * time.Millisecond)
			standStill(r, 10*time.Second)
		}
		wantState(t, r, "a", Unknown)
		for range 9 {
			elapse(100 * time.Millisecond)
			standStill(r, 10*time.Second)
		}
		wantState(t, r, "a", Down)
	})
}

// Checks that became due while the process stood still do not start at once.
func TestStallDoesNotBunch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var specs []Spec
		var ps []*script
		for i := range 50 {
			p := newScript(good)
			s := specOf("check-"+string(rune('A'+i)), p)
			s.Timing.Interval = 10 * time.Second
			specs, ps = append(specs, s), append(ps, p)
		}
		r := startRunner(t, specs...)
		elapse(20 * time.Second)
		r.mu.Lock()
		now := time.Now()
		for _, e := range r.entries { // as if it had not been run for 5 s
			e.next = e.next.Add(-5 * time.Second)
			e.phase = e.phase.Add(-5 * time.Second)
			r.sched.place(e)
		}
		r.lastBeat = now.Add(-5 * time.Second)
		r.mu.Unlock()
		counts := map[time.Duration]int{}
		elapse(10 * time.Second)
		for _, p := range ps {
			starts := p.times()
			if len(starts) != 3 && len(starts) != 4 {
				t.Fatalf("a check ran %d times", len(starts))
			}
			counts[(starts[2]-20*time.Second)/(500*time.Millisecond)]++
		}
		for at, n := range counts {
			if n > 12 {
				t.Errorf("%d of 50 checks ran in half second %d after the stall", n, at)
			}
		}
	})
}

func TestSlotAfter(t *testing.T) {
	phase := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct{ now, step, want time.Duration }{
		{0, time.Second, time.Second},
		{1, time.Second, time.Second},
		{time.Second, time.Second, 2 * time.Second},
		{10*time.Second + 1, 3 * time.Second, 12 * time.Second},
		{-time.Second, 3 * time.Second, 0},
		{-3 * time.Second, 3 * time.Second, 0},
		{-4 * time.Second, 3 * time.Second, -3 * time.Second},
	}
	for _, tt := range tests {
		if got := slotAfter(phase.Add(tt.now), phase, tt.step).Sub(phase); got != tt.want {
			t.Errorf("after %s, every %s: %s, want %s", tt.now, tt.step, got, tt.want)
		}
	}
}
