package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/checks"
	"rhid/internal/control"
)

func TestPrintLinks(t *testing.T) {
	now := time.Unix(1e9, 0)
	links := []control.Link{
		{Name: "core", Effect: "down", Backends: []string{"bgp"}, State: checks.Up, Since: now.Add(-time.Minute), Probes: []control.LinkProbe{
			{Target: "10.1.0.1", State: checks.Up, Detail: "0 of the last 50 probes lost (0 %)"},
			{Target: "10.1.0.2", State: checks.Down, Detail: "6 of the last 50 probes lost (12 %)"},
		}},
		{Name: "eth1", Effect: "alarm", Probes: []control.LinkProbe{{Detail: "no probe has ended yet"}}},
	}
	var b strings.Builder
	printLinks(&b, links, now)
	printLinks(&b, nil, now)
	printOverload(&b, control.Status{Node: "lb"}, now)
	printOverload(&b, control.Status{Node: "lb", Overload: &control.Overload{State: checks.Down, Since: now.Add(-5 * time.Second), Detail: "cpu 95 %"}}, now)
	want := `
LINK  EFFECT      STATE    SINCE  TARGET    PROBES   DETAIL
core  down (bgp)  up       1m00s  10.1.0.1  up       0 of the last 50 probes lost (0 %)
                                  10.1.0.2  down     6 of the last 50 probes lost (12 %)
eth1  alarm       unknown  -      -         unknown  no probe has ended yet

node lb: OVERLOADED, takes nothing more over for 5s: cpu 95 %

`
	if d := cmp.Diff(want[1:], b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
