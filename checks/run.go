package checks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Run runs the checks until ctx ends, and then stops the probes under way. It
// returns nil; an error means that it was called before.
func (r *Runner) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.ctx != nil {
		r.mu.Unlock()
		return errors.New("the checks were started before")
	}
	// A deadline of ctx is not to become one of the probes under way: they
	// would take it for their own, and blame the target.
	parent := ctx
	ctx, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(parent), sessionsKey{}, r.opts.Sessions))
	defer cancel()
	defer context.AfterFunc(parent, cancel)()
	now := time.Now()
	r.ctx, r.lastBeat, r.origin = ctx, now, now
	for _, e := range r.entries {
		if !e.removed {
			r.begin(e, now)
		}
	}
	r.mu.Unlock()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		wake, e, ev, seq := r.pass(ctx)
		timer.Reset(time.Until(wake))
		var out chan Event
		if e != nil {
			out = r.events
		}
		select {
		case <-ctx.Done():
		case <-r.poke:
		case <-timer.C:
		case out <- ev:
			r.delivered(e, seq)
		}
	}
	r.stop(timer)
	return nil
}

// pass does all that is due. It returns when to pass again at the latest, and
// the event to deliver meanwhile, if there is one.
func (r *Runner) pass(ctx context.Context) (wake time.Time, e *entry, ev Event, seq uint64) {
	r.beats.Add(1)
	r.mu.Lock()
	now := time.Now()
	stalled := r.noticeStall(now)
	var said []saying
	for len(r.sched) > 0 && !r.sched[0].wakeAt.After(now) {
		said = r.attend(ctx, r.sched[0], now, said)
	}
	wake = now.Add(r.opts.Heartbeat)
	if len(r.sched) > 0 && r.sched[0].wakeAt.Before(wake) {
		wake = r.sched[0].wakeAt
	}
	for len(r.outbox) > 0 && r.outbox[0].eventSeq == 0 {
		r.outbox[0] = nil
		r.outbox = r.outbox[1:] // delivered, or of a check that was removed
	}
	if len(r.outbox) > 0 {
		e = r.outbox[0]
		ev, seq = e.event, e.eventSeq
	}
	r.mu.Unlock()
	r.logStall(stalled)
	for i := range said {
		r.say(&said[i])
	}
	return wake, e, ev, seq
}

// delivered takes the event at the head of the outbox out, unless a newer one
// has taken its place meanwhile.
func (r *Runner) delivered(e *entry, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.eventSeq == seq {
		e.eventSeq = 0
	}
}

// attend does what is due for one check: gives up a probe that does not end,
// or starts the next.
func (r *Runner) attend(ctx context.Context, e *entry, now time.Time, said []saying) []saying {
	defer r.sched.place(e)
	if u := e.run; u != nil && !u.settled && !u.giveUp.After(now) {
		u.settled = true
		said = append(said, r.record(e, Result{
			Cause:  CauseTimeout,
			Detail: fmt.Sprintf("no result within %s", e.spec.Timing.Timeout),
			Start:  u.start,
			Took:   now.Sub(u.start),
		}))
		e.next = e.slot(now)
		return said
	}
	if e.spec.Passive {
		was := e.judge.state
		if s := r.change(e, was, e.judge.age(now), now); s.changed {
			said = append(said, s)
		}
	}
	if e.next.IsZero() || e.next.After(now) {
		return said
	}
	e.next, e.putOff = e.slot(now), false
	switch {
	case e.run == nil:
		r.launch(ctx, e, now)
	case !e.run.giveUp.After(now):
		said = append(said, r.record(e, Result{
			Cause:  CauseTimeout,
			Detail: fmt.Sprintf("previous run still has not ended after %s", now.Sub(e.run.start).Round(time.Millisecond)),
			Start:  now,
		}))
		e.next = e.slot(now)
	}
	return said
}

// launch starts a probe.
func (r *Runner) launch(ctx context.Context, e *entry, now time.Time) {
	timeout := e.spec.Timing.Timeout
	ctx, cancel := context.WithTimeout(ctx, timeout)
	e.run = &run{entry: e, start: now, giveUp: now.Add(timeout + grace(timeout)), cancel: cancel}
	r.inFlight++
	go r.probe(ctx, e.run, e.spec.Prober)
}

// probe makes one probe, in a goroutine of its own.
func (r *Runner) probe(ctx context.Context, u *run, p Prober) {
	defer u.cancel()
	res := r.guarded(ctx, p)
	r.conclude(u, res)
}

