package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rhid/checks"
	"rhid/internal/config"
	"rhid/internal/control"
	"rhid/internal/daemon"
)

// newChecksCmd returns "rhid checks" with its subcommands.
func newChecksCmd() *cobra.Command {
	var t talk
	var node string
	cmd := &cobra.Command{
		Use:   "checks [SERVICE|NODE]",
		Short: "Show the checks of a service, or of a node",
		Long: `Shows the checks of a service, or all of a node: their state and since when,
what they said last, the last ten results (the oldest first, . is a success and
x a failure), the success rate, and when they run next.

Without a node it is this one. Any other node of the cluster is asked over the
cluster: rhid checks lb-2, or rhid checks SERVICE --node lb-2. A name that is both
is a service.

The exit status is 1 when a check is down, and 3 when the node does not answer.`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return t.names(cmd, true)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(t.output); err != nil {
				return err
			}
			all, err := control.NewClient(t.socket).Checks(cmd.Context(), strings.Join(args, ""), node)
			if err != nil {
				return asked(err)
			}
			if t.output == "json" {
				err = printJSON(cmd.OutOrStdout(), all)
			} else {
				printChecks(cmd.OutOrStdout(), all, time.Now())
			}
			for i := range all {
				if all[i].State == checks.Down && err == nil {
					return &exitError{exitNo, nil}
				}
			}
			return err
		},
	}
	t.register(cmd)
	cmd.Flags().StringVar(&node, "node", "", "node to ask (default this one)")
	must(cmd.RegisterFlagCompletionFunc("node", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return t.names(cmd, false)
	}))
	cmd.AddCommand(newChecksTestCmd(), newChecksTypesCmd())
	return cmd
}

