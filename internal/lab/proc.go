package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	runLimit   = 60 * time.Second // of a command that should end by itself
	pipeLimit  = 2 * time.Second  // for output after the command itself has ended
	outputKept = 1 << 20          // bytes of a process's output, the last ones
)

// command makes an exec.Cmd of the node. It must run on the exec thread, where
// the first word is looked up and /dev/null is the node's.
func (n *Node) command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	env := joinMaps(map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": "/root", "HOSTNAME": n.Name, "LANG": "C.UTF-8", "TERM": "dumb",
	}, joinMaps(n.spec.Env, n.lab.opts.Env))
	cmd.Env = nil
	for _, k := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, k+"="+env[k])
	}
	cmd.WaitDelay = pipeLimit                            // a daemon that keeps its output open does not hold us up
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for us, not for the node
	return cmd
}

// Run runs a command in the node to its end, at most a minute, and returns its
// standard output. The error tells the command and what it said.
func (n *Node) Run(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(n.lab.ctx, runLimit)
	defer cancel()
	return n.RunContext(ctx, argv...)
}

// RunContext is Run with an end of its own.
func (n *Node) RunContext(ctx context.Context, argv ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	var cmd *exec.Cmd
	var err error
	derr := n.exec.do(func() {
		cmd = n.command(ctx, argv)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err = cmd.Start()
	})
	if err = errors.Join(derr, err); err == nil {
		err = cmd.Wait()
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return stdout.String(), fmt.Errorf("%s: %s: %w: %s", n.Name, strings.Join(argv, " "), err,
			strings.TrimSpace(stderr.String()+stdout.String()))
	}
	return stdout.String(), nil
}

// Must is Run; an error fails the test.
func (n *Node) Must(argv ...string) string {
	n.lab.tb.Helper()
	out, err := n.Run(argv...)
	if err != nil {
		n.lab.tb.Fatalf("%v", err)
	}
	return out
}

// Proc is a process started in a node.
type Proc struct {
	Name string

	node *Node
	cmd  *exec.Cmd
	out  *tail
	done chan struct{}
	err  error // of Wait, valid once done is closed
}

// Start starts a command that goes on, under a name for the logs. It is killed
// with the lab.
func (n *Node) Start(name string, argv ...string) *Proc {
	n.lab.tb.Helper()
	p, err := n.start(name, argv)
	if err != nil {
		n.lab.tb.Fatalf("%v", err)
	}
	return p
}

func (n *Node) start(name string, argv []string) (*Proc, error) {
	return n.startTo(name, argv, io.Discard)
}

// startTo starts a command whose output also goes to w.
func (n *Node) startTo(name string, argv []string, w io.Writer) (*Proc, error) {
	p := &Proc{Name: name, node: n, out: &tail{limit: outputKept}, done: make(chan struct{})}
	var err error
	derr := n.exec.do(func() {
		p.cmd = n.command(context.Background(), argv)
		both := io.MultiWriter(p.out, w)
		p.cmd.Stdout, p.cmd.Stderr = both, both
		err = p.cmd.Start()
	})
	if err = errors.Join(derr, err); err != nil {
		return nil, fmt.Errorf("%s: starting %s: %w", n.Name, strings.Join(argv, " "), err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	n.mu.Lock()
	n.procs = append(n.procs, p)
	n.mu.Unlock()
	return p, nil
}

// Follow starts a command line of the node's shell that goes on, and copies what
// it prints to w, each line behind the node's name. w is used until the lab ends.
func (n *Node) Follow(line string, w io.Writer) error {
	r, pw := io.Pipe()
	p, err := n.startTo(line, []string{"sh", "-c", line}, pw)
	if err != nil {
		return err
	}
	go func() {
		<-p.done
		pw.CloseWithError(io.EOF)
	}()
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			fmt.Fprintf(w, "%s: %s\n", n.Name, lines.Text())
		}
		r.CloseWithError(lines.Err()) // a line too long: the command's next write fails
	}()
	return nil
}

// Pid returns the process id as the host sees it.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal; that the process has ended already is no error.
func (p *Proc) Signal(s syscall.Signal) {
	p.node.lab.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.node.lab.tb.Fatalf("%s: %s: signal %v: %v", p.node.Name, p.Name, s, err)
	}
}

// Stop freezes the process (SIGSTOP).
func (p *Proc) Stop() { p.Signal(syscall.SIGSTOP) }

// Cont lets it go on.
func (p *Proc) Cont() { p.Signal(syscall.SIGCONT) }

// Kill kills it (SIGKILL) and waits until it is gone.
func (p *Proc) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Wait waits for the end of the process, at most as long as limit, and returns
// how it ended; nil is exit status 0.
func (p *Proc) Wait(limit time.Duration) error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		return fmt.Errorf("%s: %s has not ended within %v", p.node.Name, p.Name, limit)
	}
}

// Running says whether the process has not ended.
func (p *Proc) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Output returns what the process has printed, the last mebibyte of it.
func (p *Proc) Output() string { return p.out.String() }

// tail keeps the last bytes written to it.
type tail struct {
	mu    sync.Mutex
	buf   []byte
	limit int
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = slices.Delete(t.buf, 0, over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// Pids returns the processes of the node with a name (the kernel's, 15 bytes:
// "bgpd"), as the host numbers them, in order.
func (n *Node) Pids(name string) []int {
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", n.hold.pid()))
	if err != nil {
		return nil
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var pids []int
	for _, d := range dirs {
		comm, err := os.ReadFile(d + "/comm")
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue // also when it ended meanwhile
		}
		pid, aerr := strconv.Atoi(filepath.Base(d))
		if ns, err := os.Readlink(d + "/ns/pid"); err == nil && aerr == nil && ns == want {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// SignalAll sends a signal to the node's processes with a name. That there is
// none fails the test.
func (n *Node) SignalAll(name string, s syscall.Signal) {
	n.lab.tb.Helper()
	pids := n.Pids(name)
	if len(pids) == 0 {
		n.lab.tb.Fatalf("%s: no process %s to send %v", n.Name, name, s)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			n.lab.tb.Fatalf("%s: %s (%d): signal %v: %v", n.Name, name, pid, s, err)
		}
	}
}

// Freeze stops the node's processes with a name (SIGSTOP). FRR's watchfrr takes
// a daemon that is frozen for 90 s for dead and restarts it.
func (n *Node) Freeze(name string) { n.SignalAll(name, syscall.SIGSTOP) }

// Thaw lets them go on.
func (n *Node) Thaw(name string) { n.SignalAll(name, syscall.SIGCONT) }

// KillAll kills them (SIGKILL).
func (n *Node) KillAll(name string) { n.SignalAll(name, syscall.SIGKILL) }
