package services

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Failure is something to imagine: a node, a whole site, or one service on one
// node that fails, with all its parts.
type Failure struct {
	Kind string // node, site or service
	Name string
	Node string // of a service
}

// ParseFailure reads node:NAME, site:NAME or service:NAME@NODE, and makes sure
// that the names exist in in.
func ParseFailure(text string, in Inputs) (Failure, error) {
	kind, name, ok := strings.Cut(text, ":")
	if !ok {
		return Failure{}, fmt.Errorf("%q is none of node:NAME, site:NAME and service:NAME@NODE", text)
	}
	f := Failure{Kind: kind, Name: name}
	hasNode := func(n string) bool {
		return slices.ContainsFunc(in.Nodes, func(x Node) bool { return x.Name == n })
	}
	switch kind {
	case "node":
		ok = hasNode(name)
	case "site":
		ok = slices.ContainsFunc(in.Nodes, func(x Node) bool { return x.Site == name && name != "" })
	case "service":
		f.Name, f.Node, _ = strings.Cut(name, "@")
		if !hasNode(f.Node) {
			return f, fmt.Errorf("%q: there is no node %q; write service:NAME@NODE", text, f.Node)
		}
		ok = slices.ContainsFunc(in.Services, func(x Service) bool { return x.Is(f.Name) })
	default:
		return f, fmt.Errorf("%q is none of node:NAME, site:NAME and service:NAME@NODE", text)
	}
	if !ok {
		return f, fmt.Errorf("%q: there is no such %s", text, kind)
	}
	return f, nil
}

// Imagine returns in as it would be with the failures, after everything has
// come to rest. in itself does not change.
func Imagine(in Inputs, failures ...Failure) Inputs {
	out := Rested(in)
	for _, f := range failures {
		for _, n := range in.Nodes {
			v := out.Views[n.Name]
			switch {
			case f.Kind == "node" && f.Name == n.Name, f.Kind == "site" && f.Name == n.Site:
				v.Alive, v.Lost = false, false
			case f.Kind == "service" && f.Node == n.Name:
				failService(v.Services, in.Services, f.Name)
			}
			out.Views[n.Name] = v
		}
	}
	return Rested(out)
}

// failService takes a service, or all parts of it, for down in states.
func failService(states map[string]State, all []Service, name string) {
	for _, s := range all {
		if s.Is(name) {
			st := states[s.Name]
			st.Readiness, st.Reason = Down, Reason{CodeCheckDown, "imagined to be down"}
			states[s.Name] = st
		}
	}
}

// Rested returns a copy of in without what passes by itself: nobody waits for
// anybody any more.
func Rested(in Inputs) Inputs {
	out := in
	out.Views = make(map[string]View, len(in.Views))
	for name, v := range in.Views {
		v.Fresh, v.Lost = false, false
		v.Services = maps.Clone(v.Services)
		out.Views[name] = v
	}
	if out.Certainty == Settling {
		out.Certainty = Settled
	}
	return out
}

// Holders names who would announce a service, best first.
func Holders(d Decision) []string {
	var chosen []Candidate
	for _, c := range d.Candidates {
		if c.Chosen {
			chosen = append(chosen, c)
		}
	}
	out := make([]string, len(chosen))
	for i, c := range chosen {
		out[i] = c.Node
	}
	return out
}

// Effect is what failures would do to one service.
type Effect struct {
	Service string   `json:"service"`
	Before  []string `json:"before"` // who announces, best first
	After   []string `json:"after"`
	Moves   bool     `json:"moves"`
	Lost    bool     `json:"lost"`      // nobody is left to announce it
	OneSite bool     `json:"last_site"` // all nodes that could still serve it stand in one site, and before they did not
}

// Outlook is what failures would do to all services.
type Outlook struct {
	Fail     []string `json:"fail"`
	Services []Effect `json:"services"`
	Full     []string `json:"over_capacity"` // nodes that would announce more than their capacity
}

// Foresee compares the plan as it is with the plan after the failures.
func Foresee(in Inputs, names []string, failures ...Failure) Outlook {
	before, after := Decide(Rested(in)), Decide(Imagine(in, failures...))
	out := Outlook{Fail: names, Services: make([]Effect, len(before.Decisions)), Full: []string{}}
	load := map[string]int{}
	for i, b := range before.Decisions {
		a := after.Decisions[i]
		e := Effect{Service: b.Service, Before: Holders(b), After: Holders(a)}
		e.Moves = !slices.Equal(e.Before, e.After)
		e.Lost = len(e.Before) > 0 && len(e.After) == 0
		e.OneSite = len(sites(b)) > 1 && len(sites(a)) == 1
		out.Services[i] = e
		for _, c := range a.Candidates {
			if c.Chosen && c.Place > 0 {
				load[c.Node]++
			}
		}
	}
	for _, n := range in.Nodes {
		if n.Capacity > 0 && load[n.Name] > n.Capacity {
			out.Full = append(out.Full, fmt.Sprintf("%s: %d of %d", n.Name, load[n.Name], n.Capacity))
		}
	}
	return out
}

// sites are those with a node that can serve.
func sites(d Decision) map[string]bool {
	out := map[string]bool{}
	for _, c := range d.Candidates {
		if c.Usable() {
			out[c.Site] = true
		}
	}
	return out
}

// AllWell returns inputs in which every node is there and ready for every
// service, to plan from a configuration alone.
func AllWell(nodes []Node, services []Service) Inputs {
	in := Inputs{Nodes: nodes, Services: services, Views: map[string]View{}, Certainty: Settled, Budget: -1}
	for _, n := range nodes {
		v := View{Alive: true, Services: map[string]State{}}
		for _, s := range services {
			v.Services[s.Name] = State{Readiness: Ready, Reason: Reason{CodeHealthy, "imagined to be well"}}
		}
		in.Views[n.Name] = v
	}
	return in
}
