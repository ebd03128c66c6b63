package daemon

import (
	"fmt"
	"net/netip"
	"time"

	"rhid/announce"
	"rhid/cluster"
	"rhid/internal/config"
	"rhid/services"
)

// Intent kinds, and the subject of those that are about everything.
const (
	intentDrain    = "drain"
	intentPin      = "pin"
	intentFreeze   = "freeze"
	intentFailback = "failback"
	everything     = "cluster"
)

// acting is what this node does for a service now: the last verdict but those
// that change nothing.
type acting struct {
	verdict services.Verdict
	rank    int
}

func (a acting) announcing() bool { return a.verdict >= services.Hold }

// exportKey names another node's route of a service.
type exportKey struct{ node, service string }

// hearExports notes since when other nodes have said that their routes are in
// the routers. That is said as soon as the router next to them has the route;
// the others need a moment more until they lead there, and a node that withdraws
// in between leaves clients of another data centre without a way.
func (l *loop) hearExports(now time.Time) {
	if l.d.cluster == nil {
		return
	}
	heard := map[exportKey]time.Time{}
	for _, n := range l.d.cluster.View().Nodes {
		if n.State == nil || n.Liveness != cluster.Alive {
			continue
		}
		for name, s := range n.State.Services {
			key := exportKey{n.Name, name}
			if !s.Announcing || s.Exported == 0 {
				continue
			}
			if heard[key] = l.exports[key]; heard[key].IsZero() {
				heard[key] = now
			}
		}
	}
	l.exports = heard
}

// converged says that another node's route has been in the routers for so long
// that all of them lead there.
func (l *loop) converged(node, service string, now time.Time) bool {
	since, ok := l.exports[exportKey{node, service}]
	return ok && now.Sub(since) >= l.m.cfg.Stop.DrainTime
}

// inputs gathers all that the decision on some services depends on at time
// now; nil is all of them.
func (l *loop) inputs(now time.Time, some map[string]bool) services.Inputs {
	in := services.Inputs{
		Self: l.m.self.Name, Nodes: l.m.nodes, Services: l.m.deciding(some),
		Views:   map[string]services.View{l.m.self.Name: l.ownView(now, some)},
		Quorum:  l.m.cfg.Cluster.Partition == "quorum",
		Budget:  l.budget(now),
		Expired: map[string]bool{}, Drained: map[string]bool{},
	}
	for name, since := range l.leaving {
		in.Expired[name] = now.Sub(since) >= l.m.cfg.Cluster.HandoverTimeout
		in.Drained[name] = now.Sub(since) >= l.m.cfg.Stop.DrainTime
	}
	if l.d.cluster == nil {
		return in
	}
	view := l.d.cluster.View()
	in.Certainty = certaintyOf(view.Certainty)
	in.Intents = l.m.intentsOf(view.Intents)
	seen := l.witnessed(view.Nodes, now)
	for _, n := range view.Nodes {
		if n.Name != l.m.self.Name {
			in.Views[n.Name] = l.peerView(n, seen[n.Name], now)
		}
	}
	return in
}

// deciding returns those services of the decision; nil is all of them.
func (m *model) deciding(some map[string]bool) []services.Service {
	if some == nil {
		return m.decide
	}
	out := make([]services.Service, 0, len(some))
	for name := range some {
		if i, ok := m.at[name]; ok {
			out = append(out, m.decide[i])
		}
	}
	return out
}

func (l *loop) ownView(now time.Time, some map[string]bool) services.View {
	v := services.View{Alive: true, Fresh: now.Sub(l.started) < l.settleTimeout(), Services: map[string]services.State{}}
	for _, s := range l.of(some) {
		st, act := l.states[s.name], l.acts[s.name]
		st.Announcing, st.Rank, st.Exported = act.announcing(), act.rank, l.exported[s.name].all
		v.Services[s.name] = st
	}
	return v
}

