package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// lastChance is how long teardown may take when no time was set.
const lastChance = 3 * time.Second

// teardown closes what was opened, last in first out.
type teardown struct {
	log   *slog.Logger
	by    time.Time // when all must be over; zero is lastChance from the start of run
	steps []step
}

type step struct {
	name string
	f    func(context.Context) error
}

func (t *teardown) add(name string, f func(context.Context) error) {
	t.steps = append(t.steps, step{name, f})
}

// run takes every step, however the others end.
func (t *teardown) run() error {
	by := t.by
	if by.IsZero() {
		by = time.Now().Add(lastChance)
	}
	ctx, cancel := context.WithDeadline(context.Background(), by)
	defer cancel()
	var errs []error
	for i := len(t.steps) - 1; i >= 0; i-- {
		s := t.steps[i]
		start := time.Now()
		err := s.f(ctx)
		t.log.Debug("closed", "part", s.name, "took", time.Since(start), "error", err)
		if err != nil {
			errs = append(errs, fmt.Errorf("closing %s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}
