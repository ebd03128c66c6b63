package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rhid/announce"
)

// key is what the target keeps its objects by.
type key = netip.Prefix

// oldMark begins the Why of an address that earlier settings marked.
const oldMark = "the address has an earlier mark: "

// routeGrace is how long the local route of an address may be missing before
// the address is added anew: IPv6 adds the route a moment after the address.
const routeGrace = 200 * time.Millisecond

// addresses is the target "address": VIPs that are local on the host.
type addresses struct {
	w       *World
	changes chan struct{}
	own     map[key]*local // as of the last Read, Put and Remove; nil before
	// borrowed are the VIPs that rhid was told to put in and found on lo
	// already, as somebody else's: good for use, and not to be removed.
	borrowed map[key]bool
	missing  map[key]time.Time // since when the local route of rhid's address is missing
}

// local is what makes one prefix local, or might.
type local struct {
	addrs   []addr  // rhid's
	anyIP   []route // rhid's
	routed  bool    // the kernel has the local route of an address
	lent    bool    // on lo, and not rhid's
	foreign []announce.Place
}

// Name returns the name of the target, as announce.AddressTarget has it.
func (t *addresses) Name() string { return "address" }

// Changes implements announce.Target.
func (t *addresses) Changes() <-chan struct{} { return t.changes }

// Read implements announce.Target. A VIP that somebody else has put on this
// host is reported too; it counts as rhid's only while it stands on lo and rhid
// was told to have it there.
func (t *addresses) Read(ctx context.Context) (map[netip.Prefix]announce.Seen, error) {
	c := t.w.conf.Load()
	up, err := t.w.stack.up()
	if err != nil {
		return nil, err
	}
	own, err := t.list(ctx, c)
	if err != nil {
		return nil, err
	}
	t.own = own
	t.noteMissing(time.Now())
	seen := make(map[netip.Prefix]announce.Seen, len(own))
	for p, l := range own {
		if s, ok := l.see(c, p, up, t.borrowed[p]); ok {
			seen[p] = s
		}
	}
	return seen, nil
}

func (t *addresses) noteMissing(now time.Time) {
	missing := map[key]time.Time{}
	for p, l := range t.own {
		if len(l.addrs) == 0 || l.routed {
			continue
		}
		missing[p] = now
		if since, ok := t.missing[p]; ok {
			missing[p] = since
		}
	}
	t.missing = missing
}

func (t *addresses) list(ctx context.Context, c *conf) (map[key]*local, error) {
	as, err := t.w.stack.addrs()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	rs, err := t.w.stack.routes(routeFilter{table: unix.RT_TABLE_LOCAL})
	if err != nil {
		return nil, err
	}
	own := map[key]*local{}
	at := func(p key) *local {
		if own[p] == nil {
			own[p] = &local{}
		}
		return own[p]
	}
	marks := false
	for _, a := range as {
		marks = marks || a.proto != 0
	}
	for _, a := range as {
		host := netip.PrefixFrom(a.prefix.Addr(), a.prefix.Addr().BitLen())
		switch {
		case a.prefix == leaseAddress():
		case c.ownAddr(a, marks):
			l := at(a.prefix)
			l.addrs = append(l.addrs, a)
		case c.allowed[host]:
			at(host).noteForeign(a, t.w.stack)
		}
	}
	for _, r := range rs {
		switch {
		case r.kind != unix.RTN_LOCAL:
		case c.ownRoute(r):
			l := at(r.dst)
			l.anyIP = append(l.anyIP, r)
		case own[r.dst] != nil && r.link == loopback:
			own[r.dst].routed = true
		}
	}
	return own, nil
}

func (l *local) noteForeign(a addr, k stack) {
	if a.link == loopback {
		l.lent = true
		return
	}
	name := k.linkName(a.link)
	l.foreign = append(l.foreign, announce.Place{Name: name, Why: "somebody else has the address on " + name})
}

// see describes l; ok is false if there is nothing to say.
func (l *local) see(c *conf, p key, up, borrowed bool) (s announce.Seen, ok bool) {
	s.Route.Prefix = p
	lo := announce.Place{Name: "lo", State: announce.Gone}
	switch {
	case len(l.addrs) > 0:
		s.Here, s.Route.Local = true, announce.LocalAddress
		lo.State = announce.Present
		switch {
		case !l.routed && len(l.anyIP) == 0:
			lo.State, lo.Why = announce.Pending, "the local route of the address is missing"
		case c.outdated(l.addrs[0]):
			lo.Why = oldMark + l.addrs[0].String()
		}
	case len(l.anyIP) > 0:
		s.Here, s.Route.Local = true, announce.LocalAnyIP
		lo.State = announce.Present
	case l.lent && borrowed:
		s.Here, s.Route.Local = true, announce.LocalNone
		lo.State, lo.Why = announce.Present, "the address on lo is somebody else's, and stays"
	case l.lent:
		lo.Why = "somebody else has the address on lo"
	case len(l.foreign) == 0:
		return s, false
	}
	if !up && lo.Why == "" {
		lo.Why = "lo is down" // what is there works even so, but IPv6 lost all it had
	}
	s.Places = append(s.Places, lo)
	s.Places = append(s.Places, l.leftovers()...)
	for _, f := range l.foreign {
		if f.State = announce.Gone; s.Here {
			f.State = announce.Present
		}
		s.Places = append(s.Places, f)
	}
	sortPlaces(s.Places)
	return s, true
}

// leftovers are the objects beside the first: those of another mode, and AnyIP
// routes of another metric.
func (l *local) leftovers() []announce.Place {
	var out []announce.Place
	rest := l.anyIP
	if len(l.addrs) == 0 && len(rest) > 0 {
		rest = rest[1:]
	}
	for _, r := range rest {
		out = append(out, announce.Place{
			Name:  fmt.Sprintf("lo local route metric %d", r.metric),
			State: announce.Leaving,
			Why:   "left over: " + r.String(),
		})
	}
	return out
}

// Same implements announce.Target.
func (t *addresses) Same(r announce.Route, s announce.Seen) bool {
	if !s.Here || s.Route.Local != r.Local && s.Route.Local != announce.LocalNone {
		return false
	}
	for _, p := range s.Places {
		if p.State != announce.Present || strings.HasPrefix(p.Why, oldMark) {
			return false
		}
	}
	return true
}
