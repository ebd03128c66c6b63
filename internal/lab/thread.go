package lab

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// errClosed is what a node's methods return once its lab is down.
var errClosed = errors.New("the lab is down")

// thread runs functions one at a time on an OS thread of its own, which may be
// in other namespaces than the rest of the process. The OS thread ends with it.
type thread struct {
	work chan func()
	quit chan struct{}
	done chan struct{}
}

// newThread starts a thread and runs setup on it; where setup fails there is
// no thread.
func newThread(setup func() error) (*thread, error) {
	t := &thread{work: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	ready := make(chan error)
	onOwnThread(func() {
		defer close(t.done)
		err := setup()
		ready <- err
		if err != nil {
			return
		}
		for {
			select {
			case f := <-t.work:
				f()
			case <-t.quit:
				return
			}
		}
	})
	if err := <-ready; err != nil {
		<-t.done
		return nil, err
	}
	return t, nil
}

// onOwnThread runs f in a goroutine with an OS thread of its own, which ends
// with f, whatever namespaces it is in by then. It is never the process's first
// thread: that one never ends, and /proc/self shows its namespaces.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return // locked, so the runtime ends the thread
		}
		elsewhere := make(chan struct{})
		go func() { // on another thread, since this one is taken
			runtime.LockOSThread()
			close(elsewhere)
			f()
		}()
		<-elsewhere
		runtime.UnlockOSThread()
	}()
}

// do runs f on the thread and waits for it. f must not end its goroutine, so no
// testing.TB.Fatal in it.
func (t *thread) do(f func()) error {
	ran := make(chan struct{})
	select {
	case t.work <- func() { defer close(ran); f() }:
		<-ran
		return nil
	case <-t.done:
		return errClosed
	}
}

// stop ends the thread; it must be called once.
func (t *thread) stop() {
	close(t.quit)
	<-t.done
}

// holder is the process that keeps a node's namespaces: pid 1 in them. It does
// nothing, has the kernel reap orphans for it (SIGCHLD ignored), and dies with
// the thread that started it.
type holder struct {
	cmd   *exec.Cmd
	pidfd int
}

// startHolder must run on the thread that shall live as long as the node.
func startHolder() (*holder, error) {
	cmd := exec.Command("env", "--ignore-signal=CHLD", "cat")
	// The pipe is never written to. It ends with this process, which covers the
	// moment before the child has asked for its death signal.
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("making the holder's pipe: %w", err)
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the holder of the namespaces (needs root): %w", err)
	}
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the holder: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	return &holder{cmd: cmd, pidfd: fd}, nil
}

// pid is the holder's, as the host sees it.
func (h *holder) pid() int { return h.cmd.Process.Pid }

// enter moves the calling thread into the holder's namespaces named by flags.
// Children of the thread are then in its pid namespace too, where asked for.
func (h *holder) enter(flags int) error {
	if flags&unix.CLONE_NEWNS != 0 {
		// a thread shares its root and working directory with the process
		// until it says otherwise, and setns refuses while it does
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("unsharing the working directory: %w", err)
		}
	}
	if err := unix.Setns(h.pidfd, flags); err != nil {
		return fmt.Errorf("entering namespaces of process %d: %w", h.pid(), err)
	}
	return nil
}

// kill ends the holder and with it all that runs in its pid namespace, and
// waits until it is gone.
func (h *holder) kill() error {
	err := h.cmd.Process.Kill()
	var exit *exec.ExitError
	if werr := h.cmd.Wait(); werr != nil && !errors.As(werr, &exit) {
		err = errors.Join(err, werr)
	}
	return errors.Join(err, unix.Close(h.pidfd))
}
