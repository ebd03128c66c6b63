package checks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// feedJudge gives a judge one result a second, + for a success and - for a
// failure, and returns the state after each: u(p), d(own), ? for unknown, a for
// one that abstains, in capitals when the check is degraded.
func feedJudge(s Spec, results string) string {
	letters := [...]string{Unknown: "?", Up: "u", Down: "d", Abstains: "a"}
	j := newJudge(&s)
	at := time.Unix(1000, 0)
	var out strings.Builder
	for _, c := range results {
		at = at.Add(time.Second)
		took := 10 * time.Millisecond
		if c == 's' {
			took = 500 * time.Millisecond
		}
		res := Result{OK: c != '-', Start: at.Add(-took), Took: took, Detail: "said so"}
		if s.Passive {
			res.OK, res.Counts = true, &Counts{OK: 1}
			if c == '-' {
				res.Counts = &Counts{Fail: 1}
			}
		}
		j.observe(res)
		text := letters[j.state]
		if j.degraded {
			text = strings.ToUpper(text)
		}
		out.WriteString(text)
	}
	return out.String()
}

func TestRules(t *testing.T) {
	timing := Timing{Rise: 2, Fall: 3}
	n := strings.Repeat
	tests := []struct {
		name    string
		rules   Rules
		passive bool
		results string
		want    string
	}{
		{"three of five fail", Rules{Window: Window{Size: 5, Fail: 3}}, false,
			"+++++-+-+-+++++", "????uuuuudddddu"},
		{"… and it comes back with four of five", Rules{Window: Window{Size: 5, Fail: 3, Recover: 4}}, false,
			"++++-+--+++++", "???uuuudddduu"},
		{"two of five do not matter", Rules{Window: Window{Size: 5, Fail: 3}}, false,
			"+++++-+-++++-+-+++", "????uuuuuuuuuuuuuu"},
		{"three failures suffice at the start", Rules{Window: Window{Size: 5, Fail: 3}}, false,
			"---+++++", "??dddddu"},
		{"a rate pulls down what never fails three times in a row", Rules{Rate: Rate{Over: time.Minute, Min: 60, Recover: 80, MinSamples: 10}}, false,
			n("+-", 6) + n("+", 20), n("?", 9) + n("d", 20) + n("u", 3)},
		{"a rate with too few samples does not object", Rules{Rate: Rate{Over: time.Minute, Min: 90, MinSamples: 20}}, false,
			"++" + n("-+", 5), "?u" + n("u", 10)},
		{"only the last ten count", Rules{Rate: Rate{Over: time.Hour, Last: 10, Min: 90, Recover: 100, MinSamples: 10}}, false,
			n("+", 20) + "-" + n("+", 5) + "-" + n("+", 12), "?" + n("u", 25) + n("d", 10) + n("u", 3)},
		{"slow for ten seconds", Rules{Latency: Latency{P95: 100 * time.Millisecond, Over: 20 * time.Second, For: 10 * time.Second, MinSamples: 10}}, false,
			n("+", 20) + n("s", 15) + n("+", 35), "?" + n("u", 30) + n("U", 32) + n("u", 7)},
		{"one slow answer of twenty is none of anybody's business", Rules{Latency: Latency{P95: 100 * time.Millisecond, Over: 20 * time.Second, MinSamples: 10}}, false,
			n("+", 30) + "s" + n("+", 19), "?" + n("u", 49)},
		{"evidence abstains with too few samples", Rules{Rate: Rate{Over: time.Minute, Min: 90, MinSamples: 5}}, true,
			"-----+", "aaaadd"},
		{"evidence within its rule", Rules{Rate: Rate{Over: time.Minute, Min: 50, MinSamples: 3}}, true,
			"++-+---", "aauuuud"},
		{"evidence without a rule", Rules{}, true,
			n("+", 20) + "---", n("a", 19) + "uuud"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := feedJudge(Spec{Timing: timing, Rules: tt.rules, Passive: tt.passive}, tt.results); got != tt.want {
				t.Errorf("results %s\ngot     %s\nwant    %s", tt.results, got, tt.want)
			}
		})
	}
}

