package services

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// verdict is what Self does for a service, given everybody's place in its
// group.
func (d *decider) verdict(s Service, group []Candidate, out *Decision) {
	i := place(group, d.in.Self)
	if i < 0 {
		out.Verdict = Withdraw
		out.Reason = Reason{CodeNotInOrder, fmt.Sprintf("the order of %s does not name %s", s.Name, d.in.Self)}
		return
	}
	self := group[i]
	out.Everywhere = !slices.ContainsFunc(group, Candidate.Usable)
	out.Draining = d.drained(self, s)
	switch {
	case self.Chosen:
		d.announce(s, group, self, out)
	case self.Readiness == Unknown:
		out.Verdict, out.Reason = Undecided, self.Reason
	case self.state.Announcing:
		d.leave(s, group, self, out)
	default:
		out.Verdict, out.Reason = Withdraw, self.Reason
	}
	if out.Verdict == Hold {
		out.Rank = len(s.Order)
	}
}

// announce is for a node that is chosen: it announces, unless it would take
// over something that another may hold.
func (d *decider) announce(s Service, group []Candidate, self Candidate, out *Decision) {
	out.Verdict, out.Rank = Announce, self.Rank
	out.Reason = Reason{CodeChosen, fmt.Sprintf("%s, rank %d; %s", self.Readiness, self.Rank, self.Reason.Evidence)}
	if self.pinned {
		out.Reason.Code = CodePinned
	}
	if self.state.Announcing || len(s.Order) == 1 {
		return
	}
	if d.in.Certainty == Settling {
		out.Verdict, out.Reason = Undecided, Reason{CodeSettling, "not heard from every node yet"}
		return
	}
	if heard := d.heard(); d.in.Quorum && 2*heard <= len(d.in.Nodes) {
		out.Verdict = Withdraw
		out.Reason = Reason{CodeNoQuorum, fmt.Sprintf("%d of %d nodes are heard, and a minority takes over nothing new", heard, len(d.in.Nodes))}
		return
	}
	if better := waitFor(group, self); better != "" {
		out.Verdict = Undecided
		out.Reason = Reason{CodeSettling, better + " comes first in the order and is still checking"}
	}
}

func (d *decider) heard() int {
	n := 0
	for _, node := range d.in.Nodes {
		if node.Name == d.in.Self || d.in.Views[node.Name].Alive {
			n++
		}
	}
	return n
}

// waitFor names a better placed node that has started together with Self and
// has not come to an answer yet, so that a cold start does not start twice.
func waitFor(group []Candidate, self Candidate) string {
	if !self.fresh {
		return ""
	}
	for _, c := range group {
		if c.Alive && c.fresh && c.Readiness == Unknown && c.Place < self.Place {
			return c.Node
		}
	}
	return ""
}

// leave is for a node that announces and is not chosen.
func (d *decider) leave(s Service, group []Candidate, self Candidate, out *Decision) {
	depends := self.state.Depends
	out.Counts = !self.Usable() && !out.Draining && (depends == DependsShared || out.Everywhere && depends != DependsLocal)
	switch missing := unexported(group); {
	case out.Everywhere && out.Draining && !d.in.Drained[s.Name]:
		out.Verdict, out.Reason = Hold, self.Reason
	case out.Everywhere && !out.Draining:
		d.nobody(s, group, self, out)
	case !self.Usable():
		d.failed(s, self, missing, out)
	case d.in.Expired[s.Name] && !slices.ContainsFunc(group, doubted):
		out.Verdict = Withdraw
		out.Reason = Reason{CodeHandover, "handover_timeout is over; " + self.Reason.Evidence}
	case missing != "":
		out.Verdict = Hold
		out.Reason = Reason{CodeHandover, "announces until these are exported: " + missing}
	case out.Draining && !d.in.Drained[s.Name]:
		out.Verdict, out.Reason = Hold, self.Reason
	default:
		out.Verdict, out.Reason = Withdraw, self.Reason
	}
}

// failed is for a node that announces and is down, while others can serve.
func (d *decider) failed(s Service, self Candidate, missing string, out *Decision) {
	braked := d.in.Budget >= 0 && self.state.Depends != DependsLocal
	switch {
	case out.Counts && d.in.Budget == 0:
		// The others may be about to find out, and then nobody would be left.
		out.Verdict, out.Degraded = Hold, true
		out.Reason = Reason{CodeBrake, "what fails is shared by all nodes, and max_withdrawals is reached; " + self.Reason.Evidence}
	case (s.KeepDown || braked) && missing != "" && !d.in.Expired[s.Name]:
		// What fails here may fail there a moment later: the last holder must
		// not have left by then.
		out.Verdict, out.Degraded = Hold, true
		out.Reason = Reason{CodeHandover, "down, and goes on until these are exported: " + missing + "; " + self.Reason.Evidence}
	default:
		out.Verdict, out.Reason = Withdraw, self.Reason
		d.spend(out)
	}
}

// spend takes a withdrawal that counts off the budget.
func (d *decider) spend(out *Decision) {
	if out.Counts {
		d.in.Budget--
	}
}

// doubted says whether a node is to announce of which nobody knows whether its
// route is in the routers: who announces stays behind it.
func doubted(c Candidate) bool { return c.Chosen && c.doubtful }

// unexported lists the chosen nodes whose route is not in the routers yet.
func unexported(group []Candidate) string {
	var out []string
	for _, c := range group {
		if c.Chosen && !(c.state.Announcing && c.state.Exported) {
			out = append(out, c.Node)
		}
	}
	return strings.Join(out, ", ")
}

// nobody is for a service that no node can serve.
func (d *decider) nobody(s Service, group []Candidate, self Candidate, out *Decision) {
	local := self.state.Depends == DependsLocal
	switch last := lastHolder(group); {
	case s.KeepDown && last == self.Node:
		out.Verdict, out.Rank, out.Degraded = Announce, 0, true
		out.Reason = Reason{CodeKeptDown, "no node can serve, the last holder goes on; " + self.Reason.Evidence}
	case last != "" && last != self.Node && (s.KeepDown || d.in.Budget >= 0 && !local):
		out.Verdict = Withdraw
		out.Reason = Reason{CodeBetterNode, "no node can serve, and " + last + " goes on as the last holder"}
	case d.in.Budget == 0 && !local:
		out.Verdict, out.Rank, out.Degraded = Announce, self.state.Rank, true
		out.Reason = Reason{CodeBrake, "it fails on every node at once, and max_withdrawals is reached; " + self.Reason.Evidence}
	default:
		out.Verdict, out.Reason = Withdraw, self.Reason
		d.spend(out)
	}
}

// lastHolder names the one of the announcing nodes that goes on.
func lastHolder(group []Candidate) string {
	var holders []Candidate
	for _, c := range group {
		if c.Alive && c.state.Announcing {
			holders = append(holders, c)
		}
	}
	if len(holders) == 0 {
		return ""
	}
	return slices.MinFunc(holders, func(a, b Candidate) int {
		return cmp.Or(first(a.state.Exported, b.state.Exported), cmp.Compare(a.state.Rank, b.state.Rank), cmp.Compare(a.Place, b.Place))
	}).Node
}
