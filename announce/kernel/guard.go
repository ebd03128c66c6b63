package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Guard takes announcement routes out of the kernel when the lease is missed. It
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
	watch := leaseWatch{renewed: time.Now()}
	var orphaned time.Time
	for {
		missed, err := watch.look(k, time.Now())
		if missed {
			err = w.takeOut(ctx)
		}
		if err != nil {
			log.Error("the guard of the lease failed, and tries again", "error", err)
		}
		switch {
		case orphaned.IsZero():
		case missed && err == nil, time.Since(orphaned) > 2*leaseLife:
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

// leaseWatch is what the guard has seen of the lease.
type leaseWatch struct {
	stamp   uint32
	looked  time.Time
	renewed time.Time // when the stamp was first seen
}

// look says whether the lease was missed. Time that the guard stood still itself,
// with the whole host as a rule, does not count: rhid could not renew it either,
// and whoever goes on first must not count against the other.
func (l *leaseWatch) look(k stack, now time.Time) (missed bool, err error) {
	if gap := now.Sub(l.looked); !l.looked.IsZero() && gap > 2*leaseLook {
		l.renewed = l.renewed.Add(gap - leaseLook)
	}
	l.looked = now
	stamp, there, err := k.leaseStamp()
	if err != nil {
		return false, err
	}
	if there && stamp != l.stamp {
		l.stamp, l.renewed = stamp, now
	}
	return now.Sub(l.renewed) >= leaseMissed, nil
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
			w.log.Warn("the lease was not renewed: took a route out", "route", r.String())
		}
	}
	return errors.Join(errs...)
}
