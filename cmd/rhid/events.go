package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"rhid/internal/control"
)

func newEventsCmd() *cobra.Command {
	var t talk
	var follow bool
	var since uint64
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened; -f goes on showing it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(t.output); err != nil {
				return err
			}
			return asked(showEvents(cmd.Context(), cmd.OutOrStdout(), control.NewClient(t.socket), since, follow, t.output))
		},
	}
	t.register(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	cmd.Flags().Uint64Var(&since, "since", 0, "only events after the one with this number")
	return cmd
}

// showEvents prints events; with JSON one object a line, so that a stream can
// be read as it comes.
func showEvents(ctx context.Context, w io.Writer, c *control.Client, since uint64, follow bool, output string) error {
	var wait time.Duration
	for {
		evs, err := c.Events(ctx, since, wait)
		if err != nil {
			return err
		}
		for _, e := range evs {
			since = e.Seq
			if err := printEvent(w, e, output); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		wait = 20 * time.Second
	}
}

func printEvent(w io.Writer, e control.Event, output string) error {
	if output == "json" {
		b, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("writing an event: %w", err)
		}
		_, err = fmt.Fprintln(w, string(b))
		return err
	}
	code := ""
	if e.Code != "" {
		code = " [" + e.Code + "]"
	}
	_, err := fmt.Fprintf(w, "%6d %s %-9s %s: %s%s %s\n",
		e.Seq, e.Time.Format("2006-01-02 15:04:05.000"), e.Kind, e.Subject, e.What, code, e.Detail)
	return err
}
