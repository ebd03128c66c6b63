package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rhid/internal/control"
)

// printCluster shows who is there, what operators asked for, and, when not
// everybody sees everybody, who sees whom.
func printCluster(w io.Writer, s control.Status, now time.Time) {
	c := s.Cluster
	secrecy := "encrypted"
	if !c.Encrypted {
		secrecy = "NOT ENCRYPTED"
	}
	fmt.Fprintf(w, "cluster %s: %s for %s, gossip %s\n\n", c.Name, c.Certainty, age(c.Since, now), secrecy)
	var rows [][]string
	for _, n := range c.Nodes {
		load := fmt.Sprint(n.Load)
		if n.Capacity > 0 {
			load += fmt.Sprintf("/%d", n.Capacity)
		}
		rows = append(rows, []string{n.Name, n.Site, n.Liveness, age(n.Since, now), or(n.Version, "-"), or(short(n.Digest), "-"), load, dash(n.Announcing)})
	}
	table(w, "NODE SITE STATE SINCE VERSION CONFIG LOAD ANNOUNCES", rows)
	fmt.Fprintln(w)
	printMatrix(w, c.Nodes)
	for _, i := range c.Intents {
		until := ""
		if !i.Until.IsZero() {
			until = " until " + i.Until.Format(time.DateTime)
		}
		fmt.Fprintf(w, "INTENT %s %s%s by %s on %s%s%s\n", i.Kind, i.Subject, prefixed(" to ", i.Arg), i.Who, i.Node, until, prefixed(": ", i.Why))
	}
	if len(c.Intents) > 0 {
		fmt.Fprintln(w)
	}
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// printMatrix shows who sees whom, unless all live nodes see all live nodes.
func printMatrix(w io.Writer, nodes []control.Node) {
	var live []control.Node
	for _, n := range nodes {
		if n.Liveness == "alive" {
			live = append(live, n)
		}
	}
	full := true
	header := []string{"SEES"}
	var rows [][]string
	for _, n := range live {
		header = append(header, n.Name)
		row := []string{n.Name}
		for _, other := range live {
			mark := "no"
			if n.Name == other.Name || slices.Contains(n.Sees, other.Name) {
				mark = "yes"
			}
			full = full && mark == "yes"
			row = append(row, mark)
		}
		rows = append(rows, row)
	}
	if !full {
		table(w, strings.Join(header, " "), rows)
		fmt.Fprintln(w)
	}
}
