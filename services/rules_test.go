package services

import (
	"strings"
	"testing"
)

// nodeSays is a short form of what a node says of service "s": readiness, then
// what it does: + announces and is exported, ~ announces and is not exported
// yet, then what others know: ! lost by gossip, ? routers see its route,
// x routers lost its route, % nobody knows whether it is back, * just started.
func nodeSays(text string) View {
	readiness := map[byte]Readiness{'u': Unknown, 'd': Down, 's': Standby, 'r': Ready}[text[0]]
	st := State{Readiness: readiness, Reason: Reason{CodeHealthy, "said so"}}
	if readiness == Down {
		st.Reason.Code = CodePoolDown
	}
	v := View{Alive: true, Witness: map[string]Witness{}}
	for _, c := range text[1:] {
		switch c {
		case '+':
			st.Announcing, st.Exported = true, true
		case '~':
			st.Announcing = true
		case '!':
			v.Alive, v.Lost = false, true
		case '?':
			v.Witness["s"] = SeesRoute
		case 'x':
			v.Witness["s"] = RouteGone
		case '%':
			v.Witness["s"] = RouteDoubtful
		case '*':
			v.Fresh = true
		}
	}
	v.Services = map[string]State{"s": st}
	return v
}

// TestRules goes through the rules of the decision, for node a unless said
// otherwise. The nodes are given in takeover order; a1 and a2 stand in site A,
// b1 and b2 in site B.
func TestRules(t *testing.T) {
	tests := []struct {
		name  string
		nodes string // "a1=r+ a2=r"
		self  string
		set   func(*Inputs, *Service)
		want  string
	}{
		{"the main node fails, the next of the site takes over", "a1=d a2=r b1=r", "a2", nil, "[a2:0] announce chosen"},
		{"the site fails, the other site takes over", "a1=d a2=d b1=r", "b1", nil, "[b1:0] announce chosen"},
		{"a node that is down never waits", "a1=d+ a2=r", "a1", nil, "[a2:0] withdraw pool-down"},
		{"make before break: the holder waits for the returning main node", "a1=r a2=r+", "a2", nil, "[a1:0] hold handover"},
		{"… also while that has announced and is not exported yet", "a1=r~ a2=r+", "a2", nil, "[a1:0] hold handover"},
		{"… and leaves when it is exported", "a1=r+ a2=r+", "a2", nil, "[a1:0] withdraw better-node"},
		{"… or when handover_timeout is over", "a1=r~ a2=r+", "a2", func(in *Inputs, _ *Service) { in.Expired = map[string]bool{"s": true} }, "[a1:0] withdraw handover"},
		{"failback never: a healthy holder keeps it", "a1=r a2=r+", "a2", func(_ *Inputs, s *Service) { s.Sticky = true }, "[a2:0] announce chosen"},
		{"failback never: an unhealthy holder does not", "a1=r a2=d+", "a1", func(_ *Inputs, s *Service) { s.Sticky = true }, "[a1:0] announce chosen"},
		{"failback hold: the returning main node is only standby", "a1=s a2=r+", "a2", nil, "[a2:0] announce chosen"},
		{"frozen: nothing that serves is displaced", "a1=r a2=s+", "a2", func(in *Inputs, _ *Service) { in.Intents.Frozen = true }, "[a2:0] announce chosen"},
		{"frozen: a failure still moves", "a1=r a2=d+", "a1", func(in *Inputs, _ *Service) { in.Intents.Frozen = true }, "[a1:0] announce chosen"},
		{"pinned goes first", "a1=r+ a2=r", "a2", func(in *Inputs, _ *Service) { in.Intents.Pins = map[string]string{"s": "a2"} }, "[a2:0] announce pinned"},
		{"pinned to a node that is down changes nothing", "a1=r+ a2=d", "a1", func(in *Inputs, _ *Service) { in.Intents.Pins = map[string]string{"s": "a2"} }, "[a1:0] announce chosen"},
		{"a drained node holds until the next is exported", "a1=r+ a2=r", "a1", drainNode("a1"), "[a2:0] hold handover"},
		{"… and for drain_time", "a1=r+ a2=r+", "a1", drainNode("a1"), "[a2:0] hold drained"},
		{"… and then leaves", "a1=r+ a2=r+", "a1", func(in *Inputs, s *Service) {
			drainNode("a1")(in, s)
			in.Drained = map[string]bool{"s": true}
		}, "[a2:0] withdraw drained"},
		{"a drained node serves when nobody else can", "a1=r+ a2=d", "a1", drainNode("a1"), "[a1:0] announce chosen"},
		{"a drained site goes to the other", "a1=r+ a2=r b1=r", "b1", func(in *Inputs, _ *Service) { in.Intents.DrainSites = map[string]bool{"A": true} }, "[b1:0] announce chosen"},
		{"a drained service leaves everywhere, after drain_time", "a1=r+ a2=r", "a1", drainService("s", false), "[] hold drained"},
		{"… and is then withdrawn", "a1=r+ a2=r", "a1", drainService("s", true), "[] withdraw drained"},
		{"all down: withdraw", "a1=d+ a2=d", "a1", nil, "[] withdraw pool-down"},
		{"all down: keep", "a1=d+ a2=d", "a1", keep, "[] announce kept-down"},
		{"all down: keep, but not a second one", "a1=d+ a2=d+", "a2", keep, "[] withdraw better-node"},
		{"keep: a holder that is down goes on until the next is exported", "a1=d+ a2=r~", "a1", keep, "[a2:0] hold handover"},
		{"keep: … and then leaves", "a1=d+ a2=r+", "a1", keep, "[a2:0] withdraw pool-down"},
		{"keep: the holder whose route is in the routers goes on", "a1=d~ a2=d+", "a2", keep, "[] announce kept-down"},
		{"all down from the start: nobody to keep it", "a1=d a2=d", "a1", keep, "[] withdraw pool-down"},
		{"the brake holds what fails everywhere", "a1=d+ a2=d", "a1", func(in *Inputs, _ *Service) { in.Budget = 0 }, "[] announce brake"},
		{"the brake holds the last holder only", "a1=d+ a2=d~", "a2", func(in *Inputs, _ *Service) { in.Budget = 0 }, "[] withdraw better-node"},
		{"with a brake: what fails here only waits for the next", "a1=d+ a2=r", "a1", func(in *Inputs, _ *Service) { in.Budget = 1 }, "[a2:0] hold handover"},
		{"the brake never holds what fails here only", "a1=d+ a2=r+", "a1", func(in *Inputs, _ *Service) { in.Budget = 0 }, "[a2:0] withdraw pool-down"},
		{"the brake never holds what is marked local, though it fails everywhere", "a1=d+ a2=d", "a1", depends(DependsLocal, 0), "[] withdraw pool-down"},
		{"… nor does that wait for the next", "a1=d+ a2=r", "a1", depends(DependsLocal, 1), "[a2:0] withdraw pool-down"},
		{"the brake holds what is marked shared, though others can serve still", "a1=d+ a2=r+", "a1", depends(DependsShared, 0), "[a2:0] hold brake"},
		{"… and lets it leave within the budget", "a1=d+ a2=r+", "a1", depends(DependsShared, 1), "[a2:0] withdraw pool-down"},
		{"… and always without a brake", "a1=d+ a2=r+", "a1", depends(DependsShared, -1), "[a2:0] withdraw pool-down"},
		{"settling: nothing new is announced", "a1=r a2=r", "a1", certainty(Settling), "[a1:0] undecided settling"},
		{"settling: what is announced stays", "a1=r+ a2=r", "a1", certainty(Settling), "[a1:0] announce chosen"},
		{"isolated: anycast tolerates two holders", "a1=r!", "a2", isolated(false), "[a2:0] announce chosen"},
		{"isolated with quorum: a minority takes over nothing new", "a1=r!", "a2", isolated(true), "[a2:0] withdraw no-quorum"},
		{"cold start: the second waits for the first to finish checking", "a1=u* a2=r*", "a2", nil, "[a2:0] undecided settling"},
		{"a restart of the first: the second does not wait", "a1=u* a2=r", "a2", nil, "[a2:0] announce chosen"},
		{"gossip lost the holder, the routers see it: nothing moves", "a1=r+!? a2=r", "a2", nil, "[a1:0] withdraw better-node"},
		{"gossip lost the holder, the routers abstain: it moves", "a1=r+! a2=r", "a2", nil, "[a2:0] announce chosen"},
		{"the routers lost the holder's route: it moves at once", "a1=r+x a2=r", "a2", nil, "[a2:0] announce chosen"},
		{"the route is doubtful: who took over stays behind it", "a1=r+% a2=r+", "a2", nil, "[a1:0] hold handover"},
		{"… for longer than handover_timeout", "a1=r+% a2=r+", "a2", func(in *Inputs, _ *Service) { in.Expired = map[string]bool{"s": true} }, "[a1:0] hold handover"},
		{"… and takes nothing over that it does not announce", "a1=r+% a2=r", "a2", nil, "[a1:0] withdraw better-node"},
		{"the routers never had the route of a node that does not announce", "a1=rx a2=r", "a1", nil, "[a1:0] announce chosen"},
		{"per site: each has its own holder", "a1=r+ a2=r b1=r b2=r", "b1", func(_ *Inputs, s *Service) { s.PerSite = true }, "[a1:0 b1:0] announce chosen"},
		{"per site: a site without a healthy node has none", "a1=r+ a2=r b1=d+ b2=d", "b1", func(_ *Inputs, s *Service) { s.PerSite = true }, "[a1:0] withdraw pool-down"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := Inputs{Self: tt.self, Views: map[string]View{}, Certainty: Settled, Budget: -1}
			s := Service{Name: "s", Announcers: 1}
			for _, f := range strings.Fields(tt.nodes) {
				name, says, _ := strings.Cut(f, "=")
				in.Nodes = append(in.Nodes, Node{Name: name, Site: strings.ToUpper(name[:1])})
				in.Views[name] = nodeSays(says)
				s.Order = append(s.Order, name)
			}
			if tt.set != nil {
				tt.set(&in, &s)
			}
			in.Services = []Service{s}
			if got := brief(Decide(in).Decisions[0]); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// depends says what is to blame for a1 and a2 being down, and what is left of
// max_withdrawals.
func depends(on Dependency, budget int) func(*Inputs, *Service) {
	return func(in *Inputs, _ *Service) {
		in.Budget = budget
		for _, name := range []string{"a1", "a2"} {
			st := in.Views[name].Services["s"]
			st.Depends = on
			in.Views[name].Services["s"] = st
		}
	}
}

func drainNode(name string) func(*Inputs, *Service) {
	return func(in *Inputs, _ *Service) { in.Intents.DrainNodes = map[string]bool{name: true} }
}

func drainService(name string, over bool) func(*Inputs, *Service) {
	return func(in *Inputs, _ *Service) {
		in.Intents.DrainServices = map[string]bool{name: true}
		in.Drained = map[string]bool{name: over}
	}
}

func keep(_ *Inputs, s *Service) { s.KeepDown = true }

func certainty(c Certainty) func(*Inputs, *Service) {
	return func(in *Inputs, _ *Service) { in.Certainty = c }
}

// isolated adds the node a2 itself: it hears nobody.
func isolated(quorum bool) func(*Inputs, *Service) {
	return func(in *Inputs, s *Service) {
		in.Certainty, in.Quorum = Isolated, quorum
		in.Nodes = append(in.Nodes, Node{Name: "a2", Site: "A"})
		in.Views["a2"] = nodeSays("r")
		s.Order = append(s.Order, "a2")
	}
}

func TestAutoOrder(t *testing.T) {
	nodes := []Node{{Name: "a1", Site: "A"}, {Name: "a2", Site: "A"}, {Name: "a3", Site: "A"}, {Name: "b1", Site: "B"}, {Name: "b2", Site: "B"}}
	mains := map[string]int{}
	for _, s := range []string{"atm", "pos", "counter", "esign", "loans", "cards", "fx", "mobile", "swift", "cheque"} {
		order := AutoOrder(s, "b2", nodes)
		if len(order) != 5 || order[0] != "b2" || order[1] != "b1" {
			t.Errorf("%s: %v does not begin with the main node and its site", s, order)
		}
		mains[AutoOrder(s, "", nodes)[0]]++
		without := AutoOrder(s, "b2", append(append([]Node{}, nodes[:1]...), nodes[2:]...))
		var rest []string
		for _, n := range order {
			if n != "a2" {
				rest = append(rest, n)
			}
		}
		if strings.Join(without, " ") != strings.Join(rest, " ") {
			t.Errorf("%s: taking a2 away moved others: %v, before %v", s, without, order)
		}
	}
	if len(mains) < 4 {
		t.Errorf("ten services have their main nodes on %v", mains)
	}
}
