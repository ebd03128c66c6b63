package config

import (
	"maps"
	"net/netip"
	"slices"

	"rhid/checks"
	"rhid/internal/config/strict"
)

func (v *validator) namedChecks() {
	for _, name := range slices.Sorted(maps.Keys(v.cfg.Checks)) {
		p := strict.Path{"checks", name}
		v.name(p, name)
		if c := v.cfg.Checks[name]; c != nil {
			v.check(p, c)
		}
	}
}

// check validates a check on its own.
func (v *validator) check(p strict.Path, c *Check) {
	v.checkTiming(p, c)
	if c.Source.IsValid() && (c.Source.Is4In6() || c.Source.IsUnspecified() || c.Source.IsMulticast()) {
		v.fail(p.With("source"), "%s is not the address of a host", c.Source)
	}
	if owner, isVIP := v.ownerOf(c.Source); isVIP {
		v.fail(p.With("source"), "%s is a VIP of service %q: it is not always on this host", c.Source, owner)
	}
	v.rules(p, c)
	if c.Options == nil { // unknown type, reported already
		return
	}
	v.common(p, c)
	for _, problem := range c.Options.Problems() {
		at := p
		if problem.Key != "" {
			at = p.With(problem.Key)
		}
		v.fail(at, "%s", problem.Msg)
	}
	v.bfdRouter(p.With("router"), c)
	if v.doc.Has(p.With("address")) {
		v.target(p.With("address"), c, c.Address)
	}
}

// checkTiming reports a timeout at the interval that it does not fit into.
func (v *validator) checkTiming(p strict.Path, c *Check) {
	if c.FastInterval > c.Interval {
		v.fail(p.With("fast_interval"), "%s must not be longer than interval %s", c.FastInterval, c.Interval)
	}
	switch {
	case c.Interval == 0: // could not be read
	case c.Jitter > 0 && c.Timeout+c.Jitter >= min(c.Interval, c.FastInterval):
		v.fail(p.With("jitter"), "%s and timeout %s together must be shorter than interval and fast_interval, %s",
			c.Jitter, c.Timeout, min(c.Interval, c.FastInterval))
	case c.Timeout >= c.Interval:
		v.fail(p.With("timeout"), "%s must be shorter than interval %s", c.Timeout, c.Interval)
	case c.Timeout >= c.FastInterval:
		v.fail(p.With("timeout"), "%s must be shorter than fast_interval %s", c.Timeout, c.FastInterval)
	}
}

// target validates one target of a check and returns it; ok is false after an
// error.
func (v *validator) target(p strict.Path, c *Check, text string) (t checks.Target, ok bool) {
	t, err := ParseTarget(c.Options.NeedsTarget(), text)
	if err != nil {
		v.fail(p, "%v", err)
		return t, false
	}
	addr, err := netip.ParseAddr(t.Host)
	if err != nil {
		return t, true // a name; what it stands for is only known when probing
	}
	addr = addr.Unmap()
	if owner, isVIP := v.ownerOf(addr); isVIP && !c.AllowVIP {
		v.fail(p, "%s is a VIP of service %q: the probe would go wherever the route leads, not to a server of this host; set allow_vip if that is meant", addr, owner)
		return t, false
	}
	if c.Source.IsValid() && c.Source.Is4() != addr.Is4() {
		v.fail(p, "%s is not of the same address family as the check's source %s", addr, c.Source)
		return t, false
	}
	return t, true
}
