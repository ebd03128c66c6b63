package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"rhid/announce"
)

// Put implements announce.Target: the new form first, then out with the other.
func (t *addresses) Put(ctx context.Context, r announce.Route) error {
	c := t.w.conf.Load()
	if err := c.admit(r.Prefix); err != nil {
		return fmt.Errorf("make VIP local: %w", err)
	}
	if r.Local == announce.LocalAddress && !r.Prefix.IsSingleIP() {
		return fmt.Errorf("make VIP local: %s is not a single address", r.Prefix)
	}
	if err := t.know(ctx, c); err != nil {
		return err
	}
	l := t.own[r.Prefix]
	if l == nil {
		l = &local{}
		t.own[r.Prefix] = l
	}
	switch r.Local {
	case announce.LocalAddress:
		return t.putAddress(ctx, c, r.Prefix, l)
	case announce.LocalAnyIP:
		return t.putAnyIP(c, r.Prefix, l)
	}
	return fmt.Errorf("make %s local: no way to do so is asked for", r.Prefix)
}

func (t *addresses) know(ctx context.Context, c *conf) error {
	if t.own != nil {
		return nil
	}
	own, err := t.list(ctx, c)
	t.own = own
	return err
}

func (t *addresses) putAddress(ctx context.Context, c *conf, p key, l *local) error {
	want := c.address(p)
	err := t.w.stack.addAddr(want)
	if errors.Is(err, unix.EEXIST) {
		return t.putOverAddress(ctx, c, p, want)
	}
	if err != nil {
		return t.w.explain("add address "+want.String(), err)
	}
	delete(t.borrowed, p)
	l.addrs = append(l.addrs, want)
	if p.Addr().Is6() {
		return nil // not local yet: what made it local until now goes at the next comparison
	}
	return t.dropAnyIP(l, route{})
}

// putOverAddress deals with an address that is on lo already. One of rhid's
// whose local route somebody deleted, or that has an old mark, is added anew:
// nothing else brings the route back.
func (t *addresses) putOverAddress(ctx context.Context, c *conf, p key, want addr) error {
	own, err := t.list(ctx, c)
	if err != nil {
		return err
	}
	t.own = own
	l := own[p]
	if l == nil || len(l.addrs) == 0 {
		if l != nil && l.lent {
			t.borrowed[p] = true
			return t.dropAnyIP(l, route{})
		}
		return errVanished(want)
	}
	since, missing := t.missing[p]
	if c.outdated(l.addrs[0]) || !l.routed && missing && time.Since(since) >= routeGrace {
		if err := t.renew(l.addrs[0], want); err != nil {
			return err
		}
		l.addrs = []addr{want}
		delete(t.missing, p)
		return nil
	}
	if !l.routed {
		return nil // will be, or be renewed
	}
	return t.dropAnyIP(l, route{})
}

func (t *addresses) renew(old, want addr) error {
	if err := t.w.stack.delAddr(old); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("delete address %s to add it anew: %w", old, err)
	}
	if err := t.w.stack.addAddr(want); err != nil {
		return t.w.explain("add address "+want.String(), err)
	}
	return nil
}

func (t *addresses) putAnyIP(c *conf, p key, l *local) error {
	want := c.anyIP(p)
	if err := t.w.putRoute(c, want); err != nil {
		return err
	}
	errs := []error{t.dropAnyIP(l, want)}
	l.anyIP = append(l.anyIP, want)
	errs = append(errs, t.dropAddrs(l))
	return errors.Join(errs...)
}

// dropAnyIP takes rhid's local routes out, but for keep.
func (t *addresses) dropAnyIP(l *local, keep route) error {
	var left []route
	var errs []error
	for _, r := range l.anyIP {
		if r.table == keep.table && r.metric == keep.metric {
			continue // keep is in its place
		}
		if err := t.w.deleteRoute(r); err != nil {
			errs = append(errs, err)
			left = append(left, r)
		}
	}
	l.anyIP = left
	return errors.Join(errs...)
}

// dropAddrs takes rhid's addresses out. One that is gone, or is no longer
// rhid's, is no error.
func (t *addresses) dropAddrs(l *local) error {
	var left []addr
	var errs []error
	for _, a := range l.addrs {
		if err := t.w.stack.delAddr(a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			errs = append(errs, fmt.Errorf("delete address %s: %w", a, err))
			left = append(left, a)
		}
	}
	l.addrs = left
	return errors.Join(errs...)
}

// Remove implements announce.Target. It never takes out what is somebody
// else's.
func (t *addresses) Remove(ctx context.Context, p netip.Prefix) error {
	if err := t.know(ctx, t.w.conf.Load()); err != nil {
		return err
	}
	delete(t.borrowed, p)
	l := t.own[p]
	if l == nil {
		return nil
	}
	return errors.Join(t.dropAddrs(l), t.dropAnyIP(l, route{}))
}
