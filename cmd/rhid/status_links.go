package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"rhid/internal/control"
)

// printLinks shows the links of this node, and what the probes along each say.
func printLinks(w io.Writer, links []control.Link, now time.Time) {
	if len(links) == 0 {
		return
	}
	var rows [][]string
	for _, l := range links {
		effect := l.Effect
		if len(l.Backends) > 0 {
			effect += " (" + strings.Join(l.Backends, ", ") + ")"
		}
		for i, p := range l.Probes {
			row := []string{"", "", "", "", or(p.Target, "-"), p.State.String(), p.Detail}
			if i == 0 {
				copy(row, []string{l.Name, effect, l.State.String(), age(l.Since, now)})
			}
			rows = append(rows, row)
		}
	}
	table(w, "LINK EFFECT STATE SINCE TARGET PROBES DETAIL", rows)
	fmt.Fprintln(w)
}

// printOverload shows whether this node takes nothing more over.
func printOverload(w io.Writer, s control.Status, now time.Time) {
	o := s.Overload
	if o == nil {
		return
	}
	words := map[string]string{"up": "not overloaded", "down": "OVERLOADED, takes nothing more over"}
	fmt.Fprintf(w, "node %s: %s for %s: %s\n\n", s.Node, or(words[o.State.String()], "overload not known yet"), age(o.Since, now), o.Detail)
}
