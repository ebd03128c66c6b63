package daemon

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"rhid/checks"
	"rhid/internal/control"
	"rhid/services"
)

// takeEvents handles e and all that wait behind it, and decides once. People
// are told after the routers.
func (l *loop) takeEvents(e checks.Event) {
	now := time.Now()
	touched := map[string]bool{}
	var all []checks.Event
	for more := true; more; {
		all = append(all, e)
		l.checks[e.ID] = knownOf(e)
		for _, s := range l.byCheck[e.ID] {
			touched[s.name] = true
		}
		select {
		case e = <-l.d.runner.Events():
		default:
			more = false
		}
	}
	maps.Copy(touched, l.observeLinks(now))
	for name := range touched {
		l.observe(l.byName[name], now)
	}
	l.decideOf(touched, now)
	for _, e := range all {
		l.journal.add(control.Event{
			Time: e.At, Kind: "check", Subject: e.ID, What: whatOf(e),
			Code: string(e.Result.Cause), Detail: e.Why,
		})
	}
	l.tell()
}

// decide makes the decision for all services.
func (l *loop) decide(now time.Time) {
	l.warmUp(now)
	l.trustAgain()
	l.hearExports(now)
	l.decideOf(nil, now)
	l.tell()
}

// decideOf makes the decision for the services that are touched, nil for all,
// and hands the outcome to the announcer, which compares it with what is
// there. Services depend on each other only through the capacity of nodes:
// where that is limited, all are decided.
func (l *loop) decideOf(touched map[string]bool, now time.Time) {
	if l.m.limited {
		touched = nil
	}
	for _, s := range l.of(touched) {
		st, due := l.trackers[s.name].State(now)
		st.Depends = dependsOf(l.outcomes[s.name].Blame)
		l.states[s.name] = l.spared(s, l.routable(s, st))
		delete(l.dues, s.name)
		if due = sooner(due, l.outcomes[s.name].Next); !due.IsZero() {
			l.dues[s.name] = due
		}
	}
	in := l.inputs(now, touched)
	l.rearm(now) // after the witnesses were heard, who may be waiting for something to settle
	plan := services.Decide(in)
	for _, dec := range plan.Decisions {
		l.news = append(l.news, change{l.plan[dec.Service], dec, now})
		l.plan[dec.Service] = dec
		delete(l.undecided, dec.Service)
		if dec.Verdict == services.Undecided {
			l.undecided[dec.Service] = true
		}
	}
	l.push(touched)
	for _, dec := range plan.Decisions {
		l.note(dec, in.Certainty, now)
	}
}

// of returns the services of those names, nil for all.
func (l *loop) of(names map[string]bool) []*service {
	if names == nil {
		return l.m.services
	}
	some := make([]*service, 0, len(names))
	for name := range names {
		if s := l.byName[name]; s != nil {
			some = append(some, s)
		}
	}
	return some
}

// change is a decision to be told, and the one before it.
type change struct {
	old, now services.Decision
	at       time.Time
}

// tell tells people and the other nodes what was decided.
func (l *loop) tell() {
	for _, c := range l.news {
		l.noteVerdict(c.old, c.now, c.at)
	}
	l.news = l.news[:0]
	l.publish()
	if len(l.undecided) == 0 {
		l.becomeReady("every service is decided")
	}
}

// rearm sets the timer to when a decision will change by time alone.
func (l *loop) rearm(now time.Time) {
	next := l.due(now)
	for _, due := range l.dues {
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	if !next.IsZero() {
		l.timer.Reset(max(0, next.Sub(now)))
	}
}

// routable makes a node a last resort that fewer routers have a session with
// than its site asks for, once they had or should have: few or none would be
// led to it.
func (l *loop) routable(s *service, st services.State) services.State {
	if l.d.cluster == nil || l.routed || !l.hadRouter || st.Readiness != services.Ready || !slices.Contains(s.conf.Via, viaBGP) {
		return st
	}
	why := "no BGP session is established"
	if l.m.minNeighbours > 1 {
		why = fmt.Sprintf("BGP sessions established: %d, min_neighbours is %d", l.sessionsUp(), l.m.minNeighbours)
	}
	st.Readiness = services.Standby
	st.Reason = services.Reason{Code: services.CodeNoRouter, Evidence: st.Reason.Evidence + "; " + why}
	return st
}

// sessionsUp is the number of established BGP sessions.
func (l *loop) sessionsUp() int {
	n := 0
	for _, up := range l.sessions {
		if up {
			n++
		}
	}
	return n
}

// push gives the announcer the whole wanted set, with what is touched, nil for
// all, made anew.
func (l *loop) push(touched map[string]bool) {
	if touched == nil || l.wanted == nil {
		l.wanted = l.m.wanted(l.plan, l.phase)
	} else {
		l.m.rewant(l.wanted, l.of(touched), l.plan, l.phase)
	}
	l.d.announcer.Set(l.wanted, len(l.undecided) == 0)
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
