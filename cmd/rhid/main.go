// GoBGP v3 cannot set MD5 or the TTL on a multipath TCP listener, which Go
// opens by default (osrg/gobgp PR 3021 came after v3).
//
//go:debug multipathtcp=0

// Command rhid is a route health injection daemon: it checks a load balancer's
// services and announces or withdraws their anycast VIPs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Exit statuses of every command.
const (
	exitNo          = 1 // no, or failed
	exitUsage       = 2 // wrong usage or configuration
	exitUnreachable = 3 // the daemon, or that of another node that was asked for, does not answer
)

// exitError carries the exit status a command wants to end with. A nil err
// ends silently: the command has printed what there was to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRootCmd()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return 0
	}
	var ee *exitError
	if !errors.As(err, &ee) {
		ee = &exitError{code: exitUsage, err: err} // cobra's own: unknown flag, wrong arguments
	}
	if ee.err != nil {
		fmt.Fprintln(stderr, "rhid:", ee.err)
	}
	return ee.code
}
