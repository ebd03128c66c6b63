package daemon

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rhid/cluster"
	"rhid/internal/control"
	"rhid/services"
)

// inParts has atm in two parts, and pos as a whole.
func inParts() *model {
	return &model{decide: []services.Service{
		{Name: "atm-ipv4", PartOf: "atm", Order: []string{"a", "b"}}, {Name: "atm-ipv6", PartOf: "atm", Order: []string{"a", "b"}},
		{Name: "pos", PartOf: "pos", Order: []string{"a", "b"}},
	}}
}

// What an operator asks of a service reaches all parts of it; what he asks of a
// part stays with it. The order in which that is known does not matter.
func TestIntentsOfParts(t *testing.T) {
	drain := func(name string) cluster.Intent { return cluster.Intent{Kind: "drain", Subject: "service:" + name} }
	pin := func(name, node string) cluster.Intent {
		return cluster.Intent{Kind: "pin", Subject: "service:" + name, Arg: node}
	}
	for _, tt := range []struct {
		name  string
		asked []cluster.Intent
		drain string
		pins  map[string]string
	}{
		{"drain of all", []cluster.Intent{drain("atm")}, "atm-ipv4 atm-ipv6", nil},
		{"drain of all on a node", []cluster.Intent{drain("atm@a")}, "atm-ipv4@a atm-ipv6@a", nil},
		{"drain of a part", []cluster.Intent{drain("atm-ipv6")}, "atm-ipv6", nil},
		{"drain of a part on a node", []cluster.Intent{drain("atm-ipv6@b")}, "atm-ipv6@b", nil},
		{"a service without parts", []cluster.Intent{drain("pos"), pin("pos", "b")}, "pos", map[string]string{"pos": "b"}},
		{"nothing there is", []cluster.Intent{drain("at"), drain(""), pin("ipv4", "a")}, "", nil},
		{"pin of all", []cluster.Intent{pin("atm", "b")}, "", map[string]string{"atm-ipv4": "b", "atm-ipv6": "b"}},
		{"pin of a part and of all", []cluster.Intent{pin("atm-ipv4", "a"), pin("atm", "b")}, "", map[string]string{"atm-ipv4": "a", "atm-ipv6": "b"}},
	} {
		for range 2 {
			got := inParts().intentsOf(tt.asked)
			if d := strings.Join(slices.Sorted(maps.Keys(got.DrainServices)), " "); d != tt.drain {
				t.Errorf("%s: drained are %q, want %q", tt.name, d, tt.drain)
			}
			if tt.pins == nil {
				tt.pins = map[string]string{}
			}
			if d := cmp.Diff(tt.pins, got.Pins); d != "" {
				t.Errorf("%s: pins (-want +got):\n%s", tt.name, d)
			}
			slices.Reverse(tt.asked)
		}
	}
}

// What is taken back for a service is taken back for its parts; what holds for
// a service cannot be taken back for a part.
func TestClearedParts(t *testing.T) {
	asked := func(subjects ...string) (out []cluster.Intent) {
		for _, s := range subjects {
			out = append(out, cluster.Intent{Kind: "drain", Subject: s})
		}
		return append(out, cluster.Intent{Kind: "pin", Subject: "service:atm"})
	}
	for _, tt := range []struct {
		name, clear string
		asked       []cluster.Intent
		want        string
		refused     string
	}{
		{"a node", "node:a", asked(), "node:a", ""},
		{"all", "service:atm", asked("service:atm"), "service:atm", ""},
		{"all and a part", "service:atm", asked("service:atm-ipv6", "service:atm"), "service:atm service:atm-ipv6", ""},
		{"only a part is there", "service:atm", asked("service:atm-ipv4"), "service:atm service:atm-ipv4", ""},
		{"on a node", "service:atm@a", asked("service:atm-ipv4", "service:atm-ipv4@a"), "service:atm@a service:atm-ipv4@a", ""},
		{"a part", "service:atm-ipv4", asked("service:atm-ipv4"), "service:atm-ipv4", ""},
		{"a part besides all", "service:atm-ipv4", asked("service:atm-ipv4", "service:atm"), "service:atm-ipv4", ""},
		{"a part of all", "service:atm-ipv4", asked("service:atm"), "", "atm-ipv4 is a part of atm, and the drain is of all of it; take that of service:atm back"},
		{"a part of all on a node", "service:atm-ipv4@b", asked("service:atm@b"), "", "take that of service:atm@b back"},
		{"nothing", "service:pos", asked(), "service:pos", ""},
	} {
		got, err := inParts().cleared(control.Intent{Kind: "drain", Subject: tt.clear, Clear: true}, tt.asked)
		if strings.Join(got, " ") != tt.want || (err != nil) != (tt.refused != "") ||
			err != nil && (!errors.Is(err, control.ErrRefused) || !strings.Contains(err.Error(), tt.refused)) {
			t.Errorf("%s: %v, %v; want %q, %q", tt.name, got, err, tt.want, tt.refused)
		}
	}
}

// Parts are listed, and only where there are any.
func TestParts(t *testing.T) {
	if d := cmp.Diff(map[string][]string{"atm": {"atm-ipv4", "atm-ipv6"}}, inParts().parts()); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
	m := &model{decide: []services.Service{{Name: "pos"}}}
	if got := m.parts(); got != nil {
		t.Errorf("parts of nothing: %v", got)
	}
}
