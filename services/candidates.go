package services

import "fmt"

// candidates returns the nodes of the service's order, each with what the
// decision takes it for and why.
func (d *decider) candidates(s Service) []Candidate {
	out := make([]Candidate, 0, len(s.Order))
	for i, name := range s.Order {
		node, view := d.nodes[name], d.in.Views[name]
		st := view.Services[s.Name]
		c := Candidate{
			Node: name, Site: node.Site, Place: i, Alive: view.Alive,
			Readiness: st.Readiness, Reason: st.Reason, state: st, fresh: view.Fresh,
			pinned: d.in.Intents.Pins[s.Name] == name,
			full:   i > 0 && node.Capacity > 0 && d.load[name] >= node.Capacity,
		}
		if st.Readiness == Unknown && st.Reason.Code == "" {
			c.Reason = Reason{CodeNotChecked, "the node has not said yet whether it can serve"}
		}
		d.weigh(&c, s, view)
		d.drain(&c, s)
		c.keeps = c.Usable() && st.Announcing && (s.Sticky || d.in.Intents.Frozen)
		if d.in.Intents.Frozen && c.keeps {
			c.Readiness = Ready // nothing that serves is displaced
		}
		if c.pinned && c.Usable() {
			c.Reason = Reason{CodePinned, "pinned to this node; " + c.Reason.Evidence}
		}
		out = append(out, c)
	}
	return out
}

// weigh hears the two witnesses of a node's death: gossip and the routers.
func (d *decider) weigh(c *Candidate, s Service, view View) {
	seen := view.Witness[s.Name]
	switch {
	case !view.Alive && view.Lost && seen == SeesRoute && c.state.Announcing:
		c.Reason = Reason{CodeRouteSeen, "gossip lost the node, but the routers still have its route: nothing moves yet"}
	case !view.Alive:
		c.Readiness = Unknown
		c.Reason = Reason{CodeNodeAbsent, "the node is not there"}
	case seen == RouteDoubtful && c.state.Announcing:
		c.doubtful, c.state.Exported = true, false
	case seen == RouteGone && c.state.Announcing:
		c.Readiness = Down
		c.Reason = Reason{CodeRouteGone, "every router lost the node's route while it should announce"}
	}
}

// drain makes a node that an operator drains a last resort, and takes a whole
// service down that is drained everywhere.
func (d *decider) drain(c *Candidate, s Service) {
	in := d.in.Intents
	switch {
	case !c.Usable():
	case in.DrainServices[s.Name]:
		c.Readiness, c.Reason = Down, Reason{CodeDrained, "the service is drained on every node"}
	case in.DrainNodes[c.Node], in.DrainSites[c.Site] && c.Site != "", in.DrainServices[s.Name+"@"+c.Node]:
		c.Readiness, c.Reason = Standby, Reason{CodeDrained, fmt.Sprintf("drained; %s", c.Reason.Evidence)}
	}
}

// drained says whether an operator drains the service on this node, which
// could serve it.
func (d *decider) drained(c Candidate, s Service) bool {
	in := d.in.Intents
	return c.state.Readiness >= Standby && (in.DrainServices[s.Name] || in.DrainNodes[c.Node] ||
		in.DrainSites[c.Site] && c.Site != "" || in.DrainServices[s.Name+"@"+c.Node])
}
