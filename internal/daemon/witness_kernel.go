package daemon

import (
	"net/netip"
	"slices"
	"time"

	"rhid/announce/kernel"
	"rhid/cluster"
	"rhid/services"
)

// routeSettle is how long another node's route must be gone from the kernel
// before it counts as lost. While OSPF converges a daemon may take a route out
// and put it in again: FRR and BIRD do both within one run of SPF, so that the
// gap is of some milliseconds, and two runs are at most 50 ms apart with the
// timers that the manual asks for.
const routeSettle = 150 * time.Millisecond

// kernelWitness is the second witness where a routing daemon beside rhid speaks
// OSPF: the kernel's table has the network's route to whichever node announces
// a VIP. It cannot say which node that is, so it testifies only while exactly one
// other node says that it announces, and while this node does not: a node
// that announces sees its own route only.
//
// A node that took over therefore cannot see whether the other's route is back.
// It goes on for doubtAfter as if it were not; then the route is doubtful: the
// other node is trusted again, and this one goes on behind it, at the worst rank,
// which harms nobody, whoever of the two is right. After as long again it leaves
// for a moment and looks. Where there is still no route it takes over again, and
// takes twice as long until the next look, and so on, maxDoubts times.
//
// That a route is still there proves less than with BGP. Measured with timers
// of no delay and a link that is cut: FRR and BIRD take the routes of a dead host
// out after 1 to 2 s (FRR calculates external routes once a second, BIRD has a
// tick of one), and gossip has found out after half a second. So a route that is
// there holds nothing up by default (kernel.witness_hold).
type kernelWitness struct {
	traces map[sightKey]*trace
}

// doubtAfter is how long after a loss the other node is trusted again.
const doubtAfter = 5 * time.Second

// maxDoubts bounds how often the time between two looks doubles.
const maxDoubts = 8

// trace is what the kernel has shown of one node's route.
type trace struct {
	had     bool      // it was there
	missing time.Time // since when it is not, zero while it is
	lost    time.Time // when it counted as lost, zero when it does not
	looking bool      // this node leaves, or has left, to look
	doubts  int       // looks in vain
}

func newKernelWitness() *kernelWitness { return &kernelWitness{traces: map[sightKey]*trace{}} }

// vantage is from where this node looks for another's route.
type vantage struct {
	own   bool // it announces the service itself
	alive bool // gossip hears the other node
	other bool // the routing daemon has routes for something else
}

// hear says what the kernel shows of the other nodes' routes, by node and
// service.
func (w *kernelWitness) hear(l *loop, nodes []cluster.NodeView, seen kernel.Sightings, now time.Time) map[string]map[string]services.Witness {
	out := map[string]map[string]services.Witness{}
	for _, s := range l.m.services {
		if !slices.Contains(s.conf.Via, viaKernel) {
			continue
		}
		holder, ok := soleHolder(l.m.self.Name, s.name, nodes)
		for _, n := range nodes {
			if !ok || n.Name != holder.Name {
				w.forget(n.Name, s)
			}
		}
		if !ok {
			continue
		}
		v := vantage{own: l.acts[s.name].announcing(), alive: holder.Liveness == cluster.Alive}
		said := w.hearOf(holder.Name, s, v, seen, now)
		if said == services.SeesRoute && !v.alive && now.Sub(holder.Since) >= l.m.cfg.Kernel.WitnessHold {
			said = services.Abstains
		}
		if out[holder.Name] == nil {
			out[holder.Name] = map[string]services.Witness{}
		}
		out[holder.Name][s.name] = said
	}
	return out
}

// soleHolder finds the one other node that says it announces a service.
func soleHolder(self, service string, nodes []cluster.NodeView) (cluster.NodeView, bool) {
	var found []cluster.NodeView
	for _, n := range nodes {
		if n.Name == self || n.State == nil || n.Liveness == cluster.Left {
			continue
		}
		if st := n.State.Services[service]; st.Announcing && st.Exported > 0 {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return cluster.NodeView{}, false
	}
	return found[0], true
}

// forget drops what is known of a node that does not announce a service, or
// not alone: it says nothing of its next announcement.
func (w *kernelWitness) forget(node string, s *service) {
	for _, p := range s.conf.VIPs {
		delete(w.traces, sightKey{node, p})
	}
}

// hearOf joins what is known of a service's VIPs: a node has its route if any
// VIP has one.
func (w *kernelWitness) hearOf(node string, s *service, v vantage, seen kernel.Sightings, now time.Time) services.Witness {
	said := map[services.Witness]bool{}
	for _, p := range s.conf.VIPs {
		key := sightKey{node, p}
		if w.traces[key] == nil {
			w.traces[key] = new(trace)
		}
		v.other = othersOf(seen, p) > 0
		said[w.traces[key].look(len(seen.VIPs[p]) > 0, v, now)] = true
	}
	for _, first := range []services.Witness{services.SeesRoute, services.RouteGone, services.RouteDoubtful} {
		if said[first] {
			return first
		}
	}
	return services.Abstains
}

// othersOf counts the routing daemon's other routes of a VIP's family.
func othersOf(seen kernel.Sightings, p netip.Prefix) int {
	if p.Addr().Is4() {
		return seen.IPv4
	}
	return seen.IPv6
}

// look takes in whether the route is there now.
func (k *trace) look(here bool, v vantage, now time.Time) services.Witness {
	switch {
	case v.own && k.lost.IsZero():
		k.missing = time.Time{}
		k.had = k.had && k.looking
		return services.Abstains
	case v.own:
		return k.doubt(v, now)
	case here:
		*k = trace{had: true}
		return services.SeesRoute
	case !v.other: // the daemon beside rhid has lost its neighbours
		*k = trace{}
		return services.Abstains
	case !k.had:
		return services.Abstains
	case !k.lost.IsZero():
		return services.RouteGone
	case k.missing.IsZero():
		k.missing = now
	}
	if now.Sub(k.missing) < routeSettle {
		return services.Abstains
	}
	if k.looking {
		k.doubts++
	}
	k.lost, k.looking = now, false
	return services.RouteGone
}

// doubt says how a lost route stands that this node's own hides.
func (k *trace) doubt(v vantage, now time.Time) services.Witness {
	switch age := now.Sub(k.lost); {
	case age < doubtAfter || !v.alive:
		return services.RouteGone
	case age < k.patience():
		return services.RouteDoubtful
	default:
		k.lost, k.missing, k.looking = time.Time{}, time.Time{}, true
		return services.Abstains
	}
}

// patience is how long after the loss this node leaves to look.
func (k *trace) patience() time.Duration {
	return (2 * doubtAfter) << min(k.doubts, maxDoubts)
}

// due tells take all times at which the testimony may change by time alone.
func (w *kernelWitness) due(take func(time.Time)) {
	for _, k := range w.traces {
		if !k.missing.IsZero() && k.lost.IsZero() {
			take(k.missing.Add(routeSettle))
		}
		if !k.lost.IsZero() {
			take(k.lost.Add(doubtAfter))
			take(k.lost.Add(k.patience()))
		}
	}
}

// joined is what two witnesses say together: that a route is there outweighs
// that it is gone.
func joined(a, b map[string]map[string]services.Witness) map[string]map[string]services.Witness {
	if a == nil {
		return b
	}
	for node, of := range b {
		if a[node] == nil {
			a[node] = of
			continue
		}
		for name, said := range of {
			if was := a[node][name]; was == services.Abstains || said == services.SeesRoute {
				a[node][name] = said
			}
		}
	}
	return a
}
