package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Guard takes announcement routes out of the kernel when the lease has lapsed. It
// runs in a process of its own, whose parent holds the lease: a parent that is
// dead or stopped cannot do it. parent is closed when the parent is gone; Guard
// then returns once the routes are out, or once it is clear that another life of
// rhid keeps the lease.
func Guard(ctx context.Context, s Settings, parent <-chan struct{}, log *slog.Logger) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("kernel settings: %w", err)
	}
	k, err := openRtnetlink()
	if err != nil {
		return err
	}
	defer k.close()
	return guard(ctx, k, s, parent, log)
}

func guard(ctx context.Context, k stack, s Settings, parent <-chan struct{}, log *slog.Logger) error {
	w := newWorld(k, s, log)
	ticker := time.NewTicker(leaseLook)
	defer ticker.Stop()
	var orphaned time.Time
	missing := 0 // looks in a row; one may be somebody's who took the address, and rhid is about to put it back
	for {
		there, err := w.leaseThere()
		if missing++; there || err != nil {
			missing = 0
		}
		lapsed := missing > 1
		if lapsed {
			err = w.takeOut(ctx)
		}
		if err != nil {
			log.Error("the guard of the lease failed, and tries again", "error", err)
		}
		switch {
		case orphaned.IsZero():
		case lapsed && err == nil, time.Since(orphaned) > 2*leaseLife:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-parent:
			parent, orphaned = nil, time.Now()
		case <-ticker.C:
		}
	}
}

func (w *World) leaseThere() (bool, error) {
	as, err := w.stack.addrs()
	return slices.ContainsFunc(as, func(a addr) bool { return a.link == loopback && a.prefix == leaseAddress() }), err
}

// takeOut deletes all announcement routes.
func (w *World) takeOut(ctx context.Context) error {
	own, err := w.route.list(ctx, w.conf.Load())
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range sortedPrefixes(own) {
		for _, r := range own[p] {
			errs = append(errs, w.deleteRoute(r))
			w.log.Warn("the lease has lapsed: took a route out", "route", r.String())
		}
	}
	return errors.Join(errs...)
}
