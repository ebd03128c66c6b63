package checks

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// along feeds a window with letters: '.' an answer in 1 ms, 's' one in 200 ms,
// 'x' none. It returns the state after each as letters: ?, u, d.
func along(w *linkWindow, probes string) string {
	out := ""
	for _, p := range probes {
		switch p {
		case '.':
			w.observe(Result{OK: true, Took: time.Millisecond})
		case 's':
			w.observe(Result{OK: true, Took: 200 * time.Millisecond})
		default:
			w.observe(Result{Took: 240 * time.Millisecond})
		}
		out += map[State]string{Unknown: "?", Up: "u", Down: "d"}[w.state]
	}
	return out
}

func TestLinkWindow(t *testing.T) {
	rule := Link{Size: 10, MaxLoss: 20, MaxDelay: 100 * time.Millisecond}
	tests := []struct {
		name         string
		rule         Link
		probes, want string
		sentence     string
	}{
		{"clean", rule, "...........", "??uuuuuuuuu", "0 of the last 10 probes lost (0 %), 2 of 10 may be; median delay 1ms, 100ms may be"},
		{"lost now and then", rule, ".x......x...", "??uuuuuuuuuu", "1 of the last 10 probes lost (10 %), 2 of 10 may be; median delay 1ms, 100ms may be"},
		{"dead from the start", rule, "xxxx", "??dd", "4 of the last 4 probes lost (100 %), 2 of 10 may be"},
		{"dies, and is found in a part of the window", rule, "..........xxx", "??uuuuuuuuuud", "3 of the last 10 probes lost (30 %), 2 of 10 may be; median delay 1ms, 100ms may be"},
		{"returns when the window is half as bad as it may be", rule, "xxx.........", "??dddddddddu", "1 of the last 10 probes lost (10 %), 2 of 10 may be; median delay 1ms, 100ms may be"},
		{"some loss does not bring it back", rule, "xxx....x.x..........", "??ddddddddddddddduuu", "0 of the last 10 probes lost (0 %), 2 of 10 may be; median delay 1ms, 100ms may be"},
		{"slow", rule, "..........ssssss", "??uuuuuuuuuuuuud", "0 of the last 10 probes lost (0 %), 2 of 10 may be; median delay 200ms, 100ms may be"},
		{"half of it slow is not enough", rule, "s.s.s.s.s.s.s.s.", "??uuuuuuuuuuuuuu", "0 of the last 10 probes lost (0 %), 2 of 10 may be; median delay 200ms, 100ms may be"},
		{"fast again", rule, "ssssss..........", "??uuudddddddduuu", "0 of the last 10 probes lost (0 %), 2 of 10 may be; median delay 1ms, 100ms may be"},
		{"delay is not looked at", Link{Size: 4, MaxLoss: 50}, "ssssss", "??uuuu", "0 of the last 4 probes lost (0 %), 2 of 4 may be; median delay 200ms"},
		{"loss is not looked at", Link{Size: 4, MaxLoss: 100, MaxDelay: time.Second}, "xxxxx.", "???uuu", "3 of the last 4 probes lost (75 %); median delay 1ms, 1s may be"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newLinkWindow(tt.rule)
			if d := cmp.Diff(tt.want, along(w, tt.probes)); d != "" {
				t.Errorf("states (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.sentence, w.sentence()); d != "" {
				t.Errorf("sentence (-want +got):\n%s", d)
			}
		})
	}
}

func TestLinkStatus(t *testing.T) {
	w := newLinkWindow(Link{Size: 10, MaxLoss: 20, MaxDelay: 100 * time.Millisecond})
	if s := w.sentence(); s != "no probe has ended yet" {
		t.Error(s)
	}
	along(w, "..........sx.")
	want := &LinkStatus{Probes: 10, Size: 10, Lost: 1, Slow: 1, Delay: time.Millisecond, Allowed: 2, MaxDelay: 100 * time.Millisecond}
	if d := cmp.Diff(want, w.status()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// How soon the default window sees loss, and how often chance alone raises an
// alarm: figures of many links, by a random sequence that is always the same.
func TestLinkFigures(t *testing.T) {
	rule := Link{Size: 50, MaxLoss: 10}
	rng := rand.New(rand.NewPCG(1, 2))
	// until returns how many probes of a given loss it takes until Down, at
	// most limit, after a clean window.
	until := func(loss float64, limit int) int {
		w := newLinkWindow(rule)
		for range rule.Size {
			w.observe(Result{OK: true})
		}
		for n := 1; n <= limit; n++ {
			if w.observe(Result{OK: rng.Float64() >= loss}); w.state == Down {
				return n
			}
		}
		return limit + 1
	}
	const links = 10_000
	late, sum := 0, 0
	for range links {
		n := until(0.3, 10*rule.Size)
		sum += n
		if n > rule.Size {
			late++
		}
	}
	t.Logf("30 %% loss: seen after %.1f probes on average, not within the window of %d in %d of %d links", float64(sum)/links, rule.Size, late, links)
	if late > links/500 {
		t.Errorf("%d of %d links with 30 %% loss were not seen within the window", late, links)
	}
	const tenMinutes = 2000 // probes, each 300 ms
	for _, loss := range []float64{0.001, 0.01} {
		alarms := 0
		for range 1000 {
			if until(loss, tenMinutes) <= tenMinutes {
				alarms++
			}
		}
		t.Logf("%.1f %% loss by chance: %d of 1000 links raised an alarm within 10 minutes", 100*loss, alarms)
		if alarms > 5 {
			t.Errorf("%d of 1000 links with %.1f %% loss raised an alarm", alarms, 100*loss)
		}
	}
}
