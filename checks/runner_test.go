package checks

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script is a prober whose results a test can change at any time. It notes
// when it was called, and whether two calls ever overlapped.
type script struct {
	mu      sync.Mutex
	f       func(ctx context.Context) Result
	starts  []time.Duration
	origin  time.Time
	running int
	overlap bool
}

func newScript(f func(ctx context.Context) Result) *script {
	return &script{f: f, origin: time.Now()}
}

func good(context.Context) Result { return Result{OK: true, Detail: "fine"} }
func bad(context.Context) Result  { return Result{Cause: CauseRefused, Detail: "connection refused"} }

func (s *script) set(f func(ctx context.Context) Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f = f
}

func (s *script) Probe(ctx context.Context) Result {
	s.mu.Lock()
	s.starts = append(s.starts, time.Since(s.origin))
	s.running++
	s.overlap = s.overlap || s.running > 1
	f := s.f
	s.mu.Unlock()
	r := f(ctx)
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	return r
}

func (s *script) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.starts...)
}

func testTiming() Timing {
	return Timing{Interval: time.Second, Timeout: 800 * time.Millisecond, Rise: 2, Fall: 3}
}

func specOf(id string, p Prober) Spec {
	return Spec{ID: id, Name: id, Type: "test", Key: "1", Timing: testTiming(), Prober: p}
}

// startRunner runs a Runner inside a synctest bubble until the test ends.
func startRunner(t *testing.T, specs ...Spec) *Runner {
	t.Helper()
	r := NewRunner(slog.New(slog.DiscardHandler), RunnerOptions{})
	if err := r.Update(specs); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

// elapse lets time pass in the bubble.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func wantState(t *testing.T, r *Runner, id string, want State) {
	t.Helper()
	st, ok := r.StatusOf(id)
	if !ok || st.State != want {
		t.Errorf("%s is %s (known: %v), want %s", id, st.State, ok, want)
	}
}

func TestRunnerRiseFallEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(good)
		r := startRunner(t, specOf("a", p))
		wantState(t, r, "a", Unknown)
		ev := <-r.Events()
		if ev.ID != "a" || ev.State != Up || !ev.Result.OK {
			t.Errorf("first event %+v, want a up", ev)
		}
		if n := len(p.times()); n != 2 {
			t.Errorf("up after %d probes, want 2", n)
		}
		p.set(bad)
		ev = <-r.Events()
		if ev.State != Down || ev.Result.Detail != "connection refused" {
			t.Errorf("second event %+v, want a down, connection refused", ev)
		}
		if n := len(p.times()); n != 5 {
			t.Errorf("down after %d probes, want 5", n)
		}
		st, _ := r.StatusOf("a")
		if st.Runs != 5 || st.Fails != 3 || st.Streak != 0 || !st.Since.Equal(ev.At) {
			t.Errorf("status %+v, want 5 runs, 3 fails, since %s", st, ev.At)
		}
	})
}

func TestRunnerKeepsPhase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(func(ctx context.Context) Result {
			<-time.After(300 * time.Millisecond)
			return good(ctx)
		})
		startRunner(t, specOf("a", p))
		elapse(10 * time.Second)
		starts := p.times()
		if len(starts) != 10 {
			t.Fatalf("%d probes in 10 s, want 10", len(starts))
		}
		for i, s := range starts {
			if want := starts[0] + time.Duration(i)*time.Second; s != want {
				t.Errorf("probe %d began at %s, want %s", i, s, want)
			}
		}
	})
}

func TestRunnerSplaysTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var specs []Spec
		var ps []*script
		for i := range 100 {
			p := newScript(good)
			ps = append(ps, p)
			specs = append(specs, specOf(fmt.Sprintf("tcp@10.0.0.%d:80", i), p))
		}
		startRunner(t, specs...)
		elapse(time.Second)
		var perTenth [10]int
		for _, p := range ps {
			if len(p.times()) != 1 {
				t.Fatalf("a check ran %d times in its first interval, want once", len(p.times()))
			}
			perTenth[min(p.times()[0]/(100*time.Millisecond), 9)]++
		}
		for i, n := range perTenth {
			if n < 2 || n > 25 {
				t.Errorf("%d of 100 checks start in tenth %d of the interval: %v", n, i, perTenth)
			}
		}
	})
}

func TestRunnerFastIntervalWhileInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(good)
		s := specOf("a", p)
		s.Timing = Timing{Interval: 10 * time.Second, FastInterval: time.Second, Timeout: 500 * time.Millisecond, Rise: 3, Fall: 3}
		r := startRunner(t, s)
		for (<-r.Events()).State != Up {
			t.Fatal("did not come up first")
		}
		starts := p.times()
		if starts[0] >= time.Second || starts[2]-starts[0] != 2*time.Second {
			t.Errorf("probes while unknown at %v, want the first within 1s and then every 1s", starts)
		}
		elapse(30 * time.Second)
		if n := len(p.times()); n != 6 {
			t.Errorf("%d probes after 30 s of being up, want 6", n)
		}
		p.set(bad)
		n := len(p.times())
		for (<-r.Events()).State != Down {
			t.Fatal("did not go down")
		}
		starts = p.times()[n:]
		if len(starts) != 3 || starts[2]-starts[0] != 2*time.Second {
			t.Errorf("failing probes at %v, want three with 1s between", starts)
		}
	})
}

