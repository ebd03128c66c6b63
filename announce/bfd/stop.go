package bfd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// BeginStop says that Stop follows, once what the sessions vouch for has
// ended. They go on, but one that its peer ends does not come up again: BIRD
// begins a new one at once, which would have to be ended as well.
func (s *Speaker) BeginStop() {
	s.locked(func(time.Time) {
		for _, e := range s.entries {
			e.ending = true
		}
	})
}

// Stop tells every peer that this end is meant (AdminDown), waits until they
// know or ctx ends, and closes the sockets. A session that is up goes on for
// patience, or half of the time until ctx ends, so that its peer can end it
// first: what uses it there may have ended and need a moment to notice. It must
// be called once.
func (s *Speaker) Stop(ctx context.Context, patience time.Duration) error {
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)/2)
	}
	s.BeginStop()
	s.locked(func(now time.Time) {
		for _, e := range s.entries {
			if e.state != Up && !e.leaving {
				e.leave(now)
			}
		}
	})
	signal(s.wake)
	late := time.NewTimer(patience)
	defer late.Stop()
	var err error
	for s.leaving() && err == nil {
		select {
		case <-s.gone:
		case <-late.C:
			err = s.Configure(nil)
		case <-ctx.Done():
			err = fmt.Errorf("bfd: not every peer has heard of the end: %w", ctx.Err())
		}
	}
	close(s.quit)
	s.locked(func(time.Time) {
		for _, e := range s.entries {
			e.close()
		}
		s.unused = slices.AppendSeq(s.unused, maps.Values(s.listeners))
		clear(s.listeners)
	})
	s.tasks.Wait()
	return err
}

func (s *Speaker) leaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries) > 0
}
