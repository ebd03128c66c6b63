package daemon

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"rhid/announce"
	"rhid/checks"
	"rhid/internal/control"
	"rhid/services"
)

// phase is how far the daemon's life has come.
type phase uint8

const (
	phaseRunning phase = iota
	phaseDraining
	phaseWithdrawing
	phaseDone
)

func (p phase) String() string {
	return [...]string{"running", "draining", "withdrawing", "stopping"}[p]
}

// tick is how often the loop looks at what sends no signal: neighbours,
// alarms, the watchdog.
const tick = 250 * time.Millisecond

// loop owns everything that decisions depend on. Only its goroutine touches
// its fields; others send it values, or closures through ask.
type loop struct {
	d       *Daemon
	m       *model
	journal *journal
	ask     chan func()
	stopped chan struct{} // closed when run returned, so that nobody asks in vain

	phase      phase
	since      time.Time // of the phase
	started    time.Time
	loaded     time.Time
	lastErr    string // of a refused reload
	checks     map[string]known
	byCheck    map[string][]*service
	trackers   map[string]*services.Tracker
	pools      map[string]checks.PoolState
	states     map[string]services.State
	plan       map[string]services.Decision
	changed    map[string]time.Time                           // when a service's verdict last changed
	announced  map[string]bool                                // routes last reported as announced, by prefix and target
	sessions   map[string]bool                                // last reported state of each neighbour
	acts       map[string]acting                              // what this node does for each service now
	leaving    map[string]time.Time                           // since when a service is held until others have it
	left       []time.Time                                    // when services left because of what fails everywhere, within brakeWindow
	vips       map[string]map[netip.Prefix]announce.VIPStatus // by service
	exported   map[string]export                              // how far each service's routes have come
	routed     bool                                           // a BGP session is established
	witness    *witness
	failbackAt uint64      // newest failback intent that was followed
	decided    bool        // no service is undecided, or was so once
	timer      *time.Timer // next change by time alone
}

// known is what the loop knows of a check.
type known struct {
	state  checks.State
	detail string
}

func newLoop(d *Daemon, m *model) *loop {
	now := time.Now()
	l := &loop{
		d: d, journal: d.journal, ask: make(chan func()), stopped: make(chan struct{}),
		since: now, started: now,
		checks: map[string]known{}, trackers: map[string]*services.Tracker{},
		changed: map[string]time.Time{}, announced: map[string]bool{}, sessions: map[string]bool{},
		acts: map[string]acting{}, leaving: map[string]time.Time{},
		witness: newWitness(), exported: map[string]export{}, vips: map[string]map[netip.Prefix]announce.VIPStatus{},
		plan: map[string]services.Decision{}, timer: time.NewTimer(time.Hour),
	}
	l.adopt(m, now)
	return l
}

// adopt makes m the model in force. What is known of checks and services that
// both models have stays known.
func (l *loop) adopt(m *model, now time.Time) {
	l.m, l.loaded = m, now
	l.byCheck = map[string][]*service{}
	l.pools = map[string]checks.PoolState{}
	l.states = map[string]services.State{}
	trackers := map[string]*services.Tracker{}
	for _, s := range m.services {
		for _, id := range s.members {
			l.byCheck[id] = append(l.byCheck[id], s)
		}
		t := l.trackers[s.name]
		if t == nil {
			t = services.NewTracker(s.rules)
		}
		t.Configure(s.rules)
		trackers[s.name] = t
	}
	l.trackers = trackers
	for id := range l.checks {
		if l.byCheck[id] == nil {
			delete(l.checks, id)
		}
	}
	for _, s := range m.services {
		l.observe(s, now)
	}
}

// run is the event loop. It returns when the daemon is to end: everything is
// withdrawn then, or the time for it is over.
func (l *loop) run(ctx context.Context, stop, reload <-chan struct{}) error {
	defer close(l.stopped)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	l.decide(time.Now())
	for l.phase != phaseDone {
		select {
		case <-ctx.Done():
			return nil
		case e := <-l.d.runner.Events():
			l.takeEvents(e)
		case <-l.d.announcer.Changed():
			l.watchRoutes(time.Now())
		case <-l.peers():
			l.decide(time.Now())
		case <-l.sighted():
			l.decide(time.Now())
		case f := <-l.ask:
			f()
		case <-reload:
			l.reload() //nolint:errcheck // it is in the journal, and in status
		case <-stop:
			l.stop(time.Now())
		case <-l.timer.C:
			l.observeAll(time.Now())
		case <-ticker.C:
			l.tick(time.Now())
		}
	}
	return nil
}

// peers receives a value when another node says something new.
func (l *loop) peers() <-chan struct{} {
	if l.d.cluster == nil {
		return nil
	}
	return l.d.cluster.Changes()
}

