package announce

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Pace is how fast a Reconciler works. The zero value is not usable; take
// DefaultPace.
type Pace struct {
	Resync   time.Duration // everything is read and compared at least this often
	ReadGap  time.Duration // least pause between two reads
	RetryMin time.Duration // pause after the first failure of one object; doubles
	RetryMax time.Duration // longest pause
	Timeout  time.Duration // of one operation of the target
}

// DefaultPace repairs what others break within a second.
func DefaultPace() Pace {
	return Pace{
		Resync:   time.Second,
		ReadGap:  100 * time.Millisecond,
		RetryMin: 50 * time.Millisecond,
		RetryMax: time.Second,
		Timeout:  5 * time.Second,
	}
}

// Wish is what is wanted of one prefix in a target.
type Wish struct {
	Action Action // Leave: as an earlier life left it, until the goal is complete
	Route  Route  // meaningful with Announce
}

// RouteStatus is what one target has of one prefix.
type RouteStatus struct {
	Wanted   bool      `json:"wanted"`
	Here     bool      `json:"here"` // rhid's object exists in the target
	Places   []Place   `json:"places,omitempty"`
	Differs  time.Time `json:"differs_since,omitzero"` // since wanted and actual differ; zero when they agree
	Err      string    `json:"error,omitempty"`        // why the last attempt failed
	Attempts int       `json:"attempts,omitempty"`     // failures in a row
	acked    bool
}

// effective says that the object does its work: it was read back so, or the
// target has just taken it without error.
func (s RouteStatus) effective() bool {
	if !s.Here || s.acked {
		return s.Here
	}
	for _, p := range s.Places {
		if p.State == Present {
			return true
		}
	}
	return len(s.Places) == 0
}

// Released says that nothing more can be done here to take the route out: no
// place has it or still waits for the withdraw to leave this host.
func (s RouteStatus) Released() bool {
	if s.Here {
		return false
	}
	for _, p := range s.Places {
		if p.State == Present || p.State == Leaving {
			return false
		}
	}
	return true
}

// Settled says that every place has been read back as wanted. What the target
// has only just taken was not: its places are not even known yet.
func (s RouteStatus) Settled() bool {
	if s.Here != s.Wanted || s.acked {
		return false
	}
	want := Gone
	if s.Wanted {
		want = Present
	}
	for _, p := range s.Places {
		if p.State != want {
			return false
		}
	}
	return true
}

// Reconciler keeps one Target as wanted. It is level-triggered: it compares
// the whole goal with what is there whenever either may have changed, and at
// least once every Pace.Resync.
type Reconciler struct {
	target Target
	pace   Pace
	log    *slog.Logger
	given  chan struct{} // capacity 1
	done   atomic.Uint64 // number of the newest goal that was acted upon

	mu      sync.Mutex
	pending changes                      // given and not taken over yet
	updates map[netip.Prefix]RouteStatus // not yet collected
	changed chan struct{}

	// Owned by the goroutine of Run.
	number   uint64
	goal     map[netip.Prefix]Route
	withdraw map[netip.Prefix]bool
	complete bool
	seen     map[netip.Prefix]Seen
	acked    map[netip.Prefix]bool // taken by the target without error, and not read since
	tries    map[netip.Prefix]*try
	status   map[netip.Prefix]RouteStatus
	dirty    map[netip.Prefix]bool // status to be told
	suspect  map[netip.Prefix]bool // to be compared
	readDue  time.Time
	lastRead time.Time
	lastFull time.Time // when everything was compared
	readOK   bool
	readErr  string
}

// try is the history of failures of one object.
type try struct {
	failures int
	last     time.Time
	next     time.Time
	err      string
}

