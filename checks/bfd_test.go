package checks

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
)

func TestBFDCheckAsksTheSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var up atomic.Bool
		up.Store(true)
		sessions := func(router string) (bool, string) {
			return router == "tor" && up.Load(), "nothing heard for 300ms"
		}
		r := NewRunner(slog.New(slog.DiscardHandler), RunnerOptions{Sessions: sessions})
		p, err := (&BFDOptions{Router: "tor"}).Prober(Target{})
		if err != nil {
			t.Fatal(err)
		}
		spec := Spec{ID: "tor", Name: "tor", Type: "bfd", Prober: p, Timing: Timing{
			Interval: 100 * time.Millisecond, FastInterval: 100 * time.Millisecond, Timeout: 80 * time.Millisecond, Rise: 1, Fall: 1,
		}}
		if err := r.Update([]Spec{spec}); err != nil {
			t.Fatal(err)
		}
		go func() { _ = r.Run(t.Context()) }()
		if e := <-r.Events(); e.State != Up || e.Result.Detail != "BFD session with tor is up" {
			t.Errorf("event %+v", e)
		}
		up.Store(false)
		began := time.Now()
		if e := <-r.Events(); e.State != Down || e.Result.Detail != "BFD session with tor is down: nothing heard for 300ms" {
			t.Errorf("event %+v", e)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("noticed after %v", took)
		}
	})
	p, err := (&BFDOptions{Router: "tor"}).Prober(Target{})
	if err != nil {
		t.Fatal(err)
	}
	if res := p.Probe(t.Context()); res.OK || res.Cause != CauseInternal {
		t.Errorf("without a daemon: %+v", res)
	}
}
