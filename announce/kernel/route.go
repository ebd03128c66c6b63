package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"rhid/announce"
)

// routes is the target "kernel": one announcement route for each prefix.
type routes struct {
	w       *World
	changes chan struct{}
	own     map[netip.Prefix][]route    // as of the last Read, Put and Remove; nil before
	changed map[netip.Prefix]lastChange // rhid's last change of the route, while that matters
	confirmation
}

// Name returns "kernel".
func (t *routes) Name() string { return "kernel" }

// Changes implements announce.Target.
func (t *routes) Changes() <-chan struct{} { return t.changes }

// Read implements announce.Target. It returns every route with rhid's protocol
// number, in whatever table, but the AnyIP routes of the target "address"; and what the
// routing daemons have, where they are asked.
func (t *routes) Read(ctx context.Context) (map[netip.Prefix]announce.Seen, error) {
	c := t.w.conf.Load()
	own, err := t.list(ctx, c)
	if err != nil {
		return nil, err
	}
	devices, err := t.w.tierDevices(c)
	if err != nil {
		return nil, err
	}
	t.own = own
	t.forgetChanges(c)
	seen := make(map[netip.Prefix]announce.Seen, len(own))
	for p, rs := range own {
		seen[p] = c.seeRoutes(p, rs, devices)
	}
	t.add(c, own, seen)
	return seen, nil
}

func (t *routes) list(ctx context.Context, c *conf) (map[netip.Prefix][]route, error) {
	own := map[netip.Prefix][]route{}
	for _, proto := range c.protos {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		rs, err := t.w.stack.routes(routeFilter{proto: proto})
		if err != nil {
			return nil, err
		}
		for _, r := range rs {
			if !isAnyIP(r) {
				own[r.dst] = append(own[r.dst], r)
			}
		}
	}
	return own, nil
}

// seeRoutes describes rhid's routes rs to p, at least one. The one with the
// lowest metric in the configured table is what routers see; the rest is left
// over.
func (c *conf) seeRoutes(p netip.Prefix, rs []route, devices []device) announce.Seen {
	rs = slices.SortedFunc(slices.Values(rs), func(a, b route) int {
		return cmp.Or(-compareBool(a.table == c.Table, b.table == c.Table),
			cmp.Compare(a.table, b.table), cmp.Compare(a.metric, b.metric))
	})
	s := announce.Seen{Here: true, Route: announce.Route{Prefix: p}}
	main := announce.Place{Name: fmt.Sprintf("table %d", c.Table), State: announce.Gone}
	extra := rs
	if rs[0].table == c.Table {
		main.State, extra = announce.Present, rs[1:]
		s.Route.Attrs = announce.Attrs{Metric: rs[0].metric, Rank: c.rank(rs[0], devices)}
		if want := c.announcement(s.Route, devices); want != rs[0] {
			main.Why = fmt.Sprintf("the route is %s instead of %s", rs[0], want)
		}
	}
	s.Places = append(s.Places, main)
	for _, r := range extra {
		s.Places = append(s.Places, announce.Place{
			Name:  fmt.Sprintf("table %d metric %d", r.table, r.metric),
			State: announce.Leaving,
			Why:   "left over: " + r.String(),
		})
	}
	sortPlaces(s.Places)
	return s
}

func sortPlaces(ps []announce.Place) {
	slices.SortFunc(ps, func(a, b announce.Place) int { return cmp.Compare(a.Name, b.Name) })
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Same implements announce.Target: the metric, and the tier where there are
// tiers, and nothing left over or of another form.
func (t *routes) Same(r announce.Route, s announce.Seen) bool {
	c := t.w.conf.Load()
	if !s.Here || s.Route.Attrs.Metric != storedMetric(r.Prefix, r.Attrs.Metric) ||
		c.tier(r.Prefix, s.Route.Attrs.Rank) != c.tier(r.Prefix, r.Attrs.Rank) {
		return false
	}
	for _, p := range s.Places {
		if t.isDaemon(p.Name) {
			continue // what there is to be done about it, ill says
		}
		if p.State != announce.Present || p.Why != "" {
			return false
		}
	}
	return !t.ill(r.Prefix)
}

// Put implements announce.Target: the new route first, then out with what else
// rhid has for the prefix.
func (t *routes) Put(ctx context.Context, r announce.Route) error {
	c := t.w.conf.Load()
	if err := c.admit(r.Prefix); err != nil {
		return fmt.Errorf("add announcement route: %w", err)
	}
	if r.Attrs.Metric > maxMetric {
		return fmt.Errorf("add announcement route to %s: metric %d is above %d", r.Prefix, r.Attrs.Metric, maxMetric)
	}
	if err := t.know(ctx, c); err != nil {
		return err
	}
	if c.leased() && !t.w.lease.held() {
		return fmt.Errorf("add announcement route to %s: %w", r.Prefix, errNoLease)
	}
	want, err := t.w.wanted(c, r)
	if err != nil {
		return fmt.Errorf("add announcement route to %s: %w", r.Prefix, err)
	}
	if err := t.tooSoon(c, want); err != nil {
		return err
	}
	if t.ill(r.Prefix) {
		if err := t.heal(r.Prefix); err != nil {
			return err
		}
	}
	if err := t.w.putRoute(c, want); err != nil {
		return err
	}
	t.changed[r.Prefix] = lastChange{time.Now(), want}
	t.expect(r.Prefix, true)
	left := []route{want}
	var errs []error
	for _, old := range t.own[r.Prefix] {
		if old.table == want.table && old.metric == want.metric {
			continue // this is where want is now
		}
		if err := t.w.deleteRoute(old); err != nil {
			errs = append(errs, err)
			left = append(left, old)
		}
	}
	t.own[r.Prefix] = left
	return errors.Join(errs...)
}

// know makes sure that there was a Read.
func (t *routes) know(ctx context.Context, c *conf) error {
	if t.own != nil {
		return nil
	}
	own, err := t.list(ctx, c)
	t.own = own
	return err
}

// Remove implements announce.Target: all of rhid's routes to p, in all tables.
func (t *routes) Remove(ctx context.Context, p netip.Prefix) error {
	if err := t.know(ctx, t.w.conf.Load()); err != nil {
		return err
	}
	if soonest := t.withdrawable(p); !soonest.IsZero() {
		return &announce.Later{At: soonest}
	}
	if len(t.own[p]) == 0 {
		return nil
	}
	var left []route
	var errs []error
	for _, r := range t.own[p] {
		if err := t.w.deleteRoute(r); err != nil {
			errs = append(errs, err)
			left = append(left, r)
		}
	}
	t.own[p] = left
	if len(left) == 0 {
		delete(t.own, p)
		t.expect(p, false)
		t.changed[p] = lastChange{at: time.Now()}
	}
	return errors.Join(errs...)
}
