package checks

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHealth feeds results, + for a success and - for a failure, and looks at
// the state after each: u(p), d(own), ? for unknown, capital where it changed,
// and the streak.
func TestHealth(t *testing.T) {
	tests := []struct {
		name       string
		rise, fall int
		results    string
		want       []string
	}{
		{"first rise", 2, 3, "++", []string{"?1", "U0"}},
		{"first fall", 2, 3, "---", []string{"?1", "?2", "D0"}},
		{"undecided start", 2, 3, "+-+--+++", []string{"?1", "?1", "?1", "?1", "?2", "?1", "U0", "u0"}},
		{"fall and rise", 2, 3, "++---++", []string{"?1", "U0", "u1", "u2", "D0", "d1", "U0"}},
		{"a success breaks the fall", 1, 3, "+--+--", []string{"U0", "u1", "u2", "u0", "u1", "u2"}},
		{"a failure breaks the rise", 3, 1, "-++-++", []string{"D0", "d1", "d2", "d0", "d1", "d2"}},
		{"one of each decides", 1, 1, "+-+-", []string{"U0", "D0", "U0", "D0"}},
		{"limits below one are one", 0, -1, "+-", []string{"U0", "D0"}},
		{"confirmed states stay", 1, 1, "++--", []string{"U0", "u0", "D0", "d0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := NewHealth(tt.rise, tt.fall)
			var got []string
			for _, c := range tt.results {
				changed := h.Observe(Result{OK: c == '+'})
				got = append(got, healthText(&h, changed))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("after %q (-want +got):\n%s", tt.results, d)
			}
		})
	}
}

func healthText(h *Health, changed bool) string {
	letters := map[State]string{Unknown: "?", Up: "u", Down: "d"}
	if changed {
		letters = map[State]string{Unknown: "!", Up: "U", Down: "D"}
	}
	return letters[h.State()] + string(rune('0'+h.Streak()))
}

func TestHealthInDoubt(t *testing.T) {
	h := NewHealth(1, 2)
	steps := []struct {
		ok   bool
		want bool
	}{{true, false}, {false, true}, {true, false}, {false, true}, {false, false}, {true, false}}
	if !h.InDoubt() {
		t.Error("a check of which nothing is known is not in doubt")
	}
	for i, s := range steps {
		h.Observe(Result{OK: s.ok})
		if h.InDoubt() != s.want {
			t.Errorf("step %d: in doubt %v, want %v", i, h.InDoubt(), s.want)
		}
	}
}

func TestHealthSetLimitsKeepsState(t *testing.T) {
	h := NewHealth(1, 3)
	h.Observe(Result{OK: true})
	h.Observe(Result{})
	h.Observe(Result{})
	h.SetLimits(2, 2)
	if h.State() != Up || h.Streak() != 0 {
		t.Fatalf("after new limits: %s, streak %d; want up, 0", h.State(), h.Streak())
	}
	if h.Observe(Result{}) {
		t.Error("one failure made it fall, with fall 2")
	}
	if !h.Observe(Result{}) || h.State() != Down {
		t.Errorf("two failures left it %s", h.State())
	}
}
