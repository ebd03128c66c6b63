package lab

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// verdict is a test that notes whether it failed.
type verdict struct {
	testing.TB
	failed []string
}

func (v *verdict) Helper()                   {}
func (v *verdict) Logf(string, ...any)       {}
func (v *verdict) Errorf(f string, a ...any) { v.failed = append(v.failed, fmt.Sprintf(f, a...)) }

func TestSteady(t *testing.T) {
	const ran, stood = time.Second, -time.Second // the pause is 0 in a bubble: shorter, or longer
	for _, c := range []struct {
		name         string
		still        time.Duration
		goodAt       int // the measurement without a miss
		tries, fails int
	}{
		{"no miss", stood, 1, 1, 0},
		{"a miss on a machine that ran", ran, 2, 1, 1},
		{"a miss on a machine that stood still", stood, 2, 2, 0},
		{"missed each time", stood, 9, 5, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				v, tries := &verdict{TB: t}, 0
				Steady(v, c.still, func() []string {
					time.Sleep(time.Second)
					if tries++; tries == c.goodAt {
						return nil
					}
					return []string{"too slow"}
				})
				if tries != c.tries || len(v.failed) != c.fails {
					t.Errorf("%d measurements, failed with %q; want %d and %d failures", tries, v.failed, c.tries, c.fails)
				}
			})
		})
	}
}

func TestPausesWithin(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	var p Pauses
	p.note(at(100), at(110)) // too short to count
	p.note(at(200), at(500))
	p.note(at(800), at(900))
	for _, c := range []struct{ from, to, want int }{
		{0, 1000, 400}, {0, 150, 0}, {300, 400, 100}, {400, 850, 150}, {500, 800, 0}, {900, 1000, 0},
	} {
		if got := p.Within(at(c.from), at(c.to)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("between %d and %d ms the machine stood still for %v, want %d ms", c.from, c.to, got, c.want)
		}
	}
	if p.Longest() != 300*time.Millisecond {
		t.Errorf("the longest pause is %v, want 300ms", p.Longest())
	}
}

// bubble is synctest.Test on one processor. With -race and more of them, Go 1.26
// lets all use one context of the race detector for a bubble's timers, and now
// and then ends with a SIGSEGV in it (golang/go#78156). The detector goes by the
// order of events, not by chance, so one processor finds as much.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}
