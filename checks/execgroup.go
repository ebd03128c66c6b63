package checks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// group is a command and all processes it started that stayed in its process
// group.
type group struct {
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the command ended; it is not reaped then
	flooded chan struct{} // closed when it printed too much
	out     *stream
	errout  *stream
}

// startGroup starts a command in a process group of its own, with nothing to
// read. It is a session of its own as well: where the kernel shares processors
// out by session (sched(7), autogroup), a command that computes a lot then takes
// nothing from the daemon's share.
func startGroup(argv, env []string) (*group, error) {
	g := &group{
		cmd:     exec.Command(argv[0], argv[1:]...),
		exited:  make(chan struct{}),
		flooded: make(chan struct{}),
	}
	g.cmd.Env = env
	g.cmd.Dir = "/"
	g.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	var once sync.Once
	flood := func() { once.Do(func() { close(g.flooded) }) }
	var err error
	if g.out, err = newStream(flood); err != nil {
		return nil, err
	}
	if g.errout, err = newStream(flood); err != nil {
		return nil, errors.Join(err, g.out.discard())
	}
	g.cmd.Stdout, g.cmd.Stderr = g.out.w, g.errout.w
	if err := g.cmd.Start(); err != nil {
		return nil, errors.Join(err, g.out.discard(), g.errout.discard())
	}
	ordinary(g.cmd.Process.Pid)
	go g.out.drain()
	go g.errout.drain()
	go func() {
		defer close(g.exited)
		waitDead(g.cmd.Process.Pid)
	}()
	return g, nil
}

// ordinary gives a process group the priority of everybody, where the daemon has
// more: that is for announcing.
func ordinary(pgid int) {
	const zero = 20 // the system call's form of nice 0; more is more
	if own, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && own > zero {
		_ = unix.Setpriority(unix.PRIO_PGRP, pgid, 0) // may have ended; to give up priority is allowed
	}
}

// waitDead waits until a child has ended, and leaves it unreaped: its number,
// which is that of the process group, then still belongs to nobody else.
func waitDead(pid int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// finish kills what is left of the group, reaps the command and collects its
// output. A process that left the group may hold the output open for ever; it
// is waited for only briefly.
func (g *group) finish() *os.ProcessState {
	g.kill()
	<-g.exited
	g.kill() // what the command started between the first signal and its end
	err := g.cmd.Wait()
	g.out.finish()
	g.errout.finish()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		return nil
	}
	return g.cmd.ProcessState
}

// kill signals the whole group. That there is nothing left to kill is fine.
func (g *group) kill() { _ = unix.Kill(-g.cmd.Process.Pid, unix.SIGKILL) }

// firstLine is what the command says for people: the first line of its
// output, or else of its error output, without performance data.
func (g *group) firstLine() string {
	for _, s := range []*stream{g.out, g.errout} {
		text, _, _ := strings.Cut(oneLine(s.head(), execLineLimit), "|")
		if text = strings.TrimSpace(text); text != "" {
			return text
		}
	}
	return ""
}

// stream reads one output of a command and keeps its beginning.
type stream struct {
	r, w  *os.File
	flood func()
	done  chan struct{}

	mu   sync.Mutex
	kept []byte
}

func newStream(flood func()) (*stream, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	return &stream{r: r, w: w, flood: flood, done: make(chan struct{})}, nil
}

// discard gives up a stream that no command uses.
func (s *stream) discard() error { return errors.Join(s.r.Close(), s.w.Close()) }

// drain reads until the end or until too much has come. Reading on is what
// keeps a talkative command from blocking; stopping is what keeps an endless
// one from using up a core.
func (s *stream) drain() {
	defer close(s.done)
	_ = s.w.Close() // the command has its own; only the reading end matters here
	buf := make([]byte, execKeepLimit)
	for total := 0; total <= execOutputLimit; {
		n, err := s.r.Read(buf)
		total += n
		s.keep(buf[:n])
		if err != nil {
			return // the end, or finish does not wait any longer
		}
	}
	s.flood()
}

func (s *stream) keep(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, b[:min(len(b), execKeepLimit-len(s.kept))]...)
}

func (s *stream) head() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// finish ends the stream once its command is gone.
func (s *stream) finish() {
	// The rest of the output is in the pipe already. Only a process outside
	// the group can add to it, and gets this long.
	_ = s.r.SetReadDeadline(time.Now().Add(execPipeWait)) // pipes take deadlines
	<-s.done
	_ = s.r.Close() // everything was read
}
