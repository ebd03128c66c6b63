package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// childEnv makes the test binary run a daemon: "file node". Each daemon under
// test is a process of its own, because GoBGP keeps package state: two
// speakers in one process would race for it.
const childEnv = "RHID_TEST_DAEMON"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		os.Exit(child(what))
	}
	os.Exit(m.Run())
}

// child runs a daemon whose signals mean what they mean to rhid run.
func child(what string) int {
	var file, node string
	if _, err := fmt.Sscan(what, &file, &node); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	stop, reload := make(chan struct{}, 3), make(chan struct{}, 1)
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range sigs {
			if s == syscall.SIGHUP {
				reload <- struct{}{}
			} else {
				stop <- struct{}{}
			}
		}
	}()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	opts := Options{File: file, Node: node, Version: "test", Log: log, Stop: stop, Reload: reload, Wall: func() time.Time { return steppedClock(file) }}
	if err := Run(context.Background(), opts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// steppedClock is the wall clock, off by as much as a file beside the
// configuration says.
func steppedClock(file string) time.Time {
	b, err := os.ReadFile(file + ".clock")
	if err != nil {
		return time.Now()
	}
	off, err := time.ParseDuration(string(b))
	if err != nil {
		return time.Time{}
	}
	return time.Now().Round(0).Add(off)
}

// process is a daemon that runs.
type process struct {
	t    *testing.T
	node string
	cmd  *exec.Cmd
	log  *os.File
	done chan error
	over bool
}

// spawn starts a daemon; it is killed when the test ends.
func spawn(t *testing.T, file, node string) *process {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), node+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, node: node, log: log, done: make(chan error, 1), cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childEnv+"="+file+" "+node, "GODEBUG=multipathtcp=0")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() || os.Getenv("RHID_TEST_LOGS") != "" {
			b, err := os.ReadFile(log.Name())
			t.Logf("log of %s (%v):\n%s", node, err, b)
		}
		log.Close() //nolint:errcheck,gosec // read already
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Errorf("%s: %v", p.node, err)
	}
}

// kill ends the daemon without a word.
func (p *process) kill() {
	if p.over {
		return
	}
	p.signal(syscall.SIGKILL)
	<-p.done //nolint:errcheck // killed
	p.over = true
}

// ended waits for a daemon that was asked to stop.
func (p *process) ended() {
	p.t.Helper()
	select {
	case err := <-p.done:
		p.over = true
		if err != nil {
			p.t.Errorf("%s: %v", p.node, err)
		}
	case <-time.After(limit):
		p.t.Errorf("%s does not end", p.node)
	}
}
