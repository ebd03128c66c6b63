package services

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Decide says for every service which nodes announce it, and what Self does.
// It is pure: the same inputs give the same candidates on every node, in
// whatever order they come.
func Decide(in Inputs) Plan {
	d := decider{in: in, nodes: make(map[string]Node, len(in.Nodes)), load: map[string]int{}}
	for _, n := range in.Nodes {
		d.nodes[n.Name] = n
	}
	decided := make(map[string]Decision, len(in.Services))
	for _, s := range byPriority(in.Services) {
		decided[s.Name] = d.decide(s)
	}
	plan := Plan{Decisions: make([]Decision, 0, len(in.Services))}
	for _, s := range in.Services {
		plan.Decisions = append(plan.Decisions, decided[s.Name])
	}
	return plan
}

// byPriority returns the services in the order in which they are assigned, so
// that capacity goes to what matters first.
func byPriority(all []Service) []Service {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Service) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

// decider is one run of Decide.
type decider struct {
	in    Inputs
	nodes map[string]Node
	load  map[string]int // services assigned besides the main one, by node
}

func (d *decider) decide(s Service) Decision {
	all := d.candidates(s)
	out := Decision{Service: s.Name, Candidates: make([]Candidate, 0, len(all))}
	var own []Candidate // of the group that Self belongs to
	for _, group := range groups(s, all) {
		d.choose(s, group)
		out.Candidates = append(out.Candidates, group...)
		if place(group, d.in.Self) >= 0 {
			own = group
		}
	}
	d.verdict(s, own, &out)
	return out
}

// groups splits the candidates by site when the service wants announcers in
// each, in the order in which the sites first occur.
func groups(s Service, all []Candidate) [][]Candidate {
	if !s.PerSite {
		return [][]Candidate{all}
	}
	var out [][]Candidate
	at := map[string]int{}
	for _, c := range all {
		i, ok := at[c.Site]
		if !ok {
			i = len(out)
			at[c.Site] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	return out
}

// choose sorts a group, best first, and marks the announcers.
func (d *decider) choose(s Service, group []Candidate) {
	slices.SortStableFunc(group, compare)
	want := s.Announcers
	if want == 0 {
		want = len(group)
	}
	rank := 0
	for i := range group {
		c := &group[i]
		switch {
		case !c.Usable():
		case rank < want:
			c.Chosen, c.Rank = true, rank
			rank++
			if c.Place > 0 {
				d.load[c.Node]++
			}
		default:
			code, why := CodeBetterNode, fmt.Sprintf("%d of %d announcers come before it: %s", rank, want, names(group[:i]))
			if c.Readiness == Standby && c.Reason.Code != CodeHealthy { // that is why they come before it
				code, why = c.Reason.Code, c.Reason.Evidence+"; "+why
			}
			c.Reason = Reason{code, why}
		}
	}
}

// compare is the order of candidates: what an operator pinned, then readiness,
// then who holds the service where that counts, then room, then the order.
func compare(a, b Candidate) int {
	return cmp.Or(
		first(a.pinned && a.Usable(), b.pinned && b.Usable()),
		cmp.Compare(b.Readiness, a.Readiness),
		first(a.keeps, b.keeps),
		first(!a.full, !b.full),
		cmp.Compare(a.Place, b.Place),
	)
}

// first sorts what holds before what does not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// names lists the chosen ones.
func names(cands []Candidate) string {
	var out []string
	for _, c := range cands {
		if c.Chosen {
			out = append(out, c.Node)
		}
	}
	return strings.Join(out, ", ")
}

// place returns where a node stands among the candidates, -1 for nowhere.
func place(cands []Candidate, node string) int {
	return slices.IndexFunc(cands, func(c Candidate) bool { return c.Node == node })
}
