// Command rhid-lab builds a containerlab topology out of network namespaces on
// this machine, where there is no containerlab, and takes it down on Ctrl-C.
//
//	rhid-lab up [-run NODE=COMMAND]... FILE
//
// It needs root and the programs that the topology calls (FRR, BIRD, HAProxy …).
// While it runs, each node can be entered with nsenter, as printed. Whatever
// way it ends, nothing is left behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"rhid/internal/lab"
)

const usage = `usage: rhid-lab up [-run NODE=COMMAND]... FILE

Builds the topology of a containerlab file in network namespaces, prints how to
enter its nodes, and takes it down on Ctrl-C.
`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rhid-lab:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage")

// command is one -run: a command that goes on in a node.
type command struct{ node, line string }

func run(args []string, out io.Writer) error {
	if len(args) == 0 || args[0] != "up" {
		fmt.Fprint(os.Stderr, usage)
		return errUsage
	}
	var commands []command
	flags := flag.NewFlagSet("rhid-lab up", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	flags.Func("run", "`NODE=COMMAND` to run in a node, by its shell; may be repeated", func(s string) error {
		node, line, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("is not NODE=COMMAND")
		}
		commands = append(commands, command{node, line})
		return nil
	})
	switch err := flags.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errUsage, err)
	case flags.NArg() != 1:
		return fmt.Errorf("%w: give one topology file", errUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return up(ctx, flags.Arg(0), commands, out)
}

// up runs the topology until ctx ends.
func up(ctx context.Context, file string, commands []command, out io.Writer) error {
	l, err := lab.Up(ctx, file, lab.Options{Log: out})
	if err != nil {
		return err
	}
	if err := start(l, commands, out); err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Fprintf(out, "\n%s is up. A shell in a node:\n\n", l.Topology.Name)
	for _, n := range l.Nodes() {
		fmt.Fprintf(out, "  %-10s  sudo nsenter -t %d -m -u -i -n -p bash\n", n.Name, n.Pid())
	}
	fmt.Fprintln(out, "\nCtrl-C takes it down.")
	<-ctx.Done()
	fmt.Fprintln(out, "\ntaking it down")
	return l.Close()
}

// start runs the commands of -run; what they print goes to out, line by line
// behind the node's name.
func start(l *lab.Lab, commands []command, out io.Writer) error {
	for _, c := range commands {
		n, ok := l.Find(c.node)
		if !ok {
			return fmt.Errorf("%w: -run: the topology has no node %q", errUsage, c.node)
		}
		fmt.Fprintf(out, "%s: %s\n", c.node, c.line)
		if err := n.Follow(c.line, out); err != nil {
			return err
		}
	}
	return nil
}