// guarded turns a panic in a prober into a failed result: a fault in one check
// is not to take the routes of all services with it.
func (r *Runner) guarded(ctx context.Context, p Prober) (res Result) {
	defer func() {
		if v := recover(); v != nil {
			r.log.LogAttrs(ctx, slog.LevelError, "probe panicked", slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			res = Result{Cause: CauseInternal, Detail: "the probe failed by a fault in rhid; see the log"}
		}
	}()
	return p.Probe(ctx)
}

// conclude takes in the result of a probe that ended.
func (r *Runner) conclude(u *run, res Result) {
	r.mu.Lock()
	now := time.Now()
	if res.Start.IsZero() {
		res.Start, res.Took = u.start, now.Sub(u.start)
	}
	stalled := r.noticeStall(now)
	e := u.entry // which may be another than at the start
	e.run = nil
	r.inFlight--
	var said []saying
	switch {
	case e.removed:
		delete(r.entries, e.spec.ID)
	case r.ctx == nil || r.ctx.Err() != nil:
	case u.settled:
		r.sched.place(e)
	case u.spans && !res.OK && e.discarded < maxDiscards:
		e.discarded++
		said = append(said, saying{name: e.spec.Name, target: e.spec.Target, void: true, res: res})
		e.next = now
		r.sched.place(e)
	default:
		e.discarded = 0
		said = append(said, r.record(e, res))
		e.next = e.slot(now)
		r.sched.place(e)
	}
	r.wakeUp()
	r.mu.Unlock()
	r.logStall(stalled)
	for i := range said {
		r.say(&said[i])
	}
}

// saying is something to be logged once the lock is free.
type saying struct {
	name, target string
	changed      bool
	event        Event // when it changed
	void         bool  // the result did not count
	res          Result
}

// record counts a result and queues an event when the check changed by it.
func (r *Runner) record(e *entry, res Result) saying {
	e.note(res)
	was, maint := e.judge.state, e.maint
	changed := e.judge.observe(res)
	e.maint = res.Maintenance
	s := r.change(e, was, changed || e.maint != maint, res.Start.Add(res.Took))
	s.res = res
	return s
}

// note keeps a result for people.
func (e *entry) note(res Result) {
	e.recent[e.runs%History] = res
	e.last = res
	e.runs++
	if !res.OK {
		e.fails++
	}
}

// change queues an event when the check changed at time at, and says what is
// to be logged. was is the state before.
func (r *Runner) change(e *entry, was State, changed bool, at time.Time) saying {
	j := &e.judge
	if j.state != was {
		e.since = at
	}
	if changed {
		if e.eventSeq == 0 {
			r.outbox = append(r.outbox, e)
		}
		r.eventSeq++
		e.eventSeq = r.eventSeq
		e.event = Event{
			ID: e.spec.ID, State: j.state, Degraded: j.degraded, Maintenance: e.maint,
			At: at, Why: j.why(), Result: e.last,
		}
	}
	return saying{name: e.spec.Name, target: e.spec.Target, changed: changed, event: e.event}
}

// say logs a result, and a change of state.
func (r *Runner) say(s *saying) {
	ctx := context.Background()
	if r.log.Enabled(ctx, slog.LevelDebug) {
		r.log.LogAttrs(ctx, slog.LevelDebug, "probe",
			slog.String("check", s.name), slog.String("target", s.target), slog.Bool("ok", s.res.OK), slog.Bool("void", s.void),
			slog.String("cause", string(s.res.Cause)), slog.String("detail", s.res.Detail), slog.Duration("took", s.res.Took))
	}
	if s.changed {
		r.log.LogAttrs(ctx, slog.LevelInfo, "check changed its state",
			slog.String("check", s.name), slog.String("target", s.target), slog.String("state", s.event.State.String()),
			slog.Bool("degraded", s.event.Degraded), slog.Bool("maintenance", s.event.Maintenance),
			slog.String("cause", string(s.res.Cause)), slog.String("detail", s.event.Why), slog.Duration("took", s.res.Took))
	}
}

// stop lets go of all that probers hold, and waits for probes that end soon
// after they were stopped. One that does
// not is left behind: the process is about to end, or the check is hung in the
// kernel and nobody can help it.
func (r *Runner) stop(timer *time.Timer) {
	r.mu.Lock()
	for _, e := range r.entries {
		e.spec.release()
	}
	r.mu.Unlock()
	timer.Reset(stopWait)
	for {
		r.mu.Lock()
		if r.inFlight == 0 {
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		select {
		case <-r.poke:
		case <-timer.C:
			return
		}
	}
}
