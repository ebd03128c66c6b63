package checks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// History is how many results of a check Recent knows.
	History = 10

	defaultHeartbeat = 250 * time.Millisecond
	defaultStall     = 500 * time.Millisecond
	maxDiscards      = 3           // results in a row that a stall may make void
	stopWait         = time.Second // for probes that are stopped at the end of Run
)

// RunnerOptions are the settings of a Runner. Zero values mean the defaults.
type RunnerOptions struct {
	// Heartbeat is how often Progress grows at the least; 250 ms by default.
	Heartbeat time.Duration
	// Stall is how much later than its heartbeat the process may be woken
	// before failures of that time are void; 500 ms by default.
	Stall time.Duration
	// Sessions answers bfd checks; without it they fail. It must not wait.
	Sessions Sessions
}

// Runner runs checks at their times and keeps their states. All its methods
// may be called from any goroutine, and none waits for a probe.
type Runner struct {
	log  *slog.Logger
	opts RunnerOptions

	events chan Event
	poke   chan struct{} // makes the scheduler look again
	beats  atomic.Uint64

	mu       sync.Mutex
	ctx      context.Context // of Run, nil while it does not run
	entries  map[string]*entry
	sched    schedule
	outbox   []*entry // whose event is to be delivered, the oldest first
	eventSeq uint64
	inFlight int
	lastBeat time.Time
	origin   time.Time // of all phases, when Run began
}

// entry is a check and all that is known of it.
type entry struct {
	spec      Spec
	judge     judge
	since     time.Time // of the state
	maint     bool      // the last result said that its maintenance file is there
	phase     time.Time // a slot; all others are whole intervals away
	next      time.Time // the next slot; zero where nothing is run
	wakeAt    time.Time // when the scheduler looks at it
	index     int       // in the heap, -1 when not in it
	run       *run      // under way, nil when there is none
	removed   bool      // no longer wanted, only waiting for run to end
	putOff    bool      // its slot was put off because of a stall
	discarded int       // void results in a row

	recent [History]Result // a ring; runs % History is the oldest
	last   Result
	runs   uint64
	fails  uint64

	event    Event  // waiting for delivery when queued
	eventSeq uint64 // 0 when none is waiting
}

// run is one probe under way.
type run struct {
	entry   *entry
	start   time.Time
	giveUp  time.Time // when it counts as failed although it has not ended
	cancel  context.CancelFunc
	settled bool // its result no longer counts: given up, or meant for another Spec
	spans   bool // the process was stalled meanwhile
}

// NewRunner returns a Runner without checks. It logs probes at debug and
// changes of state at info.
func NewRunner(log *slog.Logger, opts RunnerOptions) *Runner {
	if opts.Heartbeat <= 0 {
		opts.Heartbeat = defaultHeartbeat
	}
	if opts.Stall <= 0 {
		opts.Stall = defaultStall
	}
	return &Runner{
		log:     log,
		opts:    opts,
		events:  make(chan Event),
		poke:    make(chan struct{}, 1),
		entries: make(map[string]*entry),
	}
}

// Events delivers changes of state, in the order in which they happened. A
// change that nobody has taken yet is replaced when the same check changes
// again, so a slow reader sees the latest state of each check, never loses
// one, and holds up no probe. The channel is never closed. An event that was
// on its way when its check was removed may still come.
func (r *Runner) Events() <-chan Event { return r.events }

// Progress grows at least once in each RunnerOptions.Heartbeat as long as the
// scheduler lives. A watchdog looks at it.
func (r *Runner) Progress() uint64 { return r.beats.Load() }