// TestSeedRules goes through the two rules that everybody asks for, in their
// own words and with real timing.
func TestSeedRules(t *testing.T) {
	t.Run("five probes with three failures", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			p := newScript(good)
			s := specOf("a", p)
			s.Rules.Window = Window{Size: 5, Fail: 3}
			r := startRunner(t, s)
			ev := <-r.Events()
			if n := len(p.times()); ev.State != Up || n != 5 {
				t.Errorf("%s after %d probes, want up after 5", ev.State, n)
			}
			for _, f := range []func(context.Context) Result{bad, good, bad, good} {
				p.set(f)
				elapse(time.Second)
				wantState(t, r, "a", Up)
			}
			p.set(bad)
			ev = <-r.Events()
			if ev.State != Down || ev.Why != "3 of the last 5 results failed; last: connection refused" {
				t.Errorf("%s: %s", ev.State, ev.Why)
			}
			p.set(good)
			back := time.Now()
			if ev = <-r.Events(); ev.State != Up || time.Since(back) != 5*time.Second {
				t.Errorf("%s after %s, want up after five good probes", ev.State, time.Since(back))
			}
		})
	})
	t.Run("the last 100 within 10 minutes below 90 %", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			i := 0
			p := newScript(func(ctx context.Context) Result { // one of nine fails: 88.9 %
				if i++; i%9 == 0 {
					return bad(ctx)
				}
				return good(ctx)
			})
			s := specOf("a", p)
			s.Rules.Rate = Rate{Over: 10 * time.Minute, Last: 100, Min: 90, Recover: 95, MinSamples: 50}
			r := startRunner(t, s)
			if ev := <-r.Events(); ev.State != Up {
				t.Fatalf("%s: %s", ev.State, ev.Why)
			}
			ev := <-r.Events()
			want := "48 of the last 54 results within 10m0s succeeded (88.8 %), at least 90 % must; last: connection refused"
			if ev.State != Down || ev.Why != want {
				t.Errorf("%s: %s\nwant %s", ev.State, ev.Why, want)
			}
			elapse(5 * time.Minute)
			wantState(t, r, "a", Down)
			st, _ := r.StatusOf("a")
			if st.Rate == nil || st.Rate.OK+st.Rate.Fail != 100 {
				t.Errorf("the rate counts %+v, want 100 results", st.Rate)
			}
			p.set(good)
			back := time.Now()
			ev = <-r.Events()
			t.Logf("up again %s after the last failure: %s", time.Since(back).Round(time.Second), ev.Why)
			if d := time.Since(back); ev.State != Up || d < 40*time.Second || d > 65*time.Second {
				t.Errorf("%s after %s, want up once no more than 5 of the last 100 failed", ev.State, d)
			}
		})
	})
}

// TestFeed: evidence is judged as it comes, abstains when there is too little,
// and is forgotten by time alone.
func TestFeed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := Spec{ID: "report@atm", Name: "report", Passive: true, Rules: Rules{Rate: Rate{Over: time.Minute, Min: 90, MinSamples: 20}}}
		r := startRunner(t, s)
		elapse(time.Second)
		wantState(t, r, "report@atm", Abstains)
		feed := func(ok, fail uint64) {
			t.Helper()
			if !r.Feed("report@atm", Counts{OK: ok, Fail: fail, Detail: "declined"}, time.Now()) {
				t.Fatal("nobody takes the evidence")
			}
			elapse(time.Second)
		}
		feed(10, 9)
		wantState(t, r, "report@atm", Abstains)
		feed(0, 1)
		ev := <-r.Events()
		if want := "10 of the last 20 results within 1m0s succeeded (50 %), at least 90 % must; declined"; ev.State != Down || ev.Why != want {
			t.Errorf("%s: %s", ev.State, ev.Why)
		}
		began := time.Now()
		ev = <-r.Events()
		t.Logf("abstains %s after the last evidence: %s", time.Since(began).Round(time.Second), ev.Why)
		if d := time.Since(began); ev.State != Abstains || d < 55*time.Second || d > 61*time.Second {
			t.Errorf("%s after %s, want that it abstains after a minute", ev.State, d)
		}
		feed(95, 5)
		if ev = <-r.Events(); ev.State != Up {
			t.Errorf("%s: %s", ev.State, ev.Why)
		}
		if r.Feed("nobody", Counts{OK: 1}, time.Now()) {
			t.Error("there is no such check")
		}
		st, _ := r.StatusOf("report@atm")
		if st.Runs != 3 || st.Last.Detail != "declined" || !st.NextRun.IsZero() {
			t.Errorf("%+v", st)
		}
	})
}