// settleTimeout is how long after its start a node counts as fresh.
func (l *loop) settleTimeout() time.Duration {
	if d := l.m.cfg.Cluster.SettleTimeout; d > 0 {
		return d
	}
	return settleTime
}

// peerView is what another node says, and what is known of it besides.
func (l *loop) peerView(n cluster.NodeView, seen map[string]services.Witness, now time.Time) services.View {
	v := services.View{
		Alive:    n.Liveness == cluster.Alive,
		Lost:     n.Liveness == cluster.Dead && now.Sub(n.Since) < l.m.cfg.Cluster.WitnessHold,
		Fresh:    now.Sub(n.Since) < l.settleTimeout(),
		Services: map[string]services.State{},
		Witness:  seen,
	}
	if n.State == nil {
		return v
	}
	for name, s := range n.State.Services {
		st := services.State{
			Reason:     services.Reason{Code: services.Code(s.Code), Evidence: s.Evidence},
			Announcing: s.Announcing, Rank: s.Rank, Exported: l.converged(n.Name, name, now),
		}
		if err := st.Readiness.UnmarshalText([]byte(s.Readiness)); err != nil {
			continue // a readiness of a newer version counts as unknown
		}
		v.Services[name] = st
	}
	return v
}

func certaintyOf(c cluster.Certainty) services.Certainty {
	switch c {
	case cluster.Settling:
		return services.Settling
	case cluster.Settled:
		return services.Settled
	case cluster.Isolated:
		return services.Isolated
	default:
		return services.Single
	}
}

// trustAgain lets services take back what an operator said they may, each
// once for each time he said so; one that is not healthy yet has as long as the
// intent stays.
func (l *loop) trustAgain() {
	if l.d.cluster == nil {
		return
	}
	for _, i := range l.d.cluster.View().Intents {
		if i.Kind != intentFailback {
			continue
		}
		for name, t := range l.trackers {
			about := i.Subject == everything || i.Subject == "service:"+name || i.Subject == "service:"+l.byName[name].conf.Of()
			if about && i.Clock > l.followed[name] && t.Trust() {
				l.followed[name] = i.Clock
			}
		}
	}
}

// brakeWindow is the time over which max_withdrawals counts.
const brakeWindow = time.Minute

// budget is how many services may still leave because of what fails on every
// node at once.
func (l *loop) budget(now time.Time) int {
	limit := l.m.cfg.Cluster.MaxWithdrawals
	if limit == 0 || len(l.m.nodes) == 1 {
		return -1
	}
	for len(l.left) > 0 && now.Sub(l.left[0]) >= brakeWindow {
		l.left = l.left[1:]
	}
	return max(0, limit-len(l.left))
}

// note takes over what was decided: what this node does now, since when it has
// been leaving, and what left everywhere. What serves is not on trial, unless it
// may have been taken over without this node's knowing yet.
func (l *loop) note(d services.Decision, c services.Certainty, now time.Time) {
	was := l.acts[d.Service]
	if d.Verdict == services.Undecided {
		return
	}
	if was.announcing() && d.Verdict == services.Withdraw && d.Counts {
		l.left = append(l.left, now)
	}
	l.acts[d.Service] = acting{d.Verdict, d.Rank}
	switch _, leaving := l.leaving[d.Service]; {
	case d.Verdict != services.Hold:
		delete(l.leaving, d.Service)
	case !leaving:
		l.leaving[d.Service] = now
	}
	if d.Verdict == services.Announce && !d.Degraded && !d.Draining && c != services.Settling {
		if t := l.trackers[d.Service]; t != nil {
			t.Trust()
		}
	}
}

