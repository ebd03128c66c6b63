package daemon

import (
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"rhid/announce/kernel"
)

// alive returns a function that says whether the event loop and the checks have
// both made progress since it last said yes. Each caller needs its own: what it
// does in the name of a living daemon, it must not do for one that hangs.
func (d *Daemon) alive() func() bool {
	var turns, beats uint64
	return func() bool {
		t, b := d.turns.Load(), d.runner.Progress()
		if t == turns || b == beats {
			return false
		}
		turns, beats = t, b
		return true
	}
}

// guardPause is how long to wait before a guard that ended is started again.
const guardPause = time.Second

// keepLease renews the lease of the announcement routes, and keeps the process
// that takes them out when nobody does.
func (d *Daemon) keepLease(ctx context.Context, s kernel.Settings) error {
	g, ctx := errgroup.WithContext(ctx)
	began := make(chan struct{})
	g.Go(func() error { return d.world.KeepLease(ctx, d.alive(), func() { close(began) }) })
	g.Go(func() error {
		select {
		case <-began:
			d.keepGuard(ctx, s)
		case <-ctx.Done():
		}
		return nil
	})
	return g.Wait()
}

func (d *Daemon) keepGuard(ctx context.Context, s kernel.Settings) {
	if len(d.opts.Guard) == 0 {
		return
	}
	argv := slices.Concat(d.opts.Guard, []string{"--protocol", strconv.Itoa(s.Protocol), "--label", s.Label})
	for ctx.Err() == nil {
		if err := runGuard(ctx, argv); ctx.Err() == nil {
			d.log.Error("the guard of the lease ended, starting it again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(guardPause):
		}
	}
}

// runGuard runs one guard. The pipe to it, on which nothing is ever said, ends
// with this process.
func runGuard(ctx context.Context, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Args[0] = "rhid" // for people who look at processes
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for rhid
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer io.Closer(in).Close()
	return cmd.Run()
}
