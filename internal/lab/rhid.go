package lab

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	rhidInNode = "/usr/bin/rhid"       // where the topologies bind it
	rhidSocket = "/run/rhid/rhid.sock" // its default
	rhidReady  = time.Minute           // until it answers on the socket
)

// BuildRhid builds the command rhid and returns its path, for Options.Rhid.
// Where RHID_BIN is set that file is taken as it is. race builds with the race
// detector. Building again what has not changed is quick.
func BuildRhid(tb testing.TB, race bool) string {
	tb.Helper()
	if bin := os.Getenv("RHID_BIN"); bin != "" {
		return bin
	}
	root, err := moduleRoot()
	if err != nil {
		tb.Fatalf("building rhid: %v", err)
	}
	args, name := []string{"build"}, "rhid"
	if race {
		args, name = append(args, "-race"), "rhid-race"
	}
	bin := filepath.Join(root, "bin", name)
	cmd := exec.Command("go", append(args, "-o", bin, "./cmd/rhid")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("building rhid: %v\n%s", err, out)
	}
	return bin
}

// moduleRoot is the folder of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// StartRhid starts `rhid run` in the node with a configuration file of the node
// (see WriteFile) and waits until it answers on its control socket. Arguments
// follow those. That it ends with the race detector's report, or ends before it
// answers, fails the test.
func (n *Node) StartRhid(config string, args ...string) *Proc {
	n.lab.tb.Helper()
	p := n.Start("rhid", slices.Concat([]string{rhidInNode, "run", "--config", config}, args)...)
	n.lab.WaitFor("rhid on "+n.Name+" answering on its socket", rhidReady, func() bool {
		if !p.Running() {
			n.lab.tb.Fatalf("%s: rhid ended at once (%v):\n%s", n.Name, p.Wait(0), p.Output())
		}
		return n.answers(rhidSocket)
	})
	n.lab.tb.Cleanup(func() {
		if strings.Contains(p.Output(), "WARNING: DATA RACE") {
			n.lab.tb.Errorf("%s: rhid has a data race:\n%s", n.Name, p.Output())
		}
	})
	return p
}

// answers says whether something accepts on a unix socket of the node.
func (n *Node) answers(path string) bool {
	var err error
	derr := n.exec.do(func() {
		var c net.Conn
		if c, err = net.Dial("unix", path); err == nil {
			err = c.Close()
		}
	})
	return derr == nil && err == nil
}

// StopRhid asks rhid to end (SIGTERM) and waits for it; longer than limit fails
// the test. It returns how long it took.
func (n *Node) StopRhid(p *Proc, limit time.Duration) time.Duration {
	n.lab.tb.Helper()
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	if err := p.Wait(limit); err != nil {
		n.lab.tb.Fatalf("stopping rhid: %v", err)
	}
	return time.Since(began)
}

// Rhid runs a command of rhid in the node, for instance ("status", "-o", "json"),
// and returns what it printed. A failure fails the test; use Run to allow it.
func (n *Node) Rhid(args ...string) string {
	n.lab.tb.Helper()
	return n.Must(append([]string{rhidInNode}, args...)...)
}
