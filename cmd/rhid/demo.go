package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"rhid/internal/demo"
)

func newDemoCmd() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show rhid at work on loopback: no root, no router needed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return &exitError{exitNo, fmt.Errorf("finding the rhid binary: %w", err)}
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			err = demo.Run(ctx, demo.Options{Exe: exe, Keep: keep, Out: cmd.OutOrStdout()})
			switch {
			case err == nil:
				return nil
			case ctx.Err() != nil && errors.Is(err, context.Canceled):
				return &exitError{exitNo, errors.New("interrupted")}
			default:
				return &exitError{exitNo, err}
			}
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "go on after the script, until Ctrl-C")
	return cmd
}
