package daemon

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/checks"
	"rhid/internal/config"
	"rhid/internal/control"
)

// reporting is a daemon whose checks do not run, with two services: atm has a
// report check, pos has none.
func reporting(t *testing.T) *Daemon {
	t.Helper()
	d := &Daemon{log: slog.New(slog.DiscardHandler), runner: checks.NewRunner(slog.New(slog.DiscardHandler), checks.RunnerOptions{})}
	m := &model{
		cfg: &config.Config{},
		specs: []checks.Spec{
			{ID: "business@atm", Name: "business", Type: "report", Passive: true},
			{ID: "business@web-ipv4", Name: "business", Type: "report", Passive: true},
			{ID: "business@web-ipv6", Name: "business", Type: "report", Passive: true},
		},
		services: []*service{
			{name: "atm", members: []string{"business@atm", "tcp@self"}, conf: &config.Service{Name: "atm"}},
			{name: "pos", members: []string{"tcp@self"}, conf: &config.Service{Name: "pos"}},
			{name: "web-ipv4", members: []string{"business@web-ipv4"}, conf: &config.Service{Name: "web-ipv4", PartOf: "web"}},
			{name: "web-ipv6", members: []string{"business@web-ipv6"}, conf: &config.Service{Name: "web-ipv6", PartOf: "web"}},
		},
	}
	if err := d.runner.Update(m.specs); err != nil {
		t.Fatal(err)
	}
	known := m.reportChecks()
	d.reported.Store(&known)
	return d
}

func TestReport(t *testing.T) {
	d := reporting(t)
	rate := func() checks.RateStatus {
		st, ok := d.runner.StatusOf("business@atm")
		if !ok {
			t.Fatal("the check is gone")
		}
		return *st.Rate
	}
	if err := d.Report(t.Context(), []control.Report{{Service: "atm", OK: 30}, {Service: "atm", OK: 5, Fail: 10, LatencyMS: 3, Detail: "host does not answer"}}); err != nil {
		t.Fatal(err)
	}
	if got := rate(); got.OK != 35 || got.Fail != 10 {
		t.Errorf("%+v, want 35 and 10", got)
	}
	// All or none of a batch.
	for name, want := range map[string]error{"pos": control.ErrRefused, "none": control.ErrNotFound} {
		if err := d.Report(t.Context(), []control.Report{{Service: "atm", OK: 1}, {Service: name, OK: 1}}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if got := rate(); got.OK != 35 || got.Fail != 10 {
		t.Errorf("%+v after batches that were refused", got)
	}
	st, _ := d.runner.StatusOf("business@atm")
	if st.State != checks.Down || !strings.Contains(st.Why, "host does not answer") {
		t.Errorf("%s: %s", st.State, st.Why)
	}
}

// What is reported of a service counts for each of its parts.
func TestReportOfParts(t *testing.T) {
	d := reporting(t)
	if err := d.Report(t.Context(), []control.Report{{Service: "web", OK: 7}, {Service: "web-ipv6", OK: 2}}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]float64{"business@web-ipv4": 7, "business@web-ipv6": 9, "business@atm": 0} {
		st, ok := d.runner.StatusOf(id)
		if !ok || st.Rate == nil && want > 0 || st.Rate != nil && float64(st.Rate.OK) != want {
			t.Errorf("%s: %+v, want %v good ones", id, st.Rate, want)
		}
	}
}

// What applications report takes a service down, with their words in the
// explanation; too old, it says nothing any more. Good reports alone never
// bring a service up.
func TestReportsPullDown(t *testing.T) {
	r := newRig(t)
	a := listen(t, "")
	r.write(`- {name: a, vips: [10.255.0.10/32], check: {all: [echo, business]}, failback: {delay: 0s}, servers: {addresses: ["` + a.Addr().String() + `"]}}`)
	text, err := os.ReadFile(r.file())
	if err != nil {
		t.Fatal(err)
	}
	withReports := strings.Replace(string(text), "checks:\n", "checks:\n  business: {type: report, rate: {over: 5s, min: 90%}}\n", 1)
	if err := os.WriteFile(r.file(), []byte(withReports), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.routes(vipA) // nobody reports, so the check abstains
	if err := r.client.Report(t.Context(), []control.Report{{Service: "a", OK: 5, Fail: 20, Detail: "the host does not answer"}}); err != nil {
		t.Fatal(err)
	}
	r.routes()
	e, err := r.client.Explain(t.Context(), "a")
	if why := e.Service.Reason.Evidence; err != nil || !strings.Contains(why, "5 of the last 25 results within 5s succeeded (20 %)") || !strings.Contains(why, "the host does not answer") {
		t.Errorf("explain does not tell why: %+v, %v", e.Service, err)
	}
	r.routes(vipA)
	a.Close() //nolint:errcheck,gosec // it is a test server
	r.routes()
	for end := time.Now().Add(time.Second); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if err := r.client.Report(t.Context(), []control.Report{{Service: "a", OK: 100}}); err != nil {
			t.Fatal(err)
		}
	}
	r.routes()
	if got := r.status().Services[0].Readiness.String(); got != "down" {
		t.Errorf("good reports made a service with dead servers %s", got)
	}
	r.daemon.signal(syscall.SIGTERM)
	r.daemon.ended()
}
