package demo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// host is one rhid daemon, a child process.
type host struct {
	exe, name, file, dir string
	cmd                  *exec.Cmd
	done                 chan error
	ending               bool // it was asked to stop
}

// start runs the daemon with its log in a file.
func (h *host) start() error {
	log, err := os.OpenFile(h.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", h.name, err)
	}
	defer log.Close() //nolint:errcheck // the child has its own
	h.cmd = exec.Command(h.exe, "run", "--config", h.file, "--node", h.name)
	h.cmd.Stdout, h.cmd.Stderr = log, log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := h.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", h.name, err)
	}
	h.done = make(chan error, 1)
	go func() { h.done <- h.cmd.Wait() }()
	return nil
}

func (h *host) log() string { return filepath.Join(h.dir, h.name+".log") }

// signal sends a signal. After SIGTERM the daemon is expected to end.
func (h *host) signal(s syscall.Signal) error {
	if err := h.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signalling %s: %w", h.name, err)
	}
	h.ending = h.ending || s == syscall.SIGTERM
	return nil
}

// end sends a signal that ends the daemon, and waits until it is gone.
func (h *host) end(s syscall.Signal, limit time.Duration) error {
	if h.cmd == nil {
		return nil
	}
	if err := h.signal(s); err != nil {
		return err
	}
	_, err := h.wait(limit)
	return err
}

// reap waits for a daemon that was asked to stop; one that ended by itself is
// an error.
func (h *host) reap(limit time.Duration) error {
	if h.cmd == nil {
		return nil
	}
	if h.ending {
		bad, err := h.wait(limit)
		if bad != nil {
			return fmt.Errorf("%s did not end in order: %w", h.name, bad)
		}
		return err
	}
	select {
	case err := <-h.done:
		h.cmd = nil
		return fmt.Errorf("%s ended by itself: %w", h.name, err)
	default:
		return nil
	}
}

// wait returns how the daemon ended.
func (h *host) wait(limit time.Duration) (how, late error) {
	select {
	case how = <-h.done:
		h.cmd, h.ending = nil, false
		return how, nil
	case <-time.After(limit):
		return nil, fmt.Errorf("%s has not ended after %s", h.name, limit)
	}
}
