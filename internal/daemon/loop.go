package daemon

import (
	"context"
	"maps"
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
	heard   chan heard
	stopped chan struct{} // closed when run returned, so that nobody asks in vain

	phase     phase
	since     time.Time // of the phase
	turned    time.Time // when the loop last turned
	started   time.Time
	loaded    time.Time
	lastErr   string // of a refused reload
	checks    map[string]known
	byName    map[string]*service
	byCheck   map[string][]*service
	trackers  map[string]*services.Tracker
	links     map[string]watched // by name
	overload  watched
	comps     map[string]*checks.Composition
	outcomes  map[string]checks.Outcome // what the checks of each service say together
	degraded  map[string]time.Time      // since when a service has been degraded
	states    map[string]services.State
	dues      map[string]time.Time // when a service's readiness changes by time alone
	undecided map[string]bool
	wanted    []*announce.VIP // as the announcer was told last
	news      []change        // not told to people yet
	plan      map[string]services.Decision
	changed   map[string]time.Time                           // when a service's verdict last changed
	announced map[string]bool                                // routes last reported as announced, by prefix and target
	sessions  map[string]bool                                // last reported state of each neighbour
	bfdUp     map[string]bool                                // the same of BFD
	acts      map[string]acting                              // what this node does for each service now
	leaving   map[string]time.Time                           // since when a service is held until others have it
	left      []time.Time                                    // when services left because of what fails everywhere, within brakeWindow
	vips      map[string]map[netip.Prefix]announce.VIPStatus // by service
	exported  map[string]export                              // how far each service's routes have come
	exports   map[exportKey]time.Time                        // since when other nodes' routes have been in the routers
	routed    bool                                           // a BGP session is established
	hadRouter bool                                           // one was, or should have been by now
	witness   *witness
	traces    *kernelWitness
	strangers *strangers
	wide      *model            // what the backends have while VIPs of an earlier configuration leave, nil when none does
	followed  map[string]uint64 // failback intent that each service followed last
	decided   bool              // no service is undecided, or was so once
	timer     *time.Timer       // next change by time alone
}

func newLoop(d *Daemon, m *model) *loop {
	now := time.Now()
	l := &loop{
		d: d, journal: d.journal, ask: make(chan func()), heard: make(chan heard), stopped: make(chan struct{}),
		since: now, started: now,
		checks: map[string]known{}, links: map[string]watched{}, trackers: map[string]*services.Tracker{},
		changed: map[string]time.Time{}, announced: map[string]bool{}, sessions: map[string]bool{},
		acts: map[string]acting{}, leaving: map[string]time.Time{},
		witness: newWitness(), traces: newKernelWitness(), strangers: newStrangers(), followed: map[string]uint64{}, exported: map[string]export{}, vips: map[string]map[netip.Prefix]announce.VIPStatus{},
		comps: map[string]*checks.Composition{}, degraded: map[string]time.Time{},
		undecided: map[string]bool{}, plan: map[string]services.Decision{}, timer: time.NewTimer(time.Hour),
	}
	l.adopt(m, now)
	return l
}

// adopt makes m the model in force. What is known of checks and services that
// both models have stays known.
func (l *loop) adopt(m *model, now time.Time) {
	l.m, l.loaded = m, now
	reported := m.reportChecks()
	l.d.reported.Store(&reported)
	l.byCheck = map[string][]*service{}
	l.byName = map[string]*service{}
	l.outcomes = map[string]checks.Outcome{}
	l.states, l.dues = map[string]services.State{}, map[string]time.Time{}
	l.wanted = nil
	trackers := map[string]*services.Tracker{}
	comps := map[string]*checks.Composition{}
	for _, s := range m.services {
		comps[s.name] = checks.NewComposition(s.term, s.pool)
		if old := l.comps[s.name]; old != nil {
			comps[s.name].Inherit(old)
		}
		l.byName[s.name] = s
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
	l.trackers, l.comps = trackers, comps
	for id := range l.checks {
		if l.byCheck[id] == nil && !m.watches(id) {
			delete(l.checks, id)
		}
	}
	l.silence()
	l.forget()
	l.observeLinks(now)
	for _, s := range m.services {
		l.observe(s, now)
	}
}

// forget drops what is known of services and links that are no longer
// configured.
func (l *loop) forget() {
	gone := func(name string) bool { return l.byName[name] == nil }
	maps.DeleteFunc(l.acts, func(name string, _ acting) bool { return gone(name) })
	maps.DeleteFunc(l.leaving, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(l.exported, func(name string, _ export) bool { return gone(name) })
	maps.DeleteFunc(l.vips, func(name string, _ map[netip.Prefix]announce.VIPStatus) bool { return gone(name) })
	maps.DeleteFunc(l.plan, func(name string, _ services.Decision) bool { return gone(name) })
	maps.DeleteFunc(l.degraded, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(l.undecided, func(name string, _ bool) bool { return gone(name) })
	maps.DeleteFunc(l.links, func(name string, _ watched) bool {
		return !slices.ContainsFunc(l.m.links, func(k *link) bool { return k.conf.Name == name })
	})
	if l.m.overload == "" {
		l.overload = watched{}
	}
}

// run is the event loop. It returns when the daemon is to end: everything is
// withdrawn then, or the time for it is over.
func (l *loop) run(ctx context.Context, stop, reload <-chan struct{}) error {
	defer close(l.stopped)
	defer l.d.pulse.end()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	l.turned = time.Now()
	l.decide(l.turned)
	for l.phase != phaseDone {
		l.d.turns.Add(1)
		select {
		case <-ctx.Done():
			return nil
		case e := <-l.d.runner.Events():
			l.noteStall(time.Now())
			l.takeEvents(e)
		case <-l.d.announcer.Changed():
			l.noteStall(time.Now())
			l.watchRoutes(time.Now())
		case <-l.peers():
			l.noteStall(time.Now())
			l.decide(time.Now())
		case <-l.bfdChanged():
			l.noteStall(time.Now())
			l.watchBFD(time.Now())
		case <-l.sighted():
			l.noteStall(time.Now())
			l.decide(time.Now())
		case <-l.traced():
			l.noteStall(time.Now())
			l.decide(time.Now())
		case h := <-l.heard:
			l.meet(h, time.Now())
		case f := <-l.ask:
			f()
		case <-reload:
			l.reload() //nolint:errcheck // it is in the journal, and in status
		case <-stop:
			l.stop(time.Now())
		case <-l.timer.C:
			l.noteStall(time.Now())
			l.decide(time.Now())
		case <-ticker.C:
			l.noteStall(time.Now())
			l.tick(time.Now())
		}
	}
	return nil
}

// stallAfter is how long the process must have stood still for the others to
// have taken over what it held.
const stallAfter = 2 * time.Second

// noteStall is called at every turn of the loop, which the ticker makes turn
// many times a second. After a longer silence (SIGSTOP, a paused virtual
// machine) nothing this node holds is its own any more: it goes on trial before
// it handles anything, so that what others took over stays there.
func (l *loop) noteStall(now time.Time) {
	gap := now.Sub(l.turned)
	l.turned = now
	if gap < stallAfter {
		return
	}
	l.journal.add(control.Event{Time: now, Kind: "daemon", Subject: l.m.self.Name, What: "stood still", Detail: gap.String()})
	for _, t := range l.trackers {
		t.Distrust(now)
	}
	l.decide(now)
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

// traced receives a value when a routing daemon changed the kernel's route for
// a VIP.
func (l *loop) traced() <-chan struct{} {
	if !l.m.viaKernel || l.d.cluster == nil {
		return nil
	}
	return l.d.world.Sighted()
}