// sighted receives a value when a router sends something else than before.
func (l *loop) sighted() <-chan struct{} {
	if l.d.speaker == nil || l.d.cluster == nil {
		return nil
	}
	return l.d.speaker.Sighted()
}

// takeEvents handles e and all that wait behind it, and decides once.
func (l *loop) takeEvents(e checks.Event) {
	now := time.Now()
	touched := map[*service]bool{}
	for more := true; more; {
		l.checks[e.ID] = known{e.State, e.Result.Detail}
		for _, s := range l.byCheck[e.ID] {
			touched[s] = true
		}
		l.journal.add(control.Event{
			Time: e.At, Kind: "check", Subject: e.ID, What: e.State.String(),
			Code: string(e.Result.Cause), Detail: e.Result.Detail,
		})
		select {
		case e = <-l.d.runner.Events():
		default:
			more = false
		}
	}
	for s := range touched {
		l.observe(s, now)
	}
	l.decide(now)
}

func (l *loop) observeAll(now time.Time) {
	for _, s := range l.m.services {
		l.observe(s, now)
	}
	l.decide(now)
}

// observe works out the health of one service from its checks.
func (l *loop) observe(s *service, now time.Time) {
	members := make([]checks.Member, len(s.members))
	for i, id := range s.members {
		k := l.checks[id]
		members[i] = checks.Member{ID: memberName(id), State: k.state}
		if k.state != checks.Up {
			members[i].Why = k.detail
		}
	}
	pool := checks.PoolOf(members, checks.Quorum{N: s.quorum.N, Percent: s.quorum.Percent})
	if !s.pool {
		pool.Detail = singleDetail(members[0], l.checks[s.members[0]].detail)
	}
	l.pools[s.name] = pool
	h, code := services.HealthUnknown, services.CodeNotChecked
	switch pool.State {
	case checks.Up:
		h, code = services.HealthUp, services.CodeHealthy
	case checks.Down:
		h, code = services.HealthDown, services.CodePoolDown
		if !s.pool {
			code = services.CodeCheckDown
		}
	}
	l.trackers[s.name].Observe(h, services.Reason{Code: code, Evidence: pool.Detail}, now)
}

func singleDetail(m checks.Member, detail string) string {
	if detail == "" {
		detail = "not known yet"
	}
	return "check " + m.ID + " is " + m.State.String() + ": " + detail
}

// memberName is how people know a check of a pool: its target.
func memberName(id string) string {
	for i := range id {
		if id[i] == '@' {
			return id[i+1:]
		}
	}
	return id
}

// decide runs the decision over all services and hands the outcome to the
// announcer, which compares it with what is there, and to the other nodes.
func (l *loop) decide(now time.Time) {
	l.trustAgain()
	next := l.due(now)
	for _, s := range l.m.services {
		st, due := l.trackers[s.name].State(now)
		l.states[s.name] = l.routable(s, st)
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if !next.IsZero() {
		l.timer.Reset(max(0, next.Sub(now)))
	}
	plan := services.Decide(l.inputs(now))
	old := l.plan
	l.plan = make(map[string]services.Decision, len(plan.Decisions))
	undecided := false
	for _, dec := range plan.Decisions {
		l.plan[dec.Service] = dec
		undecided = undecided || dec.Verdict == services.Undecided
	}
	l.push(!undecided)
	for _, dec := range plan.Decisions {
		l.note(dec, now)
		l.noteVerdict(old[dec.Service], dec, now)
	}
	l.publish()
	if !undecided {
		l.becomeReady("every service is decided")
	}
}

// routable makes a node a last resort that no router has a session with:
// nobody would be led to it.
func (l *loop) routable(s *service, st services.State) services.State {
	if l.d.cluster == nil || l.routed || st.Readiness != services.Ready || !slices.Contains(s.conf.Via, viaBGP) {
		return st
	}
	st.Readiness = services.Standby
	st.Reason = services.Reason{Code: services.CodeNoRouter, Evidence: st.Reason.Evidence + "; no BGP session is established"}
	return st
}

// push gives the announcer the whole wanted set.
func (l *loop) push(complete bool) {
	l.d.announcer.Set(l.m.wanted(l.plan, l.phase), complete)
}

func (l *loop) noteVerdict(old, now services.Decision, at time.Time) {
	if old.Service != "" && old.Verdict == now.Verdict && old.Rank == now.Rank {
		return
	}
	l.changed[now.Service] = at
	if now.Verdict == services.Undecided {
		return
	}
	l.journal.add(control.Event{
		Time: at, Kind: "service", Subject: now.Service, What: now.Verdict.String(),
		Code: string(now.Reason.Code), Detail: now.Reason.Evidence,
	})
}
