package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rhid/internal/control"
)

func newExplainCmd() *cobra.Command {
	var t talk
	cmd := &cobra.Command{
		Use:   "explain SERVICE",
		Short: "Show everything that led to the verdict for a service",
		Args:  cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			s, err := control.NewClient(t.socket).Status(cmd.Context())
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return serviceNames(&s), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(t.output); err != nil {
				return err
			}
			e, err := control.NewClient(t.socket).Explain(cmd.Context(), args[0])
			if err != nil {
				return asked(err)
			}
			if t.output == "json" {
				return printJSON(cmd.OutOrStdout(), e)
			}
			printExplanation(cmd.OutOrStdout(), e, time.Now())
			return nil
		},
	}
	t.register(cmd)
	return cmd
}

// serviceNames are those of services and their parts on this node.
func serviceNames(s *control.Status) []string {
	names := slices.Collect(maps.Keys(s.Parts))
	for i := range s.Services {
		names = append(names, s.Services[i].Name)
	}
	return names
}

func printExplanation(w io.Writer, e control.Explanation, now time.Time) {
	for _, p := range e.Parts {
		printExplanation(w, p, now)
	}
	if len(e.Parts) > 0 {
		return
	}
	s := e.Service
	fmt.Fprintf(w, "%s: %s", s.Name, s.Verdict)
	if s.Verdict.String() == "announce" {
		fmt.Fprintf(w, " at rank %d", s.Rank)
	}
	fmt.Fprintf(w, " for %s\n  because %s: %s\n  health: %s\n\n", age(s.Since, now), s.Reason.Code, s.Reason.Evidence, e.Pool)
	var rows [][]string
	for _, c := range e.Decision.Candidates {
		chosen := "-"
		if c.Chosen {
			chosen = fmt.Sprint(c.Rank)
		}
		rows = append(rows, []string{c.Node, fmt.Sprint(c.Place), c.Readiness.String(), chosen, string(c.Reason.Code) + ": " + c.Reason.Evidence})
	}
	table(w, "CANDIDATE PLACE READINESS RANK REASON", rows)
	fmt.Fprintln(w)
	rows = nil
	for _, c := range e.Checks {
		rows = append(rows, []string{
			c.ID, stateText(&c), age(c.Since, now), fmt.Sprintf("%d/%d", c.Fails, c.Runs),
			c.Last.Took.Round(10 * time.Microsecond).String(), c.Why,
		})
	}
	table(w, "CHECK STATE SINCE FAILED/RUN TOOK WHY", rows)
	fmt.Fprintln(w)
	printLinks(w, e.Links, now)
	printRoutes(w, control.Status{Services: []control.Service{s}}, now)
}
