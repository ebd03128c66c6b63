package services

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// twoSites is four services on four nodes of two sites, each bound to one.
func twoSites() Inputs {
	nodes := []Node{{"a1", "A", 1}, {"a2", "A", 1}, {"b1", "B", 1}, {"b2", "B", 1}}
	return AllWell(nodes, []Service{
		{Name: "atm", Order: []string{"a1", "a2", "b1", "b2"}, Announcers: 1},
		{Name: "pos", Order: []string{"a2", "a1", "b2", "b1"}, Announcers: 1},
		{Name: "counter", Order: []string{"b1", "b2", "a1", "a2"}, Announcers: 1},
		{Name: "esign", Order: []string{"b2", "b1"}, Announcers: 1},
	})
}

func TestForesee(t *testing.T) {
	tests := []struct {
		fail []string
		want []string // service: after, and what is said of it
		full []string
	}{
		{nil, []string{"atm [a1]", "pos [a2]", "counter [b1]", "esign [b2]"}, []string{}},
		{[]string{"node:a1"}, []string{"atm [a2] moves", "pos [a2]", "counter [b1]", "esign [b2]"}, []string{}},
		{[]string{"service:pos@a2"}, []string{"atm [a1]", "pos [a1] moves", "counter [b1]", "esign [b2]"}, []string{}},
		{[]string{"site:A"}, []string{"atm [b1] moves last-site", "pos [b2] moves last-site", "counter [b1] last-site", "esign [b2]"}, []string{}},
		{[]string{"site:B"}, []string{"atm [a1] last-site", "pos [a2] last-site", "counter [a1] moves last-site", "esign [] moves lost"}, []string{}},
		{[]string{"site:A", "node:b1"}, []string{"atm [b2] moves last-site", "pos [b2] moves last-site", "counter [b2] moves last-site", "esign [b2]"}, []string{"b2: 3 of 1"}},
	}
	for _, tt := range tests {
		in := twoSites()
		var fs []Failure
		for _, text := range tt.fail {
			f, err := ParseFailure(text, in)
			if err != nil {
				t.Fatal(err)
			}
			fs = append(fs, f)
		}
		out := Foresee(in, tt.fail, fs...)
		var got []string
		for _, e := range out.Services {
			line := e.Service + " ["
			for i, n := range e.After {
				if i > 0 {
					line += " "
				}
				line += n
			}
			line += "]"
			for word, is := range map[string]bool{" moves": e.Moves} {
				if is {
					line += word
				}
			}
			if e.OneSite {
				line += " last-site"
			}
			if e.Lost {
				line += " lost"
			}
			got = append(got, line)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%v (-want +got):\n%s", tt.fail, d)
		}
		if d := cmp.Diff(tt.full, out.Full); d != "" {
			t.Errorf("%v, over capacity (-want +got):\n%s", tt.fail, d)
		}
	}
}

func TestParseFailureErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a1":             `"a1" is none of node:NAME, site:NAME and service:NAME@NODE`,
		"rack:a1":        `"rack:a1" is none of node:NAME, site:NAME and service:NAME@NODE`,
		"node:zz":        `"node:zz": there is no such node`,
		"site:Z":         `"site:Z": there is no such site`,
		"service:atm":    `"service:atm": there is no node ""; write service:NAME@NODE`,
		"service:zz@a1":  `"service:zz@a1": there is no such service`,
		"service:atm@zz": `"service:atm@zz": there is no node "zz"; write service:NAME@NODE`,
	} {
		if _, err := ParseFailure(text, twoSites()); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// A service that is decided on in parts fails with all of them.
func TestForeseeParts(t *testing.T) {
	nodes := []Node{{Name: "a"}, {Name: "b"}}
	order := []string{"a", "b"}
	in := AllWell(nodes, []Service{
		{Name: "atm-ipv4", PartOf: "atm", Order: order, Announcers: 1}, {Name: "atm-ipv6", PartOf: "atm", Order: order, Announcers: 1},
		{Name: "pos", Order: order, Announcers: 1},
	})
	for text, want := range map[string][]bool{"service:atm@a": {true, true, false}, "service:atm-ipv6@a": {false, true, false}} {
		f, err := ParseFailure(text, in)
		if err != nil {
			t.Fatal(err)
		}
		var moves []bool
		for _, e := range Foresee(in, []string{text}, f).Services {
			moves = append(moves, e.Moves)
		}
		if d := cmp.Diff(want, moves); d != "" {
			t.Errorf("%s moves (-want +got):\n%s", text, d)
		}
	}
}

// Imagining changes nothing.
func TestImagineCopies(t *testing.T) {
	in := twoSites()
	f := Failure{Kind: "service", Name: "atm", Node: "a1"}
	if d := Decide(Imagine(in, f)); Holders(d.Decisions[0])[0] != "a2" {
		t.Errorf("imagined failure has no effect: %v", Holders(d.Decisions[0]))
	}
	if d := Decide(in); Holders(d.Decisions[0])[0] != "a1" {
		t.Errorf("imagining a failure changed the inputs: %v", Holders(d.Decisions[0]))
	}
}
