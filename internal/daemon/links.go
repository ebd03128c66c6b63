package daemon

import (
	"slices"
	"strings"
	"time"

	"rhid/checks"
	"rhid/internal/config"
	"rhid/internal/control"
	"rhid/services"
)

// Effects of a link that is down, as in its configuration.
const (
	effectDown    = "down"
	effectStandby = "standby"
)

// link is a path that this node depends on.
type link struct {
	conf    config.Link
	members []string // IDs of its checks, one for each address
	blame   checks.Dependency
}

// watched is what the loop knows of a link, or of the node's overload.
type watched struct {
	state  checks.State
	since  time.Time
	detail string
}

// addLinks builds this node's links and the check of its overload.
func (m *model) addLinks(specs map[string]bool) error {
	for _, c := range m.cfg.LinksOf(m.self.Name) {
		check := m.cfg.CheckOfLink(&c)
		l := &link{conf: c, blame: check.Depends()}
		targets := c.Addresses
		if targets == nil {
			targets = []string{check.Address}
		}
		for _, t := range targets {
			spec, err := m.newSpec("link:"+c.Name, check, t, "")
			if err != nil {
				return err
			}
			spec.Rules.Link = checks.Link{Size: c.Window, MaxLoss: c.MaxLoss, MaxDelay: c.MaxDelay}
			l.members = append(l.members, spec.ID)
			m.specs = append(m.specs, spec)
		}
		m.links = append(m.links, l)
	}
	name, check := m.cfg.CheckOfOverload()
	if check == nil {
		return nil
	}
	spec, err := m.newSpec(name, check, check.Address, "")
	if err != nil {
		return err
	}
	m.overload = spec.ID
	if !specs[spec.ID] { // a service may use it, too
		m.specs = append(m.specs, spec)
	}
	return nil
}

// observeLinks works out the links and the overload from their checks, and
// returns the services that depend on what changed.
func (l *loop) observeLinks(now time.Time) map[string]bool {
	touched := map[string]bool{}
	for _, k := range l.m.links {
		was, is := l.links[k.conf.Name], l.judgeLink(k)
		if is.since = was.since; is.state != was.state {
			is.since = now
		}
		l.links[k.conf.Name] = is
		if is.state != was.state {
			l.linkChanged(k, was.state, is, now, touched)
		}
	}
	if l.m.overload != "" {
		l.observeOverload(now, touched)
	}
	return touched
}

// judgeLink joins the states of a link's checks.
func (l *loop) judgeLink(k *link) watched {
	if len(k.members) == 1 {
		seen := l.checks[k.members[0]]
		return watched{state: seen.state, detail: seen.detail}
	}
	pool := checks.Pool{Low: checks.Quorum(k.conf.MinHealthy)}
	for _, id := range k.members {
		_, target, _ := strings.Cut(id, "@")
		pool.Servers = append(pool.Servers, checks.Server{ID: target})
	}
	each := checks.Term{Op: checks.OpPool, Of: []checks.Term{{Check: k.conf.Name}}}
	out := checks.NewComposition(each, pool).Judge(func(_ string, i int) checks.Member {
		seen := l.checks[k.members[i]]
		return checks.Member{State: seen.state, Why: seen.detail}
	}, time.Time{})
	return watched{state: out.State, detail: out.Detail}
}

// linkChanged tells of a link that came up or went down, and notes which
// services depend on it. Those that were on standby for it go on trial like
// after any failure, so that they do not come and go with the link.
func (l *loop) linkChanged(k *link, was checks.State, is watched, now time.Time, touched map[string]bool) {
	for _, s := range l.m.services {
		if k.conf.Effect != effectDown && k.conf.Effect != effectStandby || !k.conf.Concerns(s.conf) {
			continue
		}
		touched[s.name] = true
		if was == checks.Down && k.conf.Effect == effectStandby {
			l.trackers[s.name].Distrust(now)
		}
	}
	code := ""
	if is.state == checks.Down {
		code = string(services.CodeLinkDown)
	}
	l.journal.add(control.Event{Time: now, Kind: "link", Subject: k.conf.Name, What: is.state.String(), Code: code, Detail: is.detail})
}

