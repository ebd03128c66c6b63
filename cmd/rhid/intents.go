package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rhid/internal/control"
)

// ask holds the flags of every command that changes what the cluster does.
type ask struct {
	socket string
	why    string
	last   time.Duration
}

func (a *ask) register(cmd *cobra.Command, lasting bool) {
	cmd.Flags().StringVar(&a.socket, "socket", defaultSocket, "control socket of the daemon")
	cmd.Flags().StringVar(&a.why, "why", "", "why, for the audit log and for whoever looks at the status")
	if lasting {
		cmd.Flags().DurationVar(&a.last, "for", 0, "how long it holds; until it is taken back by default")
	}
}

func (a *ask) send(cmd *cobra.Command, i control.Intent) error {
	i.Why, i.For = a.why, a.last
	return asked(control.NewClient(a.socket).Intend(cmd.Context(), i))
}

// subject makes sure that an argument has one of the forms of a subject.
func subject(text string) error {
	what, name, _ := strings.Cut(text, ":")
	if name == "" || !slices.Contains([]string{"node", "site", "service"}, what) {
		return &exitError{exitUsage, fmt.Errorf("%q is none of node:NAME, site:NAME, service:NAME and service:NAME@NODE", text)}
	}
	return nil
}

func newDrainCmd() *cobra.Command {
	var a ask
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "drain node:NAME | site:NAME | service:NAME[@NODE]",
		Short: "Hand services over, without losing a connection where another node can serve",
		Long: `Hand services over to other nodes. A drained node is a last resort: it serves
when nobody else can. A service that is drained without a node leaves
everywhere. With --wait the command ends with status 0 once it is safe to stop
what was drained, and with 1 when it is not after that time.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := subject(args[0]); err != nil {
				return err
			}
			if err := a.send(cmd, control.Intent{Kind: "drain", Subject: args[0]}); err != nil {
				return err
			}
			if wait == 0 {
				return nil
			}
			return waitSafe(cmd, a.socket, args[0], wait)
		},
	}
	a.register(cmd, true)
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait up to so long until it is safe to stop")
	return cmd
}

func newUndrainCmd() *cobra.Command {
	var a ask
	cmd := &cobra.Command{
		Use:   "undrain node:NAME | site:NAME | service:NAME[@NODE]",
		Short: "Take a drain back",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := subject(args[0]); err != nil {
				return err
			}
			return a.send(cmd, control.Intent{Kind: "drain", Subject: args[0], Clear: true})
		},
	}
	a.register(cmd, false)
	return cmd
}

func newSwitchCmd() *cobra.Command {
	var a ask
	var to string
	var auto bool
	cmd := &cobra.Command{
		Use:   "switch SERVICE (--to NODE | --auto)",
		Short: "Pin a service to a node, as long as that can serve it; --auto takes it back",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (to == "") != auto {
				return &exitError{exitUsage, errors.New("one of --to and --auto is needed, and not both")}
			}
			return a.send(cmd, control.Intent{Kind: "pin", Subject: "service:" + args[0], Arg: to, Clear: auto})
		},
	}
	a.register(cmd, true)
	cmd.Flags().StringVar(&to, "to", "", "the node that shall announce the service")
	cmd.Flags().BoolVar(&auto, "auto", false, "let the takeover order decide again")
	return cmd
}

func newFreezeCmd() *cobra.Command {
	var a ask
	cmd := &cobra.Command{
		Use:   "freeze",
		Short: "Let nothing move that need not: failures are still taken over, nothing is taken back",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.send(cmd, control.Intent{Kind: "freeze", Subject: "cluster"})
		},
	}
	a.register(cmd, true)
	return cmd
}

func newUnfreezeCmd() *cobra.Command {
	var a ask
	cmd := &cobra.Command{
		Use:   "unfreeze",
		Short: "Take a freeze back",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.send(cmd, control.Intent{Kind: "freeze", Subject: "cluster", Clear: true})
		},
	}
	a.register(cmd, false)
	return cmd
}

func newFailbackCmd() *cobra.Command {
	var a ask
	cmd := &cobra.Command{
		Use:   "failback [SERVICE]",
		Short: "Let healthy nodes take back at once what they wait for; all services by default",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			about := "cluster"
			if len(args) == 1 {
				about = "service:" + args[0]
			}
			return a.send(cmd, control.Intent{Kind: "failback", Subject: about})
		},
	}
	a.register(cmd, false)
	return cmd
}

// waitSafe polls until nothing that was drained announces any more and others
// do, as far as the service is to go on.
func waitSafe(cmd *cobra.Command, socket, what string, limit time.Duration) error {
	const pause = 200 * time.Millisecond
	c := control.NewClient(socket)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for end := time.Now().Add(limit); ; {
		s, err := c.Status(cmd.Context())
		if err != nil {
			return asked(err)
		}
		left := stillServes(s, what)
		if len(left) == 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: safe to stop\n", what)
			return nil
		}
		if time.Now().After(end) {
			printLeft(cmd.ErrOrStderr(), what, left)
			return &exitError{exitNo, nil}
		}
		select {
		case <-tick.C:
		case <-cmd.Context().Done():
			return &exitError{exitNo, cmd.Context().Err()}
		}
	}
}

func printLeft(w io.Writer, what string, left []string) {
	fmt.Fprintf(w, "%s: not safe to stop:\n", what)
	for _, l := range left {
		fmt.Fprintln(w, "  "+l)
	}
}

// stillServes lists what keeps a drained subject from being stopped.
func stillServes(s control.Status, what string) []string {
	kind, name, _ := strings.Cut(what, ":")
	service, node, onNode := strings.Cut(name, "@")
	var left []string
	if s.Cluster == nil {
		return []string{"the daemon is in no cluster"}
	}
	for _, n := range s.Cluster.Nodes {
		concerned := kind == "node" && n.Name == name || kind == "site" && n.Site == name ||
			kind == "service" && (!onNode || n.Name == node)
		for _, a := range n.Announcing {
			if concerned && (kind != "service" || a == service || slices.Contains(s.Parts[service], a)) {
				left = append(left, fmt.Sprintf("%s still announces %s", n.Name, a))
			}
		}
	}
	return left
}