// due is when the decision must be made anew by time alone.
func (l *loop) due(now time.Time) time.Time {
	var next time.Time
	take := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, since := range l.leaving {
		take(since.Add(l.m.cfg.Cluster.HandoverTimeout))
		take(since.Add(l.m.cfg.Stop.DrainTime))
	}
	if len(l.left) > 0 {
		take(l.left[0].Add(brakeWindow))
	}
	if l.d.cluster == nil {
		return next
	}
	for _, since := range l.exports {
		take(since.Add(l.m.cfg.Stop.DrainTime))
	}
	l.traces.due(take)
	take(l.started.Add(l.settleTimeout()))
	for _, n := range l.d.cluster.View().Nodes {
		take(n.Since.Add(l.settleTimeout()))
		if n.Liveness == cluster.Dead {
			take(n.Since.Add(l.m.cfg.Cluster.WitnessHold))
			take(n.Since.Add(l.m.cfg.Kernel.WitnessHold))
		}
	}
	return next
}

// export is how far a service's routes have come.
type export struct {
	all    bool // every VIP is present at one place of every backend at the least
	places int  // where the VIP with the fewest is present
	of     int
}

// exportOf looks at the status of a service's VIPs.
func exportOf(s *service, vips map[netip.Prefix]announce.VIPStatus) export {
	out := export{all: true, places: -1}
	for _, prefix := range s.conf.VIPs {
		v := vips[prefix]
		present, of := 0, 0
		for _, target := range s.conf.Via {
			here := 0
			for _, p := range v.Routes[target].Places {
				if p.Host {
					continue
				}
				of++
				if p.State == announce.Present {
					here++
				}
			}
			out.all = out.all && v.Routes[target].Wanted && here > 0
			present += here
		}
		if out.places < 0 || present < out.places {
			out.places, out.of = present, of
		}
	}
	out.places = max(0, out.places)
	return out
}

// publish tells the other nodes what this one is and does.
func (l *loop) publish() {
	if l.d.cluster == nil {
		return
	}
	st := cluster.State{
		Site: l.m.self.Site, Version: l.d.opts.Version, Digest: l.m.digest, Capacity: l.m.self.Capacity,
		Services: make(map[string]cluster.ServiceState, len(l.m.services)),
	}
	for _, s := range l.m.services {
		own, act, ex := l.states[s.name], l.acts[s.name], l.exported[s.name]
		if act.announcing() && s.conf.Order[0] != l.m.self.Name {
			st.Load++
		}
		ss := cluster.ServiceState{
			Readiness: own.Readiness.String(), Code: string(own.Reason.Code), Evidence: own.Reason.Evidence,
			Announcing: act.announcing(), Rank: act.rank, Of: ex.of,
		}
		if ex.all {
			ss.Exported = ex.places
		}
		if l.phase >= phaseWithdrawing {
			ss.Announcing = false
		}
		if l.phase != phaseRunning { // the others take over while this node drains
			ss.Readiness, ss.Code, ss.Evidence = services.Down.String(), string(services.CodeDrained), "the daemon is being stopped"
		}
		st.Services[s.name] = ss
	}
	if err := l.d.cluster.Publish(st); err != nil {
		l.d.log.Error("publishing the own state failed", "error", err)
	}
}

// clusterSettings are those of a node in a cluster of several.
func clusterSettings(m *model) (cluster.Settings, error) {
	c := m.cfg.Cluster
	set := cluster.Settings{
		Cluster: c.Name, Self: m.self.Name, Port: c.Port, Detection: c.Detection,
		SettleTimeout: c.SettleTimeout, Dir: c.StateDir, Nodes: clusterNodes(m.cfg),
	}
	if c.KeyFile == "" {
		return set, nil
	}
	keys, err := cluster.LoadKeys(c.KeyFile)
	if err != nil {
		return set, fmt.Errorf("cluster.key_file: %w", err)
	}
	set.Keys = keys
	set.SaveKeys = func(keys [][]byte) error { return cluster.WriteKeys(c.KeyFile, keys) }
	return set, nil
}

func clusterNodes(cfg *config.Config) []cluster.Node {
	out := make([]cluster.Node, len(cfg.Nodes))
	for i, n := range cfg.Nodes {
		out[i] = cluster.Node{Name: n.Name, Site: n.Site, Address: n.Address}
	}
	return out
}
