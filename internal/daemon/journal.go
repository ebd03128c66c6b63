package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rhid/internal/control"
)

// journalSize is how many events are kept for `rhid events`.
const journalSize = 2000

// journal keeps the last events and wakes those who follow. It also writes
// each event to the log, one line at level info; those of checks the checks
// log themselves.
type journal struct {
	log *slog.Logger

	mu     sync.Mutex
	seq    uint64
	events []control.Event
	grown  chan struct{} // closed and replaced at every event
}

func newJournal(log *slog.Logger) *journal {
	return &journal{log: log, grown: make(chan struct{})}
}

// add numbers and keeps an event.
func (j *journal) add(e control.Event) {
	if e.Kind != "check" {
		j.log.Info("event", "kind", e.Kind, "what", e.What, "subject", e.Subject, "code", e.Code, "detail", e.Detail)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	e.Seq = j.seq
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if len(j.events) >= journalSize {
		j.events = slices.Delete(j.events, 0, journalSize/10)
	}
	j.events = append(j.events, e)
	close(j.grown)
	j.grown = make(chan struct{})
}

// after returns the events numbered above since; with none it waits for one
// until ctx ends.
func (j *journal) after(ctx context.Context, since uint64) []control.Event {
	for {
		j.mu.Lock()
		i := len(j.events)
		for i > 0 && j.events[i-1].Seq > since {
			i--
		}
		evs, grown := slices.Clone(j.events[i:]), j.grown
		j.mu.Unlock()
		if len(evs) > 0 {
			return evs
		}
		select {
		case <-ctx.Done():
			return nil
		case <-grown:
		}
	}
}
