package daemon

import (
	"time"

	"rhid/announce"
	"rhid/internal/control"
	"rhid/services"
)

// stop begins the end: drain, withdraw, end. A second stop skips the drain.
func (l *loop) stop(now time.Time) {
	switch l.phase {
	case phaseRunning:
		l.d.notify.stopping()
		l.enter(phaseDraining, now)
		if !l.announcing() {
			l.enter(phaseWithdrawing, now)
		}
	case phaseDraining:
		l.enter(phaseWithdrawing, now)
	default:
		l.enter(phaseDone, now)
	}
}

func (l *loop) announcing() bool {
	for _, d := range l.plan {
		if d.Verdict == services.Announce {
			return true
		}
	}
	return false
}

func (l *loop) enter(p phase, now time.Time) {
	if l.phase == phaseRunning {
		l.d.stopBy = now.Add(l.m.cfg.Stop.Timeout)
	}
	l.phase, l.since = p, now
	l.journal.add(control.Event{Time: now, Kind: "daemon", Subject: l.m.self.Name, What: p.String()})
	l.push(true)
}

// lastShare is the part of stop.timeout kept for closing the sessions.
const lastShare = 4

// advance moves on to the next phase of the end when the present one is over.
// When the time is nearly up, the daemon ends with what is done.
func (l *loop) advance(now time.Time) {
	reserve := l.m.cfg.Stop.Timeout / lastShare
	switch l.phase {
	case phaseDraining:
		if now.Sub(l.since) >= l.m.cfg.Stop.DrainTime {
			l.enter(phaseWithdrawing, now)
		}
	case phaseWithdrawing:
		left := l.stillThere()
		if left == "" {
			l.enter(phaseDone, now)
		} else if now.After(l.d.stopBy.Add(-reserve)) {
			l.journal.add(control.Event{
				Time: now, Kind: "daemon", Subject: l.m.self.Name, What: "gave-up",
				Code: "stop-timeout", Detail: left,
			})
			l.enter(phaseDone, now)
		}
	}
}

// stillThere names a VIP that has not left yet, or returns "". The announcer
// may not have taken the last goal over yet: it must say so of every VIP.
func (l *loop) stillThere() string {
	status := map[string]announce.VIPStatus{}
	for _, v := range l.d.announcer.Status() {
		status[v.Prefix.String()] = v
	}
	for _, want := range l.m.wanted(l.plan, l.phase) {
		v, ok := status[want.Prefix.String()]
		if !ok || want.Action == announce.Leave {
			continue
		}
		if v.Action != want.Action {
			return want.Prefix.String() + ": the withdraw has not begun"
		}
		for target, st := range v.Routes {
			if !st.Released() || st.Wanted {
				return want.Prefix.String() + " in " + target + ": " + placesText(st.Places)
			}
		}
		if v.Local.Here && want.Bind == announce.BindAnnouncing {
			return want.Prefix.String() + " is still local"
		}
	}
	return ""
}
