package daemon

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"rhid/checks"
)

// bubble is synctest.Test on one processor. With -race and more of them, Go 1.26
// lets all use one context of the race detector for a bubble's timers, and now
// and then ends with a SIGSEGV in it (golang/go#78156). The detector goes by the
// order of events, not by chance, so one processor finds as much.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}

// TestAlive needs progress of both the loop and the checks, and anew each time.
func TestAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &Daemon{runner: checks.NewRunner(slog.New(slog.DiscardHandler), checks.RunnerOptions{})}
		alive := d.alive()
		// The checks' own timers end at the same instants: let them finish first.
		wait := func() { <-time.After(time.Second); synctest.Wait() }
		d.turns.Add(1)
		if alive() {
			t.Error("alive although the checks have not begun")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.runner.Run(ctx) }()
		wait()
		if !alive() {
			t.Error("not alive although both turn")
		}
		if alive() {
			t.Error("alive without any progress")
		}
		wait()
		if alive() {
			t.Error("alive although the loop stands still")
		}
		d.turns.Add(1)
		if !alive() {
			t.Error("not alive although the loop goes on")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		d.turns.Add(1)
		if alive() {
			t.Error("alive although the checks stand still")
		}
	})
}
