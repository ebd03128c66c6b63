package services

import (
	"slices"
	"testing"
	"time"
)

func TestTracker(t *testing.T) {
	t0 := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	healthy, sick := Reason{CodeHealthy, "2 of 2 servers up"}, Reason{CodePoolDown, "0 of 2 servers up"}
	type step struct {
		at     time.Duration
		health Health // HealthUnknown: only time passes
		want   Readiness
		code   Code
		due    time.Duration // 0: nothing changes by time alone
	}
	tests := []struct {
		name  string
		mode  FailbackMode
		steps []step
	}{
		{"auto: standby until healthy for the delay, after a start as after a failure", FailbackAuto, []step{
			{0, HealthUnknown, Unknown, CodeNotChecked, 0},
			{1 * time.Second, HealthUp, Standby, CodeFailback, 61 * time.Second},
			{60 * time.Second, HealthUnknown, Standby, CodeFailback, 61 * time.Second},
			{61 * time.Second, HealthUnknown, Ready, CodeHealthy, 0},
			{70 * time.Second, HealthDown, Down, CodePoolDown, 0},
			{80 * time.Second, HealthUp, Standby, CodeFailback, 140 * time.Second},
			{100 * time.Second, HealthUp, Standby, CodeFailback, 140 * time.Second}, // said again: no new start
			{140 * time.Second, HealthUnknown, Ready, CodeHealthy, 0},
		}},
		{"limited: standby, and ready at once when that is over", FailbackAuto, []step{
			{0, HealthUp, Standby, CodeFailback, 60 * time.Second},
			{10 * time.Second, HealthLimited, Standby, CodeMaintenance, 0},
			{60 * time.Second, HealthUnknown, Standby, CodeMaintenance, 0},
			{70 * time.Second, HealthUp, Ready, CodeHealthy, 0},
			{80 * time.Second, HealthLimited, Standby, CodeMaintenance, 0},
			{90 * time.Second, HealthDown, Down, CodePoolDown, 0},
			{100 * time.Second, HealthLimited, Standby, CodeMaintenance, 0},
			{110 * time.Second, HealthUp, Standby, CodeFailback, 160 * time.Second},
		}},
		{"manual: standby however long", FailbackManual, []step{
			{0, HealthUp, Standby, CodeFailback, 0},
			{time.Hour, HealthUnknown, Standby, CodeFailback, 0},
		}},
		{"never: ready at once, the decision keeps a healthy holder", FailbackNever, []step{
			{0, HealthUp, Ready, CodeHealthy, 0},
			{1, HealthDown, Down, CodePoolDown, 0},
			{2, HealthUp, Ready, CodeHealthy, 0},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := NewTracker(Rules{Failback: tt.mode, Delay: time.Minute})
			for _, s := range tt.steps {
				now := t0.Add(s.at)
				switch s.health {
				case HealthUp:
					tr.Observe(HealthUp, healthy, now)
				case HealthLimited:
					tr.Observe(HealthLimited, Reason{CodeMaintenance, "worked on"}, now)
				case HealthDown:
					tr.Observe(HealthDown, sick, now)
				}
				got, due := tr.State(now)
				var want time.Time
				if s.due > 0 {
					want = t0.Add(s.due)
				}
				if got.Readiness != s.want || got.Reason.Code != s.code || !due.Equal(want) {
					t.Errorf("at %s: %s %s due %s, want %s %s due %s", s.at, got.Readiness, got.Reason.Code, due, s.want, s.code, want)
				}
			}
		})
	}
}

func TestTrackerTrust(t *testing.T) {
	tr := NewTracker(Rules{Failback: FailbackManual, Delay: time.Minute})
	now := time.Now()
	tr.Trust()
	if st, _ := tr.State(now); st.Readiness != Unknown {
		t.Errorf("trusting a node nobody checked made it %s", st.Readiness)
	}
	tr.Observe(HealthUp, Reason{}, now)
	tr.Trust()
	if st, _ := tr.State(now); st.Readiness != Ready {
		t.Errorf("got %s, want ready", st.Readiness)
	}
	tr.Observe(HealthDown, Reason{}, now)
	tr.Observe(HealthUp, Reason{}, now)
	if st, _ := tr.State(now); st.Readiness != Standby {
		t.Errorf("after another failure: got %s, want standby", st.Readiness)
	}
}

// Five losses in a row damp; the penalty decays, and a long way later the node
// is ready again. It is never damped into silence: Standby is usable.
func TestTrackerDamping(t *testing.T) {
	tr := NewTracker(Rules{Failback: FailbackNever, Damping: Damping{Penalty: 1000, Suppress: 3000, Reuse: 750, HalfLife: time.Minute}})
	now := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	var seen []Readiness
	for range 5 {
		tr.Observe(HealthUp, Reason{}, now)
		st, _ := tr.State(now)
		seen = append(seen, st.Readiness)
		now = now.Add(time.Second)
		tr.Observe(HealthDown, Reason{}, now)
		now = now.Add(time.Second)
	}
	tr.Observe(HealthUp, Reason{}, now)
	st, due := tr.State(now)
	seen = append(seen, st.Readiness)
	want := []Readiness{Ready, Ready, Ready, Ready, Standby, Standby} // 3 losses are just below the limit by decay
	if !slices.Equal(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
	if st.Reason.Code != CodeDamped {
		t.Errorf("reason %s", st.Reason.Code)
	}
	if st, _ := tr.State(due.Add(-time.Second)); st.Readiness != Standby {
		t.Errorf("a second before it is due: %s", st.Readiness)
	}
	if st, _ := tr.State(due); st.Readiness != Ready {
		t.Errorf("when it is due: %s", st.Readiness)
	}
	// log2(4.7 losses × 1000 / 750) half-lives of a minute
	if d := due.Sub(now); d < 2*time.Minute || d > 3*time.Minute {
		t.Errorf("damped for %s", d)
	}
}
