package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rhid/announce"
	"rhid/internal/control"
)

func newStatusCmd() *cobra.Command {
	var t talk
	cmd := &cobra.Command{
		Use:       "status [services|routes|neighbours|nodes]",
		Short:     "Show what is announced, where, and what is not as wanted",
		Long:      "Show what is announced, where, and what is not as wanted.\nThe exit status is 1 when there is an alarm.",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"services", "routes", "neighbours", "nodes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(t.output); err != nil {
				return err
			}
			s, err := control.NewClient(t.socket).Status(cmd.Context())
			if err != nil {
				return asked(err)
			}
			if t.output == "json" {
				err = printJSON(cmd.OutOrStdout(), s)
			} else {
				printStatus(cmd.OutOrStdout(), s, args, time.Now())
			}
			if err == nil && len(s.Alarms) > 0 {
				return &exitError{exitNo, nil}
			}
			return err
		},
	}
	t.register(cmd)
	return cmd
}

func printStatus(w io.Writer, s control.Status, parts []string, now time.Time) {
	show := func(part string) bool { return len(parts) == 0 || slices.Contains(parts, part) }
	if len(parts) == 0 {
		fmt.Fprintf(w, "node %s: %s for %s, rhid %s, configuration %s\n\n",
			s.Node, s.State, age(s.Started, now), s.Version, short(s.Config.Digest))
	}
	if show("nodes") && s.Cluster != nil {
		printCluster(w, s, now)
	}
	if show("nodes") {
		printLinks(w, s.Links, now)
		printOverload(w, s, now)
	}
	if show("services") {
		printServices(w, s, now)
	}
	if show("routes") {
		printRoutes(w, s, now)
	}
	if show("neighbours") && len(s.Neighbours) > 0 {
		printNeighbours(w, s, now)
	}
	for _, a := range s.Alarms {
		fmt.Fprintf(w, "ALARM %s %s: %s\n", a.Code, a.What, a.Detail)
	}
}

func short(digest string) string { return digest[:min(12, len(digest))] }

func printServices(w io.Writer, s control.Status, now time.Time) {
	var rows [][]string
	for _, svc := range s.Services {
		rank := "-"
		if svc.Verdict.String() == "announce" {
			rank = fmt.Sprint(svc.Rank)
		}
		rows = append(rows, []string{
			svc.Name, svc.Verdict.String(), rank, readinessText(&svc), age(svc.Since, now), holderNames(svc.Holders),
			string(svc.Reason.Code) + ": " + svc.Reason.Evidence,
		})
	}
	table(w, "SERVICE VERDICT RANK READINESS SINCE ANNOUNCED-BY REASON", rows)
	fmt.Fprintln(w)
}

// readinessText is the readiness, and what else a person should know.
func readinessText(s *control.Service) string {
	text := s.Readiness.String()
	if s.Degraded {
		text += ",degraded"
	}
	if s.Maintenance {
		text += ",maintenance"
	}
	return text
}

func holderNames(all []control.Holder) string {
	names := make([]string, len(all))
	for i, h := range all {
		names[i] = h.Node
	}
	return dash(names)
}

func printRoutes(w io.Writer, s control.Status, now time.Time) {
	var rows [][]string
	for _, svc := range s.Services {
		for _, v := range svc.VIPs {
			rows = append(rows, routeRow(v.Prefix.String(), announce.AddressTarget, v.Local, now))
			for _, name := range sortedKeys(v.Routes) {
				rows = append(rows, routeRow(v.Prefix.String(), name, v.Routes[name], now))
			}
		}
	}
	table(w, "PREFIX TARGET WANTED ACTUAL PLACES", rows)
	fmt.Fprintln(w)
}

func routeRow(prefix, target string, st announce.RouteStatus, now time.Time) []string {
	wanted, actual := "no", "no"
	if st.Wanted {
		wanted = "yes"
	}
	if st.Here {
		actual = "yes"
	}
	if !st.Differs.IsZero() {
		actual += fmt.Sprintf(" (differs for %s)", age(st.Differs, now))
	}
	places := make([]string, 0, len(st.Places)+1)
	for _, p := range st.Places {
		text := p.Name + " " + p.State.String()
		if p.Why != "" {
			text += " (" + p.Why + ")"
		}
		places = append(places, text)
	}
	if st.Err != "" {
		places = append(places, fmt.Sprintf("failed %d times: %s", st.Attempts, st.Err))
	}
	return []string{prefix, target, wanted, actual, strings.Join(places, ", ")}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func printNeighbours(w io.Writer, s control.Status, now time.Time) {
	var rows [][]string
	for _, n := range s.Neighbours {
		rows = append(rows, []string{
			n.Name, n.Address, fmt.Sprint(n.ASN), n.State, age(n.Since, now), fmt.Sprint(n.Exported), fmt.Sprint(n.Received), bfdText(n.BFD), neighbourNote(n),
		})
	}
	table(w, "NEIGHBOUR ADDRESS ASN STATE SINCE EXPORTED RECEIVED BFD NOTE", rows)
	fmt.Fprintln(w)
}

// neighbourNote is why the session ended, and what the present one lacks.
func neighbourNote(n control.Neighbour) string {
	var notes []string
	if n.Why != "" {
		notes = append(notes, n.Why)
	}
	if len(n.Lacks) > 0 {
		notes = append(notes, "lacks "+strings.Join(n.Lacks, ", "))
	}
	return strings.Join(notes, "; ")
}

// bfdText is a BFD session in one cell.
func bfdText(b *control.BFD) string {
	switch {
	case b == nil:
		return "-"
	case b.Why != "":
		return b.State + " (" + b.Why + ")"
	default:
		return fmt.Sprintf("%s %v/%v ms", b.State, b.IntervalMS, b.DetectionMS)
	}
}
