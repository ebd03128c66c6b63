package daemon

import (
	"fmt"
	"slices"
	"time"

	"rhid/checks"
	"rhid/internal/control"
	"rhid/services"
)

// known is what the loop knows of a check.
type known struct {
	state       checks.State
	degraded    bool
	maintenance bool
	detail      string
}

func knownOf(e checks.Event) known { return known{e.State, e.Degraded, e.Maintenance, e.Why} }

// whatOf is an event of a check in one word.
func whatOf(e checks.Event) string {
	switch {
	case e.Maintenance:
		return "maintenance"
	case e.Degraded:
		return "degraded"
	default:
		return e.State.String()
	}
}

// silence notes that passive checks abstain until they say something else: no
// event tells of that.
func (l *loop) silence() {
	for i := range l.m.specs {
		s := &l.m.specs[i]
		if _, heard := l.checks[s.ID]; s.Passive && !heard {
			l.checks[s.ID] = known{state: checks.Abstains, detail: "no evidence yet"}
		}
	}
}

// id is the check of one of a service's servers, or of the node where server
// is below 0.
func (s *service) id(check string, server int) string {
	return s.ids[check][max(server, 0)]
}

// observe works out the health of one service from its checks and the links
// that it cannot do without.
func (l *loop) observe(s *service, now time.Time) {
	out := l.comps[s.name].Judge(func(check string, server int) checks.Member {
		id := s.id(check, server)
		k := l.checks[id]
		return checks.Member{ID: id, State: k.state, Why: k.detail, Degraded: k.degraded, Maintenance: k.maintenance}
	}, now)
	l.outcomes[s.name] = out
	if !out.Degraded {
		delete(l.degraded, s.name)
	} else if l.degraded[s.name].IsZero() {
		l.degraded[s.name] = now
	}
	h, code := s.health(&out)
	reason := services.Reason{Code: code, Evidence: out.Detail}
	if k := l.lostLink(s, effectDown); k != nil && h >= services.HealthLimited {
		h, reason, out.Blame = services.HealthDown, l.whyLost(k), k.blame
		l.outcomes[s.name] = out
	}
	l.trackers[s.name].Observe(h, reason, now)
}

// health is what an outcome means for the service on this node.
func (s *service) health(out *checks.Outcome) (services.Health, services.Code) {
	switch {
	case out.State == checks.Up && out.Degraded && s.conf.Degraded == "down":
		return services.HealthDown, services.CodeDegraded
	case out.State == checks.Up && out.Degraded && s.conf.Degraded == "standby":
		return services.HealthLimited, services.CodeDegraded
	case out.State == checks.Up:
		return services.HealthUp, services.CodeHealthy
	case out.Maintenance:
		return services.HealthLimited, services.CodeMaintenance
	case out.State == checks.Down && s.conf.Servers != nil:
		return services.HealthDown, services.CodePoolDown
	case out.State == checks.Down:
		return services.HealthDown, services.CodeCheckDown
	default:
		return services.HealthUnknown, services.CodeNotChecked
	}
}

// warmUp looks again at services that change by time alone: a server's slow
// start is over.
func (l *loop) warmUp(now time.Time) {
	for name, out := range l.outcomes {
		if !out.Next.IsZero() && !now.Before(out.Next) {
			l.observe(l.byName[name], now)
		}
	}
}

func dependsOf(d checks.Dependency) services.Dependency {
	switch d {
	case checks.DependsLocal:
		return services.DependsLocal
	case checks.DependsShared:
		return services.DependsShared
	default:
		return services.DependsAuto
	}
}

// sooner is the earlier of two times, of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// degradedAlarms are of services that serve, but not as they should.
func (l *loop) degradedAlarms() []control.Alarm {
	var out []control.Alarm
	for name, since := range l.degraded {
		out = append(out, control.Alarm{Code: "degraded", What: name, Since: since, Detail: l.whyDegraded(l.byName[name])})
	}
	slices.SortFunc(out, func(a, b control.Alarm) int { return slices.Compare([]string{a.What}, []string{b.What}) })
	return out
}

// whyDegraded says which checks make a service degraded.
func (l *loop) whyDegraded(s *service) string {
	for _, id := range s.members {
		if k := l.checks[id]; k.degraded && k.state == checks.Up {
			return fmt.Sprintf("check %s: %s", id, k.detail)
		}
	}
	return l.outcomes[s.name].Detail
}
