package daemon

import (
	"time"

	"rhid/announce"
	"rhid/cluster"
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
	for _, act := range l.acts {
		if act.announcing() {
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
	l.push(nil)
	l.publish()
}

// lastShare is the part of stop.timeout kept for closing the sessions.
const lastShare = 4

// advance moves on to the next phase of the end when the present one is over.
// When the time is nearly up, the daemon ends with what is done.
func (l *loop) advance(now time.Time) {
	reserve := l.m.cfg.Stop.Timeout / lastShare
	switch l.phase {
	case phaseDraining:
		late := now.After(l.d.stopBy.Add(-2 * reserve))
		if now.Sub(l.since) >= l.m.cfg.Stop.DrainTime && (l.handedOver() || late) {
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

// handedOver says that every service this node announces has another node's
// route in the routers, as far as there is one that can serve it.
func (l *loop) handedOver() bool {
	if l.d.cluster == nil {
		return true
	}
	nodes := l.d.cluster.View().Nodes
	for name, act := range l.acts {
		if act.announcing() && !takenOver(name, l.m.self.Name, nodes) {
			return false
		}
	}
	return true
}

func takenOver(service, self string, nodes []cluster.NodeView) bool {
	able := false
	for _, n := range nodes {
		if n.Name == self || n.Liveness != cluster.Alive || n.State == nil {
			continue
		}
		s := n.State.Services[service]
		if s.Announcing && s.Exported > 0 {
			return true
		}
		able = able || s.Readiness == services.Ready.String() || s.Readiness == services.Standby.String()
	}
	return !able
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