// NewReconciler returns a Reconciler for t. It does nothing until Run.
func NewReconciler(t Target, pace Pace, log *slog.Logger) *Reconciler {
	return &Reconciler{
		target: t, pace: pace, log: log.With("target", t.Name()),
		given:    make(chan struct{}, 1),
		pending:  changes{wishes: map[netip.Prefix]Wish{}},
		updates:  map[netip.Prefix]RouteStatus{},
		changed:  make(chan struct{}, 1),
		goal:     map[netip.Prefix]Route{},
		withdraw: map[netip.Prefix]bool{},
		seen:     map[netip.Prefix]Seen{},
		acked:    map[netip.Prefix]bool{},
		tries:    map[netip.Prefix]*try{},
		status:   map[netip.Prefix]RouteStatus{},
		dirty:    map[netip.Prefix]bool{},
		suspect:  map[netip.Prefix]bool{},
	}
}

// changes lead from one goal to a later one.
type changes struct {
	wishes   map[netip.Prefix]Wish
	complete bool
	n        uint64
}

// Change changes the goal, which begins empty: the wish for each prefix given
// takes the place of the one before. With complete, whatever has no wish is not
// to be there either; else it is left as an earlier life left it. n is the number
// of the goal that comes of it, and grows. Change never waits; of wishes for one
// prefix only the newest counts.
func (r *Reconciler) Change(wishes map[netip.Prefix]Wish, complete bool, n uint64) {
	r.mu.Lock()
	maps.Copy(r.pending.wishes, wishes)
	r.pending.complete, r.pending.n = complete, n
	r.mu.Unlock()
	signal(r.given)
}

// Done returns the number of the newest goal that was acted upon, with what is
// really there known; 0 before the first.
func (r *Reconciler) Done() uint64 { return r.done.Load() }

// Changed receives a value when Collect has something new.
func (r *Reconciler) Changed() <-chan struct{} { return r.changed }

// Collect returns the prefixes whose status changed since the last call. A
// status that is neither Wanted nor Here nor has Places is of a prefix that
// the target no longer knows.
func (r *Reconciler) Collect() map[netip.Prefix]RouteStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.updates
	r.updates = map[netip.Prefix]RouteStatus{}
	return u
}

// Run reconciles until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.given:
			r.adopt()
		case <-r.target.Changes():
			r.noteChange(time.Now())
		case <-timer.C:
		}
		timer.Reset(time.Until(r.step(ctx)))
	}
}

// adopt takes over what changed in the goal. An object whose goal changed is
// tried at once, however often it failed before.
func (r *Reconciler) adopt() {
	r.mu.Lock()
	c := r.pending
	r.pending.wishes = map[netip.Prefix]Wish{}
	r.mu.Unlock()
	for p, w := range c.wishes {
		r.wish(p, w)
	}
	if c.complete && !r.complete {
		for p := range r.seen {
			r.mark(p)
		}
	}
	r.number, r.complete = c.n, c.complete
}

func (r *Reconciler) wish(p netip.Prefix, w Wish) {
	old, wanted := r.goal[p]
	if wanted && (w.Action != Announce || !sameRoute(old, w.Route)) || !wanted && w.Action == Announce {
		delete(r.tries, p)
		r.mark(p)
	}
	if w.Action == Withdraw && !r.withdraw[p] {
		r.mark(p)
	}
	delete(r.goal, p)
	delete(r.withdraw, p)
	switch w.Action {
	case Announce:
		r.goal[p] = w.Route
	case Withdraw:
		r.withdraw[p] = true
	}
}

// mark has a prefix looked at and its status told.
func (r *Reconciler) mark(p netip.Prefix) {
	r.dirty[p], r.suspect[p] = true, true
}

func sameRoute(a, b Route) bool {
	return a.Service == b.Service && a.Local == b.Local && a.Attrs.Equal(b.Attrs) && a.Towards.Equal(b.Towards)
}

// noteChange brings the next read forward, and the next attempt at objects
// that failed: what stood in their way may be gone.
func (r *Reconciler) noteChange(now time.Time) {
	r.readSoon(now)
	for _, t := range r.tries {
		if soon := t.last.Add(r.pace.RetryMin); soon.Before(t.next) {
			t.next = soon
		}
	}
}