func TestRunnerHungProbe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		hung := newScript(func(context.Context) Result { <-release; return Result{OK: true} })
		other := newScript(good)
		r := startRunner(t, specOf("hung", hung), specOf("other", other))
		elapse(4 * time.Second)
		wantState(t, r, "hung", Down)
		wantState(t, r, "other", Up)
		if n := len(hung.times()); n != 1 {
			t.Errorf("hung prober was called %d times, want once", n)
		}
		if n := len(other.times()); n != 4 {
			t.Errorf("the other check ran %d times in 4 s, want 4", n)
		}
		recent := r.Recent("hung")
		if len(recent) < 3 || recent[0].Detail != "no result within 800ms" || recent[0].Cause != CauseTimeout {
			t.Fatalf("results %+v, want the first to be a timeout", recent)
		}
		if want := "previous run still has not ended after 1s"; recent[1].Detail != want {
			t.Errorf("second result %q, want %q", recent[1].Detail, want)
		}
		hung.set(good)
		close(release)
		elapse(3 * time.Second)
		wantState(t, r, "hung", Up)
		if hung.overlap {
			t.Error("two probes of one check overlapped")
		}
	})
}

func TestRunnerTimeoutEndsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(func(ctx context.Context) Result {
			<-ctx.Done()
			return Result{Cause: CauseTimeout, Detail: "no answer within 800ms"}
		})
		r := startRunner(t, specOf("a", p))
		ev := <-r.Events()
		if ev.State != Down || ev.Result.Took != 800*time.Millisecond {
			t.Errorf("event %+v, want down after 800ms", ev)
		}
		if n := len(p.times()); n != 3 {
			t.Errorf("%d probes until down, want 3", n)
		}
	})
}

func TestRunnerPanicIsAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(func(context.Context) Result { panic("fault") })
		r := startRunner(t, specOf("a", p))
		ev := <-r.Events()
		if ev.State != Down || ev.Result.Cause != CauseInternal {
			t.Errorf("event %+v, want down by an internal cause", ev)
		}
	})
}

func TestRunnerSlowReaderSeesLatest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newScript(good), newScript(good)
		r := startRunner(t, specOf("a", a), specOf("b", b))
		elapse(3 * time.Second)
		a.set(bad)
		elapse(4 * time.Second)
		a.set(good)
		elapse(3 * time.Second)
		got := map[string]int{}
		last := map[string]State{}
		for len(got) < 2 {
			ev := <-r.Events()
			got[ev.ID]++
			last[ev.ID] = ev.State
		}
		synctest.Wait()
		select {
		case ev := <-r.Events():
			t.Errorf("one more event: %+v", ev)
		default:
		}
		want := map[string]State{"a": Up, "b": Up}
		if d := cmp.Diff(want, last); d != "" {
			t.Errorf("last states (-want +got):\n%s", d)
		}
		if a.overlap || len(a.times()) != 10 {
			t.Errorf("a slow reader held up probes: %d in 10 s", len(a.times()))
		}
	})
}

func TestRunnerRecentIsARing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		p := newScript(func(context.Context) Result { n++; return Result{OK: true, Detail: fmt.Sprint(n)} })
		r := startRunner(t, specOf("a", p))
		elapse(13 * time.Second)
		var got []string
		for _, res := range r.Recent("a") {
			got = append(got, res.Detail)
		}
		want := []string{"4", "5", "6", "7", "8", "9", "10", "11", "12", "13"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

func TestRunnerProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRunner(t)
		elapse(time.Millisecond)
		for range 20 {
			before := r.Progress()
			elapse(defaultHeartbeat)
			if r.Progress() == before {
				t.Fatal("no progress in one heartbeat, with nothing to do")
			}
		}
	})
}

func TestRunnerRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRunner(t)
		synctest.Wait()
		if err := r.Run(context.Background()); err == nil {
			t.Error("a second Run was accepted")
		}
	})
}

func TestRunnerStopCancelsProbes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(func(ctx context.Context) Result { <-ctx.Done(); return Result{} })
		r := NewRunner(slog.New(slog.DiscardHandler), RunnerOptions{})
		if err := r.Update([]Spec{specOf("a", p)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 1100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d > 1200*time.Millisecond {
			t.Errorf("Run took %s to end", d-1100*time.Millisecond)
		}
		if p.running != 0 {
			t.Error("a probe was still running after Run")
		}
		if st, _ := r.StatusOf("a"); st.Fails > 1 {
			t.Errorf("%d failures, want those before the end only", st.Fails)
		}
	})
}
