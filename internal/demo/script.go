package demo

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// step is one cause and what the router must see of it.
type step struct {
	what string
	do   func() error
	seen string
	cond func(rows map[string]string) bool
}

// script goes through the life of one host.
func (d *demo) script(ctx context.Context) error {
	steps := []step{
		{"lb-1 is started", d.host.start, "both VIPs announced", has(true, atmVIP, posVIP)},
		{"first atm server answers 503", d.sicken(0), "nothing: one server is enough", nil},
		{"second atm server answers 503", d.sicken(1), "atm withdrawn, pos untouched", func(rows map[string]string) bool {
			return !have(rows, atmVIP) && have(rows, posVIP)
		}},
		{"second atm server is well again", d.heal(1), "atm announced", has(true, atmVIP)},
		{"lb-1 is killed (kill -9)", d.kill, "both VIPs gone", has(false, atmVIP, posVIP)},
		{"lb-1 is started again", d.host.start, "both VIPs announced", has(true, atmVIP, posVIP)},
		{"lb-1 is asked to stop (SIGTERM)", d.askToStop, "GRACEFUL_SHUTDOWN and the worst rank", marked(atmVIP, "GRACEFUL_SHUTDOWN")},
		{"it drains for 1 s", nil, "both VIPs withdrawn", has(false, atmVIP, posVIP)},
	}
	for _, s := range steps {
		if err := d.play(ctx, s); err != nil {
			return err
		}
	}
	return d.ended(limit)
}

func (d *demo) play(ctx context.Context, s step) error {
	d.say("%s", s.what)
	start := time.Now()
	if s.do != nil {
		if err := s.do(); err != nil {
			return err
		}
	}
	if s.cond == nil {
		return d.nothing(ctx, s, start)
	}
	at, err := d.watch.wait(ctx, s.seen, limit, s.cond)
	if err != nil {
		return fmt.Errorf("%s: %w", s.what, err)
	}
	d.table = append(d.table, line{start.Sub(d.watch.start), at.Sub(start), s.what, s.seen})
	return nil
}

// nothing proves that a cause moves no route for well over the time in which
// the checks would have acted.
func (d *demo) nothing(ctx context.Context, s step, start time.Time) error {
	const quiet = 1500 * time.Millisecond
	_, err := d.watch.wait(ctx, s.seen, quiet, func(rows map[string]string) bool { return !have(rows, atmVIP) })
	if err == nil {
		return fmt.Errorf("%s: the route moved", s.what)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	d.table = append(d.table, line{start.Sub(d.watch.start), quiet, s.what, s.seen})
	return nil
}

func (d *demo) sicken(i int) func() error {
	return func() error { d.atm[i].sick.Store(true); return nil }
}

func (d *demo) heal(i int) func() error {
	return func() error { d.atm[i].sick.Store(false); return nil }
}

func (d *demo) kill() error { return d.host.end(syscall.SIGKILL, limit) }

func (d *demo) askToStop() error {
	if err := d.host.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping lb-1: %w", err)
	}
	return nil
}

// ended waits for a daemon that was asked to stop.
func (d *demo) ended(limit time.Duration) error {
	select {
	case err := <-d.host.done:
		d.host.cmd = nil
		if err != nil {
			return fmt.Errorf("lb-1 did not end in order: %w", err)
		}
		return nil
	case <-time.After(limit):
		return fmt.Errorf("lb-1 has not ended after %s", limit)
	}
}

// keep starts the host again and lets the atm servers fail and heal in turn
// until ctx ends.
func (d *demo) keep(ctx context.Context) error {
	d.say("\nGoing on until Ctrl-C; both atm servers fail for 5 s in every 15 s.")
	if err := d.host.start(); err != nil {
		return err
	}
	const period, sickFor = 15 * time.Second, 5 * time.Second
	for sick := false; ; sick = !sick {
		d.atm[0].sick.Store(sick)
		d.atm[1].sick.Store(sick)
		pause := period - sickFor
		if sick {
			pause = sickFor
			d.say("both atm servers answer 503")
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.host.done:
			d.host.cmd = nil
			return fmt.Errorf("lb-1 ended by itself: %w", err)
		case <-time.After(pause):
		}
	}
}
