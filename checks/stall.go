package checks

import (
	"context"
	"log/slog"
	"time"
)

// noticeStall looks whether the whole process stood still: the scheduler
// passes at least once in each heartbeat, so a much longer time since anybody
// was here means that nobody could be. (The daemon was stopped by a signal,
// its host was paused, or had no CPU time for it.) Timeouts then have passed
// without the target having had its time, so the probes under way are marked,
// and their failures will be void.
//
// Whoever wakes up first notices, be it the scheduler or a probe. It returns
// how long the process stood still, 0 when it did not.
func (r *Runner) noticeStall(now time.Time) time.Duration {
	gap := now.Sub(r.lastBeat)
	r.lastBeat = now
	if gap <= r.opts.Heartbeat+r.opts.Stall {
		return 0
	}
	for _, e := range r.entries {
		if u := e.run; u != nil {
			u.spans = true
			// It may be about to return: the end of its context, too, was
			// noticed only now.
			u.giveUp = later(u.giveUp, now.Add(grace(e.spec.Timing.Timeout)))
		}
		if e.removed || e.next.IsZero() {
			continue
		}
		// Checks that became due meanwhile do not start all at once: they are
		// put off by as long as the process stood still, and so keep their
		// distance, or skip to their next slot where that comes first. Only
		// once: a host that stands still again and again still gets to them.
		if !e.next.After(now) && !e.putOff {
			e.putOff = true
			e.next = earlier(e.next.Add(gap), e.slot(now))
		}
		r.sched.place(e)
	}
	return gap
}

func (r *Runner) logStall(gap time.Duration) {
	if gap > 0 {
		r.log.LogAttrs(context.Background(), slog.LevelWarn,
			"process stood still, failures of probes under way are void", slog.Duration("took", gap))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
