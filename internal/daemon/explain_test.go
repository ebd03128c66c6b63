package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rhid/checks"
	"rhid/internal/config"
	"rhid/internal/control"
	"rhid/services"
)

// TestChecksCommand: what `rhid checks` and `rhid checks test` show, from the
// daemon and from the file alone.
func TestChecksCommand(t *testing.T) {
	r := newRig(t)
	a := listen(t, "")
	dead := "127.101.0.3:1"
	r.write(svc("a", vipA, a.Addr().String(), dead), svc("b", vipB, a.Addr().String()))
	r.edit("interval: 200ms, timeout: 150ms", "interval: 2s, fast_interval: 1100ms, timeout: 1s") // for a busy machine, too
	r.start()
	r.routes(vipA, vipB)
	var ofA []control.CheckState
	var err error
	for end := time.Now().Add(limit); ; <-time.After(10 * time.Millisecond) {
		ofA, err = r.client.Checks(t.Context(), "a", "")
		if err != nil || len(ofA) != 2 || time.Now().After(end) {
			t.Fatalf("checks of a: %+v, %v", ofA, err)
		}
		if len(ofA[0].Recent) > 0 && len(ofA[1].Recent) > 0 {
			break
		}
	}
	for _, c := range ofA {
		want := "a"
		if strings.HasSuffix(c.ID, a.Addr().String()) {
			want = "a b"
		}
		if got := strings.Join(c.Services, " "); got != want || len(c.Recent) == 0 || c.Interval == 0 {
			t.Errorf("%s is of %q with %d results, want %q", c.ID, got, len(c.Recent), want)
		}
	}
	all, err := r.client.Checks(t.Context(), "", "")
	if err != nil || len(all) != 2 {
		t.Errorf("all checks: %+v, %v", all, err)
	}
	if _, err := r.client.Checks(t.Context(), "c", ""); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("checks of a service that does not exist: %v", err)
	}
	for _, from := range []string{"daemon", "file"} {
		t.Run("test from the "+from, func(t *testing.T) {
			test := func(name string) ([]control.CheckTest, error) {
				if from == "file" {
					return TestCheck(t.Context(), r.file(), "lb", name)
				}
				return r.client.TestCheck(t.Context(), name)
			}
			ran, err := test("echo")
			if err != nil || len(ran) != 2 {
				t.Fatalf("%+v, %v", ran, err)
			}
			if !ran[0].Result.OK || ran[1].Result.Cause != checks.CauseRefused {
				t.Errorf("results %+v", ran)
			}
			if ran, err = test("echo@" + dead); err != nil || len(ran) != 1 || ran[0].Target != dead {
				t.Errorf("of one target: %+v, %v", ran, err)
			}
			if _, err = test("nobody"); !errors.Is(err, control.ErrNotFound) {
				t.Errorf("of no check: %v", err)
			}
		})
	}
}

// edit replaces a text in the configuration.
func (r *rig) edit(old, now string) {
	r.t.Helper()
	b, err := os.ReadFile(r.file())
	if err == nil {
		err = os.WriteFile(r.file(), []byte(strings.Replace(string(b), old, now, 1)), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// until waits for a status that is as wanted.
func (r *rig) until(what string, is func(control.Status) bool) {
	r.t.Helper()
	for end := time.Now().Add(limit); !is(r.status()); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not so after %s: %+v", what, limit, r.status().Services)
		}
	}
}

// TestMaintenanceFile: while the file exists, the service is only standby, for
// which there is a reason of its own; with one node it goes on.
func TestMaintenanceFile(t *testing.T) {
	r := newRig(t)
	a := listen(t, "")
	r.write(svc("a", vipA, a.Addr().String()))
	file := filepath.Join(r.dir, "maintenance")
	r.edit("type: tcp,", "type: tcp, maintenance_file: "+file+",")
	r.start()
	r.routes(vipA)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.event("check", "maintenance")
	r.until("in maintenance, and the only one", func(s control.Status) bool {
		a := s.Services[0]
		return a.Maintenance && a.Readiness.String() == "standby" && a.Verdict.String() == "announce"
	})
	ex, err := r.client.Explain(t.Context(), "a")
	if err != nil || ex.Decision.Candidates[0].Reason.Code != "maintenance" {
		t.Errorf("explain: %+v, %v", ex.Decision, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.until("the maintenance is over", func(s control.Status) bool {
		return !s.Services[0].Maintenance && s.Services[0].Readiness.String() == "ready"
	})
	r.routes(vipA)
}

// TestHealthOf: what the checks say together, and what that means for the
// service here.
func TestHealthOf(t *testing.T) {
	pool := &config.Servers{}
	tests := []struct {
		name     string
		out      checks.Outcome
		degraded string
		servers  *config.Servers
		health   services.Health
		code     services.Code
	}{
		{"up", checks.Outcome{State: checks.Up}, "alarm", nil, services.HealthUp, services.CodeHealthy},
		{"degraded, which is only an alarm", checks.Outcome{State: checks.Up, Degraded: true}, "alarm", nil, services.HealthUp, services.CodeHealthy},
		{"degraded, and others come first", checks.Outcome{State: checks.Up, Degraded: true}, "standby", nil, services.HealthLimited, services.CodeDegraded},
		{"degraded, and that is as good as down", checks.Outcome{State: checks.Up, Degraded: true}, "down", nil, services.HealthDown, services.CodeDegraded},
		{"down", checks.Outcome{State: checks.Down}, "alarm", nil, services.HealthDown, services.CodeCheckDown},
		{"pool down", checks.Outcome{State: checks.Down}, "alarm", pool, services.HealthDown, services.CodePoolDown},
		{"maintenance", checks.Outcome{State: checks.Down, Maintenance: true}, "alarm", pool, services.HealthLimited, services.CodeMaintenance},
		{"not known yet", checks.Outcome{}, "alarm", nil, services.HealthUnknown, services.CodeNotChecked},
		{"all abstain", checks.Outcome{State: checks.Abstains}, "alarm", nil, services.HealthUnknown, services.CodeNotChecked},
	}
	for _, tt := range tests {
		s := &service{conf: &config.Service{Degraded: tt.degraded, Servers: tt.servers}}
		if h, code := s.health(&tt.out); h != tt.health || code != tt.code {
			t.Errorf("%s: health %d, %s; want %d, %s", tt.name, h, code, tt.health, tt.code)
		}
	}
}