// names are those of the cluster's nodes, and of services where they are wanted
// too, for the completion of what was typed.
func (t *talk) names(cmd *cobra.Command, services bool) ([]string, cobra.ShellCompDirective) {
	s, err := control.NewClient(t.socket).Status(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	if services {
		names = serviceNames(&s)
	}
	if s.Cluster == nil {
		return append(names, s.Node), cobra.ShellCompDirectiveNoFileComp
	}
	for i := range s.Cluster.Nodes {
		names = append(names, s.Cluster.Nodes[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func printChecks(w io.Writer, all []control.CheckState, now time.Time) {
	var rows [][]string
	for i := range all {
		c := &all[i]
		rows = append(rows, []string{
			c.ID, stateText(&c.Status), age(c.Since, now), lastResults(c.Recent), rateText(c.Rate), nextText(c, now),
			dash(c.Services), c.Why,
		})
	}
	table(w, "CHECK STATE SINCE LAST RATE NEXT SERVICES WHY", rows)
}

// stateText is the state in a few words.
func stateText(st *checks.Status) string {
	text := st.State.String()
	if st.Degraded {
		text += ",degraded"
	}
	if st.Maintenance {
		text += ",maintenance"
	}
	return text
}

// lastResults has a sign for each result, the oldest first.
func lastResults(recent []checks.Result) string {
	var b strings.Builder
	for i := range recent {
		if recent[i].OK {
			b.WriteByte('.')
		} else {
			b.WriteByte('x')
		}
	}
	return orDash(b.String())
}

func rateText(r *checks.RateStatus) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %% of %d", r.Percent, r.OK+r.Fail)
}

func nextText(c *control.CheckState, now time.Time) string {
	if c.NextRun.IsZero() {
		return "fed"
	}
	return max(0, c.NextRun.Sub(now)).Round(time.Millisecond).String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func newChecksTestCmd() *cobra.Command {
	var t talk
	var file, node string
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "Run a check once now, for all its targets",
		Long: `Runs a check once now and says what came of it. NAME is that of a check, which
is run for all its targets on this node, or of one target's: NAME@TARGET.

The daemon runs it, beside those that run at their times, and nothing is changed
by it. With --config, or where no daemon answers, this command does so itself.
The exit status is 1 when a probe failed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(t.output); err != nil {
				return err
			}
			ran, err := testCheck(cmd, &t, file, node, args[0])
			var known *exitError
			if errors.As(err, &known) {
				return err
			}
			if err != nil {
				return asked(err)
			}
			if t.output == "json" {
				err = printJSON(cmd.OutOrStdout(), ran)
			} else {
				printTests(cmd.OutOrStdout(), ran)
			}
			for i := range ran {
				if err == nil && !ran[i].Fed && !ran[i].Result.OK {
					return &exitError{exitNo, nil}
				}
			}
			return err
		},
	}
	t.register(cmd)
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration file to run the check of, without a daemon")
	cmd.Flags().StringVar(&node, "node", "", "node of the configuration to be (default the host name)")
	return cmd
}

// testCheck has the daemon run a check, or runs it here.
func testCheck(cmd *cobra.Command, t *talk, file, node, name string) ([]control.CheckTest, error) {
	if file == "" {
		ran, err := control.NewClient(t.socket).TestCheck(cmd.Context(), name)
		if !errors.Is(err, control.ErrUnreachable) {
			return ran, err
		}
		if _, statErr := os.Stat(defaultConfig); statErr != nil {
			return nil, err
		}
		cmd.PrintErrf("no daemon answers: %s is run from %s by this command\n", name, defaultConfig)
		file = defaultConfig
	}
	if node == "" {
		var err error
		if node, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("finding the host name: %w", err)
		}
	}
	ran, err := daemon.TestCheck(cmd.Context(), file, node, name)
	if err != nil && !errors.Is(err, control.ErrNotFound) {
		return nil, &exitError{exitUsage, err}
	}
	return ran, err
}

func printTests(w io.Writer, ran []control.CheckTest) {
	for i := range ran {
		r := &ran[i]
		fmt.Fprintf(w, "%s (%s): ", r.ID, r.Type)
		if r.Fed {
			fmt.Fprintln(w, "has no probe, it lives on what is reported")
			continue
		}
		verdict := "ok"
		switch {
		case !r.Result.OK:
			verdict = "failed (" + string(r.Result.Cause) + ")"
		case r.Result.Degraded:
			verdict = "ok, degraded"
		}
		if r.Result.Maintenance {
			verdict += ", under maintenance"
		}
		fmt.Fprintf(w, "%s after %s of %s: %s\n", verdict, r.Result.Took.Round(10*time.Microsecond), r.Timeout, r.Result.Detail)
		if c := r.Result.Counts; c != nil {
			fmt.Fprintf(w, "  counted %d good, %d bad", c.OK, c.Fail)
			if c.Latency > 0 {
				fmt.Fprintf(w, ", %s each", c.Latency.Round(10*time.Microsecond))
			}
			if c.Detail != "" {
				fmt.Fprintf(w, ": %s", c.Detail)
			}
			fmt.Fprintln(w)
		}
	}
}

func newChecksTypesCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "types [TYPE]",
		Short: "Describe the check types, or the keys of one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			types := config.DescribeTypes()
			if len(args) == 0 {
				if output == "json" {
					return printJSON(cmd.OutOrStdout(), types)
				}
				printTypes(cmd.OutOrStdout(), types)
				return nil
			}
			for i := range types {
				if types[i].Name != args[0] {
					continue
				}
				if output == "json" {
					return printJSON(cmd.OutOrStdout(), types[i])
				}
				printType(cmd.OutOrStdout(), &types[i])
				return nil
			}
			return &exitError{exitUsage, fmt.Errorf("there is no check type %q; see rhid checks types", args[0])}
		},
	}
	registerOutput(cmd, &output)
	return cmd
}

func printTypes(w io.Writer, types []config.TypeDoc) {
	var rows [][]string
	for i := range types {
		t := &types[i]
		kind := "active"
		if t.Passive {
			kind = "passive"
		}
		rows = append(rows, []string{t.Name, kind, t.Target, t.Doc})
	}
	table(w, "TYPE KIND TARGET WHAT-IT-DOES", rows)
}

func printType(w io.Writer, t *config.TypeDoc) {
	fmt.Fprintf(w, "%s: %s\ntarget: %s\n\n", t.Name, t.Doc, t.Target)
	printKeys(w, t.Keys)
	fmt.Fprintln(w, "\nkeys of all types:")
	printKeys(w, config.DescribeCommon())
}

func printKeys(w io.Writer, keys []config.KeyDoc) {
	var rows [][]string
	for i := range keys {
		k := &keys[i]
		kind := k.Kind
		if k.Enum != nil {
			kind = strings.Join(k.Enum, "|")
		}
		rows = append(rows, []string{k.Key, kind, orDash(k.DefaultText()), k.Doc})
	}
	table(w, "KEY VALUE DEFAULT MEANING", rows)
}