// TestSampler: a passive check that looks by itself; that there is nothing to
// look at is no evidence.
func TestSampler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(func(context.Context) Result {
			return Result{OK: true, Counts: &Counts{OK: 5, Fail: 5, Detail: "resets"}}
		})
		s := specOf("a", p)
		s.Passive, s.Rules.Rate = true, Rate{Over: 10 * time.Second, Min: 90}
		r := startRunner(t, s)
		if ev := <-r.Events(); ev.State != Down || !strings.HasSuffix(ev.Why, "; resets") {
			t.Errorf("%s: %s", ev.State, ev.Why)
		}
		p.set(func(context.Context) Result { return Result{Cause: CauseRefused, Detail: "no socket"} })
		if ev := <-r.Events(); ev.State != Abstains || !strings.HasSuffix(ev.Why, "; no socket") {
			t.Errorf("%s: %s", ev.State, ev.Why)
		}
	})
}

// TestMillions: counts of any size are judged in constant memory.
func TestMillions(t *testing.T) {
	r := newSuccessRate(Rate{Over: time.Minute, Min: 50}, false)
	at := time.Unix(1000, 0)
	for i := range 100000 {
		at = at.Add(7 * time.Millisecond)
		r.add(1<<63+uint64(i), 3, at)
	}
	if r.state != Up || cap(r.tally.ring) > tallyBuckets+1 {
		t.Errorf("%s with %d buckets: %s", r.state, cap(r.tally.ring), r.sentence())
	}
	r.judge(at.Add(59 * time.Second))
	if r.state != Up {
		t.Errorf("after 59 s: %s", r.sentence())
	}
	r.judge(at.Add(time.Minute))
	if r.state != Abstains || r.tally.total() != 0 {
		t.Errorf("after a minute: %s", r.sentence())
	}
}

// TestTallyCounts compares a tally with plain counting.
func TestTallyCounts(t *testing.T) {
	for _, last := range []int{0, 7, 50} {
		t.Run(fmt.Sprint("last ", last), func(t *testing.T) {
			over := 30 * time.Second
			ta := newTally(over, last, true)
			type result struct {
				at time.Time
				ok bool
			}
			var all []result
			at := time.Unix(1000, 0)
			for i := range 500 {
				at = at.Add(time.Duration(i%13) * 100 * time.Millisecond)
				ok := i%5 != 0
				all = append(all, result{at, ok})
				if ok {
					ta.add(1, 0, at)
				} else {
					ta.add(0, 1, at)
				}
				var good, n uint64
				slack := ta.grain
				for j := len(all) - 1; j >= 0 && at.Sub(all[j].at) < over-slack && (last == 0 || n < uint64(last)); j-- {
					n++
					if all[j].ok {
						good++
					}
				}
				most := n
				for j := len(all) - 1 - int(n); j >= 0 && at.Sub(all[j].at) < over && (last == 0 || most < uint64(last)); j-- {
					most++
				}
				if got := ta.total(); got < n || got > most {
					t.Fatalf("result %d: counts %d, want from %d to %d", i, got, n, most)
				}
				if last > 0 && ta.ok != good && ta.total() == n {
					t.Fatalf("result %d: %d good ones, want %d", i, ta.ok, good)
				}
			}
		})
	}
}