// readSoon asks for a read as early as ReadGap allows, and no later than one
// already asked for.
func (r *Reconciler) readSoon(now time.Time) {
	due := r.lastRead.Add(r.pace.ReadGap)
	if due.Before(now) {
		due = now
	}
	if due.Before(r.readDue) {
		r.readDue = due
	}
}

// step reads if due, acts on every difference and publishes. It returns when
// the next step is due.
func (r *Reconciler) step(ctx context.Context) time.Time {
	now := time.Now()
	if !now.Before(r.readDue) {
		r.read(ctx)
	}
	if r.readOK {
		r.act(ctx)
	}
	r.publish(time.Now())
	if r.readOK && r.number != r.done.Load() {
		r.done.Store(r.number)
		signal(r.changed)
	}
	return r.nextStep()
}

func (r *Reconciler) nextStep() time.Time {
	next := r.readDue
	for _, t := range r.tries {
		if t.next.Before(next) {
			next = t.next
		}
	}
	return next
}

// read learns what is really there. After an error the last known world
// stands: a withdraw must not wait for a read that fails.
func (r *Reconciler) read(ctx context.Context) {
	rctx, cancel := context.WithTimeout(ctx, r.pace.Timeout)
	defer cancel()
	seen, err := r.target.Read(rctx)
	r.lastRead = time.Now()
	r.readDue = r.lastRead.Add(r.pace.Resync)
	if err != nil {
		if ctx.Err() == nil && r.readErr == "" {
			r.log.Error("reading back failed", "error", err)
		}
		r.readErr = err.Error()
		return
	}
	if r.readErr != "" {
		r.log.Info("reading back works again")
	}
	r.readErr, r.readOK = "", true
	for p := range r.acked {
		r.dirty[p] = true
	}
	clear(r.acked)
	for p := range r.seen {
		if _, ok := seen[p]; !ok {
			r.mark(p)
		}
	}
	for p, s := range seen {
		if old, ok := r.seen[p]; !ok || old.Here != s.Here || !samePlaces(old.Places, s.Places) || !sameRoute(old.Route, s.Route) {
			r.mark(p)
		}
	}
	r.seen = seen
	if r.lastRead.Sub(r.lastFull) >= r.pace.Resync {
		r.lastFull = r.lastRead
		r.suspectAll()
	}
}

// suspectAll has everything compared, whatever seems to have changed: what a
// target takes for the same may depend on more than is seen.
func (r *Reconciler) suspectAll() {
	for p := range r.goal {
		r.suspect[p] = true
	}
	for p := range r.seen {
		r.suspect[p] = true
	}
}

func samePlaces(a, b []Place) bool {
	return slices.EqualFunc(a, b, func(x, y Place) bool {
		return x.Name == y.Name && x.State == y.State && x.Why == y.Why
	})
}

// act puts and removes what differs, among the prefixes whose goal or whose
// world changed and those that failed. Withdraws go first: a wrong route does
// more harm than a missing one.
func (r *Reconciler) act(ctx context.Context) {
	todo := r.suspect
	r.suspect = map[netip.Prefix]bool{}
	for p := range r.tries {
		todo[p] = true
	}
	acted := false
	for p := range todo {
		if _, wanted := r.goal[p]; !wanted && r.seen[p].Here && (r.complete || r.withdraw[p]) {
			acted = r.attempt(ctx, p, nil) || acted
		}
	}
	for p := range todo {
		route, wanted := r.goal[p]
		if !wanted {
			continue
		}
		if s, ok := r.seen[p]; ok && s.Here && r.target.Same(route, s) {
			delete(r.tries, p)
			continue
		}
		acted = r.attempt(ctx, p, &route) || acted
	}
	if acted {
		r.readSoon(time.Now())
	}
}