// Update sets the whole set of checks. A check whose ID and Key were there
// before keeps its state and phase, and goes on with the Prober of the new
// Spec. One with another Key is probed anew, without what an earlier probe
// still under way may say, but keeps its state until rise or fall decide
// again. One that is no longer there is stopped. An error means that nothing
// was changed.
func (r *Runner) Update(specs []Spec) error {
	wanted := make(map[string]bool, len(specs))
	for i := range specs {
		s := &specs[i]
		if wanted[s.ID] {
			return fmt.Errorf("check %s is there twice", s.ID)
		}
		wanted[s.ID] = true
		if err := s.validate(); err != nil {
			return fmt.Errorf("check %s: %w", s.ID, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for id, e := range r.entries {
		if !wanted[id] {
			r.drop(e)
		}
	}
	for _, s := range specs {
		if e := r.entries[s.ID]; e != nil && !e.removed {
			r.replace(e, s, now)
		} else {
			r.add(e, s, now)
		}
	}
	r.wakeUp()
	return nil
}

// validate refuses what cannot be run.
func (s *Spec) validate() error {
	t := s.Timing
	switch {
	case s.Prober == nil && s.Passive:
		return nil
	case s.Prober == nil:
		return errors.New("has no prober")
	case t.Interval <= 0 || t.FastInterval < 0:
		return fmt.Errorf("interval %s and fast interval %s must be longer than 0", t.Interval, t.FastInterval)
	case t.Jitter < 0 || t.Jitter > 0 && t.Timeout+t.Jitter >= t.Interval:
		return fmt.Errorf("jitter %s and timeout %s together must be shorter than the interval %s", t.Jitter, t.Timeout, t.Interval)
	case t.Timeout <= 0 || t.Timeout >= t.Interval || t.FastInterval > 0 && t.Timeout >= t.FastInterval:
		return fmt.Errorf("timeout %s must be longer than 0 and shorter than the interval %s and the fast interval %s",
			t.Timeout, t.Interval, t.FastInterval)
	}
	return nil
}

// add begins a check. old is what a removed check of the same ID left behind:
// a probe that has not ended, which keeps the new one from beginning.
func (r *Runner) add(old *entry, s Spec, now time.Time) {
	e := &entry{spec: s, judge: newJudge(&s), since: now, index: -1}
	if old != nil {
		e.run = old.run
		e.run.entry = e
	}
	r.entries[s.ID] = e
	r.watch(e)
	if r.ctx != nil {
		r.begin(e, now)
	}
}

// begin gives e its phase and its first slot.
func (r *Runner) begin(e *entry, now time.Time) {
	if e.spec.Prober == nil {
		r.sched.place(e)
		return
	}
	// Checks that were added at different times share places, too.
	origin := slotAfter(now, r.origin, slotGrain)
	e.phase = origin.Add(offset(e.spec.ID, e.spec.Timing.Interval))
	e.next = e.slot(now)
	r.sched.place(e)
}

// replace gives e another Spec with the same ID.
func (r *Runner) replace(e *entry, s Spec, now time.Time) {
	old := e.spec
	e.spec = s
	r.handOver(e, old)
	if old.Key == s.Key && old.Timing == s.Timing && e.judge.same(&s) {
		return
	}
	if old.Key != s.Key || !e.judge.same(&s) {
		e.judge.configure(&s)
	}
	if old.Key != s.Key {
		e.abandon()
	}
	if r.ctx == nil {
		return
	}
	if s.Prober == nil {
		e.next = time.Time{}
		r.sched.place(e)
		return
	}
	if old.Timing.Interval != s.Timing.Interval || old.Prober == nil {
		r.begin(e, now)
		return
	}
	e.next = e.slot(now)
	r.sched.place(e)
}

// drop ends a check. While its probe is under way it is remembered, so that
// the same check, should it come back, does not run twice at once.
func (r *Runner) drop(e *entry) {
	e.removed = true
	e.abandon()
	e.spec.release()
	e.eventSeq = 0
	r.sched.remove(e)
	if e.run == nil {
		delete(r.entries, e.spec.ID)
	}
}

// abandon stops the probe under way and makes its result void.
func (e *entry) abandon() {
	if e.run != nil {
		e.run.settled = true
		e.run.cancel()
	}
}

// Status returns what is known of all checks, sorted by ID.
func (r *Runner) Status() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Status, 0, len(r.entries))
	for _, e := range r.entries {
		if !e.removed {
			out = append(out, e.status())
		}
	}
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// StatusOf returns what is known of one check.
func (r *Runner) StatusOf(id string) (Status, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil || e.removed {
		return Status{}, false
	}
	return e.status(), true
}

// Recent returns the last results of a check, at most History, the oldest
// first.
func (r *Runner) Recent(id string) []Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil || e.removed {
		return nil
	}
	if e.runs <= History {
		return slices.Clone(e.recent[:e.runs])
	}
	oldest := e.runs % History
	return slices.Concat(e.recent[oldest:], e.recent[:oldest])
}

func (e *entry) status() Status {
	st := Status{
		ID:          e.spec.ID,
		Name:        e.spec.Name,
		Type:        e.spec.Type,
		Target:      e.spec.Target,
		State:       e.judge.state,
		Since:       e.since,
		Streak:      e.judge.streak(),
		Last:        e.last,
		Runs:        e.runs,
		Fails:       e.fails,
		NextRun:     e.next,
		Interval:    e.step(),
		Why:         e.judge.why(),
		Passive:     e.spec.Passive,
		Degraded:    e.judge.degraded,
		Maintenance: e.maint,
	}
	if e.judge.rate != nil {
		st.Rate = e.judge.rate.status()
	}
	if e.judge.link != nil {
		st.Link = e.judge.link.status()
	}
	return st
}

// wakeUp makes the scheduler look again, now or when it next gets round to it.
func (r *Runner) wakeUp() {
	select {
	case r.poke <- struct{}{}:
	default: // it was told already
	}
}
