package daemon

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"rhid/internal/control"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestJournalFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal(quiet())
		got := make(chan []control.Event, 1)
		go func() { got <- j.after(t.Context(), 0) }()
		synctest.Wait()
		select {
		case evs := <-got:
			t.Fatalf("events out of nothing: %v", evs)
		default:
		}
		j.add(control.Event{Kind: "check", What: "down"})
		evs := <-got
		if len(evs) != 1 || evs[0].Seq != 1 || evs[0].What != "down" || evs[0].Time.IsZero() {
			t.Errorf("got %+v", evs)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if evs := j.after(ctx, 1); evs != nil {
			t.Errorf("nothing happened, got %+v", evs)
		}
	})
}

// The oldest events make room, and numbers go on.
func TestJournalIsBounded(t *testing.T) {
	j := newJournal(quiet())
	for range journalSize + 500 {
		j.add(control.Event{Kind: "check"})
	}
	evs := j.after(t.Context(), 0)
	if len(evs) > journalSize || len(evs) < journalSize*8/10 {
		t.Errorf("%d events kept", len(evs))
	}
	last := evs[len(evs)-1].Seq
	if last != journalSize+500 || evs[0].Seq != last-uint64(len(evs))+1 {
		t.Errorf("numbers run from %d to %d", evs[0].Seq, last)
	}
	if tail := j.after(t.Context(), last-3); len(tail) != 3 {
		t.Errorf("asked for the last 3, got %d", len(tail))
	}
}
