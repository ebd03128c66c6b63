package daemon

import (
	"net/netip"
	"time"

	"rhid/announce/bgp"
	"rhid/cluster"
	"rhid/internal/config"
	"rhid/services"
)

// witness remembers which routers had which node's route, so that a route that
// was seen and is gone can be told from one that a router never sends back.
type witness struct {
	known map[sightKey]*memory
}

// memory is what the routers have shown of one route. It is worth something
// only as long as the node announces at the same rank: with another rank it is
// another route, which routers may well never send here.
type memory struct {
	rank int             // that the node claimed meanwhile
	had  map[string]bool // routers, by address
	lost bool            // gone once, and not seen since
}

type sightKey struct {
	node   string
	prefix netip.Prefix
}

func newWitness() *witness {
	return &witness{known: map[sightKey]*memory{}}
}

// hear asks the routers which nodes' routes they have: by node and service. A
// route that a router sends back carries the large community
// <asn>:<node id>:<rank> of the node that announces it.
// own is what this node does for each service.
func (w *witness) hear(m *model, own map[string]acting, nodes []cluster.NodeView, sightings map[netip.Prefix][]bgp.Sighting) map[string]map[string]services.Witness {
	out := map[string]map[string]services.Witness{}
	for _, n := range nodes {
		conf, ok := m.cfg.Node(n.Name)
		if !ok || n.Name == m.self.Name {
			continue
		}
		of := map[string]services.Witness{}
		for _, s := range m.services {
			of[s.name] = w.hearOf(*conf, s, claimOf(n, s.name, own[s.name]), sightings)
		}
		out[n.Name] = of
	}
	return out
}

// claim is what a node says of its route, and how this node's own compares.
type claim struct {
	exported bool // it announces, and its routers have the route
	rank     int  // at which it announces
	hidden   bool // this node's own route is as good or better: a router that uses it may not send the other's
}

func claimOf(n cluster.NodeView, service string, own acting) claim {
	if n.State == nil {
		return claim{}
	}
	s := n.State.Services[service]
	return claim{
		exported: s.Announcing && s.Exported > 0, rank: s.Rank,
		hidden: own.announcing() && own.rank <= s.Rank,
	}
}

// hearOf is what the routers say of one node and service: it has a route if
// any VIP of it has one, and has lost it if one was had and none is left.
func (w *witness) hearOf(node config.Node, s *service, c claim, sightings map[netip.Prefix][]bgp.Sighting) services.Witness {
	had, gone := false, false
	for _, p := range s.conf.VIPs {
		key := sightKey{node.Name, p}
		if !c.exported { // what it had in an earlier announcement or session says nothing of the next
			delete(w.known, key)
			continue
		}
		if k := w.known[key]; k == nil || k.rank != c.rank {
			w.known[key] = &memory{rank: c.rank, had: map[string]bool{}}
		}
		switch w.known[key].look(node, c, sightings[p]) {
		case services.SeesRoute:
			had = true
		case services.RouteGone:
			gone = true
		}
	}
	switch {
	case had:
		return services.SeesRoute
	case gone:
		return services.RouteGone
	default:
		return services.Abstains
	}
}

// look compares what the routers send now for one VIP with what they had. A
// router whose session is down, and one that has a path now that is as good,
// abstain; so does one that may use this node's own path: many routers withdraw
// what they had sent to a neighbour when the neighbour's own path is the one they
// use. A route that is gone stays so until it is seen again: this node's own, once
// it has taken over, must not hide that.
func (k *memory) look(node config.Node, c claim, now []bgp.Sighting) services.Witness {
	for _, st := range now {
		rank, mine := rankOf(st, node)
		switch {
		case st.Here && mine:
			k.had[st.Neighbour], k.lost = true, false
			return services.SeesRoute
		case !k.had[st.Neighbour], st.Here && rank >= 0 && rank <= c.rank:
			// It never had the node's route, or one that is as good hides it.
		case c.hidden && !k.lost:
			delete(k.had, st.Neighbour)
		default:
			k.lost = true
		}
	}
	if k.lost {
		return services.RouteGone
	}
	return services.Abstains
}

// rankOf finds the rank in a sighting's large communities, and whether it is
// this node's; -1 where there is none.
func rankOf(st bgp.Sighting, node config.Node) (rank int, mine bool) {
	for _, c := range st.LargeCommunities {
		if c.Global == node.ASN && c.Local1 != statusNode {
			return int(c.Local2), c.Local1 == node.ID
		}
	}
	return -1, false
}

// witnessed asks the routers, and the kernel where a routing daemon beside rhid
// speaks for them.
func (l *loop) witnessed(nodes []cluster.NodeView, now time.Time) map[string]map[string]services.Witness {
	var said map[string]map[string]services.Witness
	if l.d.speaker != nil {
		said = l.witness.hear(l.m, l.acts, nodes, l.d.speaker.Sightings())
	}
	if !l.m.viaKernel {
		return said
	}
	seen, err := l.d.world.Sightings()
	if err != nil {
		l.d.log.Error("looking for other nodes' routes failed", "error", err)
		return said
	}
	return joined(said, l.traces.hear(l, nodes, seen, now))
}
