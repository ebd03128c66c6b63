package services

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// view says of a node that it is alive and what it is for service "s".
func view(r Readiness) View {
	return View{Alive: true, Services: map[string]State{"s": {Readiness: r, Reason: Reason{CodeHealthy, "said so"}}}}
}

// brief is a decision as one line: the announcers by rank, then the verdict.
func brief(d Decision) string {
	var chosen []string
	for _, c := range d.Candidates {
		if c.Chosen {
			chosen = append(chosen, fmt.Sprintf("%s:%d", c.Node, c.Rank))
		}
	}
	return fmt.Sprintf("%v %s %s", chosen, d.Verdict, d.Reason.Code)
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name       string
		order      []string
		announcers int
		views      map[string]View
		want       string
	}{
		{"alone and ready", []string{"a"}, 1, map[string]View{"a": view(Ready)}, "[a:0] announce chosen"},
		{"alone and standby serves all the same", []string{"a"}, 1, map[string]View{"a": view(Standby)}, "[a:0] announce chosen"},
		{"alone and down", []string{"a"}, 1, map[string]View{"a": view(Down)}, "[] withdraw said"},
		{"alone and not checked yet", []string{"a"}, 1, map[string]View{"a": {Alive: true}}, "[] undecided not-checked"},
		{"not in the order", []string{"b"}, 1, map[string]View{"a": view(Ready), "b": view(Ready)}, "[b:0] withdraw not-in-order"},
		{"first in the order", []string{"a", "b"}, 1, map[string]View{"a": view(Ready), "b": view(Ready)}, "[a:0] announce chosen"},
		{"second in the order", []string{"b", "a"}, 1, map[string]View{"a": view(Ready), "b": view(Ready)}, "[b:0] withdraw better-node"},
		{"first is absent", []string{"b", "a"}, 1, map[string]View{"a": view(Ready)}, "[a:0] announce chosen"},
		{"first is only standby", []string{"b", "a"}, 1, map[string]View{"a": view(Ready), "b": view(Standby)}, "[a:0] announce chosen"},
		{"all standby: the order decides", []string{"b", "a"}, 1, map[string]View{"a": view(Standby), "b": view(Standby)}, "[b:0] withdraw better-node"},
		{"warm standby", []string{"b", "a", "c"}, 2, map[string]View{"a": view(Ready), "b": view(Ready), "c": view(Ready)}, "[b:0 a:1] announce chosen"},
		{"plain anycast", []string{"b", "a", "c"}, 0, map[string]View{"a": view(Ready), "b": view(Ready), "c": view(Ready)}, "[b:0 a:1 c:2] announce chosen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n, v := range tt.views {
				if s := v.Services["s"]; s.Readiness == Down {
					v.Services["s"] = State{Readiness: Down, Reason: Reason{"said", "so"}}
					tt.views[n] = v
				}
			}
			plan := Decide(Inputs{
				Budget: -1, Self: "a", Nodes: []Node{{Name: "a"}, {Name: "b"}, {Name: "c"}},
				Services: []Service{{Name: "s", Order: tt.order, Announcers: tt.announcers}}, Views: tt.views,
			})
			if got := brief(plan.Decisions[0]); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Capacity goes to the services with the highest priority, and never keeps a
// node from its main service or leaves a service without a holder.
func TestDecideCapacity(t *testing.T) {
	views := map[string]View{"a": {Alive: true, Services: map[string]State{}}, "b": {Alive: true, Services: map[string]State{}}}
	for _, s := range []string{"own", "x", "y", "z"} {
		views["a"].Services[s] = State{Readiness: Ready}
		if s == "z" {
			views["b"].Services[s] = State{Readiness: Ready}
		}
	}
	plan := Decide(Inputs{
		Budget: -1, Self: "a", Nodes: []Node{{Name: "a", Capacity: 1}, {Name: "b"}}, Views: views,
		Services: []Service{
			{Name: "own", Order: []string{"a", "b"}, Announcers: 1},
			{Name: "x", Order: []string{"b", "a"}, Announcers: 1, Priority: 1},
			{Name: "y", Order: []string{"b", "a"}, Announcers: 1, Priority: 5},
			{Name: "z", Order: []string{"c", "a", "b"}, Announcers: 1},
		},
	})
	var got []string
	for _, d := range plan.Decisions {
		got = append(got, d.Service+" "+brief(d))
	}
	want := []string{
		"own [a:0] announce chosen",
		"x [a:0] announce chosen", // full, and nobody else can
		"y [a:0] announce chosen",
		"z [b:0] withdraw better-node", // full, and b can
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// unexportedOf compares what others see of a candidate.
var unexportedOf = cmpopts.IgnoreUnexported(Candidate{})

// FuzzDecide holds the promises of the decision against arbitrary inputs.
func FuzzDecide(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Add(uint64(7), uint64(99))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		in := randomInputs(rand.New(rand.NewPCG(a, b)))
		plan := Decide(in)
		for i, d := range plan.Decisions {
			checkDecision(t, in, in.Services[i], d)
		}
		shuffled := in
		shuffled.Nodes = slices.Clone(in.Nodes)
		slices.Reverse(shuffled.Nodes)
		if d := cmp.Diff(plan, Decide(shuffled), unexportedOf); d != "" {
			t.Errorf("the order of nodes matters:\n%s", d)
		}
		for _, n := range in.Nodes {
			other := in
			other.Self = n.Name
			for i, d := range Decide(other).Decisions {
				if diff := cmp.Diff(plan.Decisions[i].Candidates, d.Candidates, unexportedOf); diff != "" {
					t.Errorf("%s sees other candidates for %s than %s:\n%s", n.Name, d.Service, in.Self, diff)
				}
			}
		}
	})
}

func randomInputs(r *rand.Rand) Inputs {
	in := Inputs{Budget: -1, Self: "n0", Views: map[string]View{}}
	for i := range 1 + r.IntN(6) {
		name := fmt.Sprintf("n%d", i)
		in.Nodes = append(in.Nodes, Node{Name: name, Capacity: r.IntN(3)})
		in.Views[name] = View{Alive: r.IntN(4) > 0, Services: map[string]State{}}
	}
	for i := range 1 + r.IntN(8) {
		s := Service{Name: fmt.Sprintf("s%d", i), Announcers: r.IntN(4), Priority: r.IntN(3)}
		for _, j := range r.Perm(len(in.Nodes))[:1+r.IntN(len(in.Nodes))] {
			s.Order = append(s.Order, in.Nodes[j].Name)
		}
		in.Services = append(in.Services, s)
		for _, n := range in.Nodes {
			in.Views[n.Name].Services[s.Name] = State{Readiness: Readiness(r.IntN(4))}
		}
	}
	return in
}

func checkDecision(t *testing.T, in Inputs, s Service, d Decision) {
	t.Helper()
	usable, chosen := 0, 0
	worstChosen, bestLeft := Ready, Unknown
	for _, c := range d.Candidates {
		v := in.Views[c.Node]
		r := v.Services[s.Name].Readiness
		if v.Alive && r >= Standby {
			usable++
		}
		switch {
		case c.Chosen:
			if c.Rank != chosen {
				t.Errorf("%s: rank %d where %d is next", s.Name, c.Rank, chosen)
			}
			chosen++
			worstChosen = min(worstChosen, r)
			if !v.Alive || r < Standby {
				t.Errorf("%s: chose %s, which is alive=%v %s", s.Name, c.Node, v.Alive, r)
			}
		case v.Alive && r >= Standby:
			bestLeft = max(bestLeft, r)
		}
	}
	want := s.Announcers
	if want == 0 || want > usable {
		want = usable
	}
	if chosen != want {
		t.Errorf("%s: %d announcers, want %d of %d usable", s.Name, chosen, want, usable)
	}
	if bestLeft > worstChosen {
		t.Errorf("%s: a standby node announces while a ready one does not", s.Name)
	}
}

func BenchmarkDecide(b *testing.B) {
	in := Inputs{Budget: -1, Self: "n0", Views: map[string]View{}}
	for i := range 64 {
		name := fmt.Sprintf("n%d", i)
		in.Nodes = append(in.Nodes, Node{Name: name})
		in.Views[name] = View{Alive: true, Services: map[string]State{}}
	}
	for i := range 1000 {
		s := Service{Name: fmt.Sprintf("s%d", i), Announcers: 1}
		for j := range 4 {
			n := in.Nodes[(i+j)%64].Name
			s.Order = append(s.Order, n)
			in.Views[n].Services[s.Name] = State{Readiness: Ready}
		}
		in.Services = append(in.Services, s)
	}
	for b.Loop() {
		Decide(in)
	}
}

// TestDecidePriority: where a node has room for one service more, the one with
// the higher priority gets it, and the other goes on in its order.
func TestDecidePriority(t *testing.T) {
	all := map[string]State{"p": {Readiness: Ready}, "q": {Readiness: Ready}}
	plan := Decide(Inputs{
		Budget: -1, Self: "a", Nodes: []Node{{Name: "a", Capacity: 1}, {Name: "b"}},
		Views: map[string]View{"a": {Alive: true, Services: all}, "b": {Alive: true, Services: all}},
		Services: []Service{
			{Name: "p", Order: []string{"gone", "a", "b"}, Announcers: 1, Priority: 1},
			{Name: "q", Order: []string{"gone", "a", "b"}, Announcers: 1, Priority: 5},
		},
	})
	got := []string{brief(plan.Decisions[0]), brief(plan.Decisions[1])}
	if d := cmp.Diff([]string{"[b:0] withdraw better-node", "[a:0] announce chosen"}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
