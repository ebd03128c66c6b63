package daemon

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"rhid/checks"
)

// TestAlive needs progress of both the loop and the checks, and anew each time.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
