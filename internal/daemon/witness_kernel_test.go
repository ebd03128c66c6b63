package daemon

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/cluster"
	"rhid/services"
)

// What the kernel's table testifies of one node's route, as time goes by.
func TestTrace(t *testing.T) {
	const hold = doubtAfter
	idle := vantage{alive: true, other: true}
	own, alone, dead := idle, idle, idle
	own.own, alone.other, dead.alive = true, false, false
	ownDead := own
	ownDead.alive = false
	type step struct {
		after time.Duration // since the step before
		here  bool
		v     vantage
		want  services.Witness
	}
	const there, gone = true, false
	tests := map[string][]step{
		"never seen": {{0, gone, idle, services.Abstains}, {time.Minute, gone, idle, services.Abstains}},
		"gone for good": {
			{0, there, idle, services.SeesRoute},
			{time.Second, gone, idle, services.Abstains},
			{routeSettle, gone, idle, services.RouteGone},
			{time.Minute, gone, idle, services.RouteGone},
			{time.Second, there, idle, services.SeesRoute},
		},
		"gone for a moment while OSPF converges": {
			{0, there, idle, services.SeesRoute},
			{time.Second, gone, idle, services.Abstains},
			{routeSettle - 1, there, idle, services.SeesRoute},
			{time.Second, gone, idle, services.Abstains},
		},
		"the daemon here has lost its neighbours": {
			{0, there, idle, services.SeesRoute},
			{time.Second, gone, idle, services.Abstains},
			{routeSettle, gone, alone, services.Abstains},
			{time.Second, gone, idle, services.Abstains}, // the rest came back first
			{time.Second, there, idle, services.SeesRoute},
		},
		"hidden by the own route": {
			{0, there, idle, services.SeesRoute},
			{time.Second, gone, own, services.Abstains},
			{time.Second, gone, own, services.Abstains},
			{time.Second, gone, idle, services.Abstains},
		},
		"gossip lost the node, the route stays": {
			{0, there, idle, services.SeesRoute},
			{time.Second, there, dead, services.SeesRoute},
		},
		"lost, taken over, doubted, and back": {
			{0, there, idle, services.SeesRoute},
			{0, gone, idle, services.Abstains},
			{routeSettle, gone, idle, services.RouteGone},
			{0, gone, own, services.RouteGone},
			{hold, gone, own, services.RouteDoubtful},
			{hold, gone, own, services.Abstains}, // leaves to look
			{time.Second, gone, own, services.Abstains},
			{0, there, idle, services.SeesRoute},
			{time.Minute, gone, own, services.Abstains},
		},
		"lost, doubted, and still lost: the next look is later": {
			{0, there, idle, services.SeesRoute},
			{0, gone, idle, services.Abstains},
			{routeSettle, gone, idle, services.RouteGone},
			{2 * hold, gone, own, services.Abstains},
			{0, gone, idle, services.Abstains},
			{routeSettle, gone, idle, services.RouteGone},
			{2 * hold, gone, own, services.RouteDoubtful},
			{2 * hold, gone, own, services.Abstains},
		},
		"lost, and then dead by gossip too": {
			{0, there, idle, services.SeesRoute},
			{0, gone, idle, services.Abstains},
			{routeSettle, gone, idle, services.RouteGone},
			{time.Hour, gone, ownDead, services.RouteGone},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			var k trace
			for i, s := range steps {
				now = now.Add(s.after)
				if got := k.look(s.here, s.v, now); got != s.want {
					t.Errorf("step %d: %d, want %d (%+v)", i, got, s.want, k)
				}
			}
		})
	}
}

func TestSoleHolder(t *testing.T) {
	says := func(name string, live cluster.Liveness, exported int) cluster.NodeView {
		n := cluster.NodeView{Liveness: live, State: &cluster.State{Services: map[string]cluster.ServiceState{
			"atm": {Announcing: exported >= 0, Exported: max(0, exported)},
		}}}
		n.Name = name
		return n
	}
	tests := []struct {
		name  string
		nodes []cluster.NodeView
		want  string
	}{
		{"nobody", []cluster.NodeView{says("a", cluster.Alive, -1), says("self", cluster.Alive, 1)}, ""},
		{"one", []cluster.NodeView{says("a", cluster.Alive, 1), says("b", cluster.Alive, -1)}, "a"},
		{"one that is silent", []cluster.NodeView{says("a", cluster.Dead, 1)}, "a"},
		{"one that is not exported yet", []cluster.NodeView{says("a", cluster.Alive, 0)}, ""},
		{"one that left", []cluster.NodeView{says("a", cluster.Left, 1)}, ""},
		{"two", []cluster.NodeView{says("a", cluster.Alive, 1), says("b", cluster.Alive, 1)}, ""},
		{"one never heard", []cluster.NodeView{{Liveness: cluster.Unknown}}, ""},
	}
	for _, tt := range tests {
		if got, ok := soleHolder("self", "atm", tt.nodes); got.Name != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %v", tt.name, got.Name, ok)
		}
	}
}

func TestJoinedWitnesses(t *testing.T) {
	one := func(said services.Witness) map[string]map[string]services.Witness {
		return map[string]map[string]services.Witness{"a": {"atm": said}}
	}
	tests := []struct{ bgp, kernel, want services.Witness }{
		{services.Abstains, services.RouteGone, services.RouteGone},
		{services.RouteGone, services.Abstains, services.RouteGone},
		{services.RouteGone, services.SeesRoute, services.SeesRoute},
		{services.SeesRoute, services.RouteGone, services.SeesRoute},
	}
	for _, tt := range tests {
		if d := cmp.Diff(one(tt.want), joined(one(tt.bgp), one(tt.kernel))); d != "" {
			t.Errorf("%d and %d (-want +got):\n%s", tt.bgp, tt.kernel, d)
		}
	}
	if d := cmp.Diff(one(services.RouteGone), joined(nil, one(services.RouteGone))); d != "" {
		t.Errorf("the kernel alone (-want +got):\n%s", d)
	}
	if d := cmp.Diff(one(services.RouteGone), joined(map[string]map[string]services.Witness{}, one(services.RouteGone))); d != "" {
		t.Errorf("of another node (-want +got):\n%s", d)
	}
}
