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

// end sends a signal and waits until the daemon is gone.
func (h *host) end(s syscall.Signal, limit time.Duration) error {
	if h.cmd == nil {
		return nil
	}
	if err := h.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("ending %s: %w", h.name, err)
	}
	defer func() { h.cmd = nil }()
	select {
	case err := <-h.done:
		if s == syscall.SIGTERM && err != nil {
			return fmt.Errorf("%s did not end in order: %w", h.name, err)
		}
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s has not ended %s after signal %s", h.name, limit, s)
	}
}
