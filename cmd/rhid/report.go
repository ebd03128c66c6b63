package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rhid/internal/control"
)

func newReportCmd() *cobra.Command {
	var socket, detail string
	var count uint64
	var latency time.Duration
	cmd := &cobra.Command{
		Use:   "report SERVICE ok|fail",
		Short: "Report a result that an application had, for a check of type report",
		Long: `Report results that an application had with a service on this host. They are
judged by the service's check of type report, by its rate rule. Who has many to
report adds them up and reports once a second or so, with --count.`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"ok", "fail"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r := control.Report{Service: args[0], LatencyMS: float64(latency) / float64(time.Millisecond), Detail: detail}
			switch args[1] {
			case "ok":
				r.OK = count
			case "fail":
				r.Fail = count
			default:
				return &exitError{exitUsage, fmt.Errorf("%q is neither ok nor fail", args[1])}
			}
			if count == 0 {
				return &exitError{exitUsage, errors.New("--count must be at least 1")}
			}
			if latency < 0 || latency > 0 && r.OK == 0 {
				return &exitError{exitUsage, errors.New("--latency is of good results, and not negative")}
			}
			return asked(control.NewClient(socket).Report(cmd.Context(), []control.Report{r}))
		},
	}
	cmd.Flags().StringVar(&socket, "socket", defaultSocket, "control socket of the daemon")
	cmd.Flags().Uint64Var(&count, "count", 1, "how many such results there were")
	cmd.Flags().DurationVar(&latency, "latency", 0, "the mean time that they took")
	cmd.Flags().StringVar(&detail, "detail", "", "one sentence for people: what failed")
	return cmd
}