// observeOverload works out whether this node is overloaded.
func (l *loop) observeOverload(now time.Time, touched map[string]bool) {
	seen, was := l.checks[l.m.overload], l.overload
	if l.overload = (watched{seen.state, was.since, seen.detail}); seen.state == was.state {
		return
	}
	l.overload.since = now
	if seen.state != checks.Down && was.state != checks.Down {
		return
	}
	what, code := "overloaded", string(services.CodeOverloaded)
	if seen.state != checks.Down {
		what, code = "no longer overloaded", ""
	}
	for _, s := range l.m.services {
		touched[s.name] = true
		if was.state == checks.Down && !l.acts[s.name].announcing() {
			l.trackers[s.name].Distrust(now)
		}
	}
	l.journal.add(control.Event{Time: now, Kind: "node", Subject: l.m.self.Name, What: what, Code: code, Detail: seen.detail})
}

// lostLink returns a link with the given effect that is down and that the
// service depends on, nil where there is none.
func (l *loop) lostLink(s *service, effect string) *link {
	for _, k := range l.m.links {
		if k.conf.Effect == effect && k.conf.Concerns(s.conf) && l.links[k.conf.Name].state == checks.Down {
			return k
		}
	}
	return nil
}

// whyLost is a link that is down as the reason of a service's readiness.
func (l *loop) whyLost(k *link) services.Reason {
	return services.Reason{Code: services.CodeLinkDown, Evidence: "link " + k.conf.Name + " is down: " + l.links[k.conf.Name].detail}
}

// spared makes this node a last resort for a service when a link is down that
// says so, and, when it is overloaded, for a service that it does not announce:
// what it has it keeps.
func (l *loop) spared(s *service, st services.State) services.State {
	if st.Readiness != services.Ready {
		return st
	}
	k := l.lostLink(s, effectStandby)
	switch {
	case k != nil:
		st.Readiness, st.Reason = services.Standby, l.whyLost(k)
	case l.overload.state == checks.Down && !l.acts[s.name].announcing():
		st.Readiness = services.Standby
		st.Reason = services.Reason{Code: services.CodeOverloaded, Evidence: "overloaded, and takes nothing more over: " + l.overload.detail}
	}
	return st
}

// watches says whether a link or the overload needs a check.
func (m *model) watches(id string) bool {
	return m.overload == id && id != "" || slices.ContainsFunc(m.links, func(k *link) bool { return slices.Contains(k.members, id) })
}

// linkStatus is the links for `rhid status`; those a service depends on, or
// all for nil.
func (l *loop) linkStatus(s *service) []control.Link {
	out := []control.Link{}
	for _, k := range l.m.links {
		if s != nil && !k.conf.Concerns(s.conf) {
			continue
		}
		w := l.links[k.conf.Name]
		c := control.Link{
			Name: k.conf.Name, Effect: k.conf.Effect, Backends: k.conf.Backends,
			State: w.state, Since: w.since, Probes: []control.LinkProbe{},
		}
		for _, id := range k.members {
			if st, ok := l.d.runner.StatusOf(id); ok {
				c.Probes = append(c.Probes, control.LinkProbe{Target: st.Target, State: st.State, Detail: st.Why, Window: st.Link})
			}
		}
		out = append(out, c)
	}
	return out
}

// overloadStatus is the node's overload, nil where nothing looks at it.
func (l *loop) overloadStatus() *control.Overload {
	if l.m.overload == "" {
		return nil
	}
	o := &control.Overload{State: l.overload.state, Since: l.overload.since, Detail: l.overload.detail}
	if st, ok := l.d.runner.StatusOf(l.m.overload); ok {
		o.Detail = st.Why
	}
	return o
}

// linkAlarms are the links that are down, and the node's overload.
func (l *loop) linkAlarms() []control.Alarm {
	var out []control.Alarm
	for _, k := range l.m.links {
		if w := l.links[k.conf.Name]; w.state == checks.Down {
			out = append(out, control.Alarm{Code: string(services.CodeLinkDown), What: k.conf.Name, Since: w.since, Detail: w.detail})
		}
	}
	if w := l.overload; w.state == checks.Down {
		out = append(out, control.Alarm{
			Code: string(services.CodeOverloaded), What: l.m.self.Name, Since: w.since,
			Detail: strings.TrimSuffix("it takes nothing more over: "+w.detail, ": "),
		})
	}
	return out
}
