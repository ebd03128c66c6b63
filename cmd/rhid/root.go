package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const (
	defaultConfig = "/etc/rhid/rhid.yaml"
	defaultSocket = "/run/rhid/rhid.sock"
)

// newRootCmd returns the whole command tree. Completion comes with cobra.
func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:           "rhid",
		Short:         "Route health injection: announce a VIP while its service is healthy",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newRunCmd(), newStatusCmd(), newExplainCmd(), newChecksCmd(), newEventsCmd(),
		newConfigCmd(), newPlanCmd(), newKeysCmd(),
		newDrainCmd(), newUndrainCmd(), newSwitchCmd(), newFreezeCmd(), newUnfreezeCmd(), newFailbackCmd(),
		newReportCmd(), newCleanupCmd(), newReloadCmd(), newDemoCmd(), newVersionCmd(), newGuardCmd(),
	)
	return root
}

// talk holds the flags of every command that asks the daemon.
type talk struct {
	socket string
	output string
}

func (t *talk) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.socket, "socket", defaultSocket, "control socket of the daemon")
	registerOutput(cmd, &t.output)
}

func registerOutput(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "table or json")
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp)))
}

// must is for errors that only a mistake in this program can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func checkOutput(output string) error {
	if output != "table" && output != "json" {
		return &exitError{exitUsage, fmt.Errorf("-o %s: must be table or json", output)}
	}
	return nil
}
