package main

import (
	"io"

	"github.com/spf13/cobra"

	"rhid/announce/kernel"
)

// guardName is the command that the daemon runs itself as.
const guardName = "lease-guard"

// newGuardCmd returns the process that takes announcement routes out when the
// daemon, its parent, is dead or hangs.
func newGuardCmd() *cobra.Command {
	s := kernel.Settings{Table: 254, NextHop: kernel.NextHopLo}
	cmd := &cobra.Command{
		Use:    guardName,
		Short:  "Take the announcement routes out when the daemon no longer renews their lease",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger("info", "text")
			if err != nil {
				return err
			}
			orphaned := make(chan struct{})
			go func() {
				defer close(orphaned)
				io.Copy(io.Discard, cmd.InOrStdin()) //nolint:errcheck // an error is an end, too
			}()
			return kernel.Guard(cmd.Context(), s, orphaned, log)
		},
	}
	cmd.Flags().IntVar(&s.Protocol, "protocol", 151, "rhid's protocol number in the kernel's tables")
	cmd.Flags().StringVar(&s.Label, "label", "lo:rhid", "label of rhid's IPv4 addresses")
	return cmd
}
