package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"rhid/internal/control"
)

// Set by the linker; see the Makefile.
//
//nolint:gochecknoglobals // the linker can set nothing else
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

func newVersionCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if output == "json" {
				return printJSON(cmd.OutOrStdout(), map[string]string{
					"version": version, "commit": commit, "date": date, "go": runtime.Version(),
				})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "rhid %s (commit %s, built %s, %s)\n", version, commit, date, runtime.Version())
			return err
		},
	}
	registerOutput(cmd, &output)
	return cmd
}

func newReloadCmd() *cobra.Command {
	var t talk
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Read the configuration again, all of it or none, and say why not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return asked(control.NewClient(t.socket).Reload(cmd.Context()))
		},
	}
	cmd.Flags().StringVar(&t.socket, "socket", defaultSocket, "control socket of the daemon")
	return cmd
}
