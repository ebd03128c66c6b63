package config

import (
	"net/netip"
	"path/filepath"
	"strings"

	"rhid/checks"
	"rhid/internal/config/strict"
)

// Words of a check's resolve; anything else is an address.
const (
	resolveFirst = "first"
	resolveAll   = "all"
)

// maxDevice is what fits into an interface name (IFNAMSIZ without the final 0).
const maxDevice = 15

// rules validates the rules of health of a check.
func (v *validator) rules(p strict.Path, c *Check) {
	if w := c.Window; w != nil && w.Size > 0 {
		at := p.With("window")
		switch {
		case w.Fail > w.Size:
			v.fail(at.With("fail"), "%d is more than size %d", w.Fail, w.Size)
		case w.Recover > w.Size:
			v.fail(at.With("recover"), "%d is more than size %d", w.Recover, w.Size)
		case w.Recover <= w.Size-w.Fail:
			v.fail(at.With("recover"), "%d successes of %d leave room for %d failures, which make it down; at least %d", w.Recover, w.Size, w.Fail, w.Size-w.Fail+1)
		}
	}
	if r := c.Rate; r != nil {
		at := p.With("rate")
		if r.Recover < r.Min {
			v.fail(at.With("recover"), "%s%% must not be below min %s%%", trimmed(r.Recover), trimmed(r.Min))
		}
		if r.Last > 0 && r.MinSamples > r.Last {
			v.fail(at.With("min_samples"), "%d can never be reached with last %d", r.MinSamples, r.Last)
		}
	}
}

func trimmed(p Percent) string {
	text, err := p.MarshalText()
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "%")
}

// common validates the settings that all types share, against the type.
func (v *validator) common(p strict.Path, c *Check) {
	v.passive(p, c)
	v.resolving(p, c)
	if d := c.Interface; len(d) > maxDevice || strings.ContainsAny(d, "/: \t\n") {
		v.fail(p.With("interface"), "%q is not the name of an interface: at most %d characters, none of them blank, / or :", d, maxDevice)
	}
	if f := c.MaintenanceFile; f != "" && !filepath.IsAbs(f) {
		v.fail(p.With("maintenance_file"), "%q must be an absolute path", f)
	}
}

// passive refuses what makes no sense without probes that succeed or fail.
func (v *validator) passive(p strict.Path, c *Check) {
	typ, _ := typeOf(c.Type)
	if !typ.Passive {
		if c.MayRaise {
			v.fail(p.With("may_raise"), "is for passive checks; %s is active, and counts as up when it is", c.Type)
		}
		return
	}
	if typ.PerService && c.MaintenanceFile != "" {
		v.fail(p.With("maintenance_file"), "is looked for at each probe, and %s has none; give it to the check beside it", c.Type)
	}
	for key, set := range map[string]bool{"window": c.Window != nil, "invert": c.Invert} {
		if set {
			v.fail(p.With(key), "is not for a passive check, which is judged by its rate")
		}
	}
	if c.Resolve == resolveAll {
		v.fail(p.With("resolve"), "all is not for a passive check, which watches one address")
	}
}

// resolving validates how a name becomes an address.
func (v *validator) resolving(p strict.Path, c *Check) {
	at := p.With("resolve")
	addr, err := netip.ParseAddr(c.Resolve)
	switch {
	case c.Resolve == resolveFirst || c.Resolve == resolveAll:
	case err != nil || addr.IsUnspecified() || addr.IsMulticast():
		v.fail(at, "%q is not first, all, or the address of a host", c.Resolve)
	case c.Source.IsValid() && c.Source.Is4() != addr.Unmap().Is4():
		v.fail(at, "%s is not of the same address family as source %s", addr, c.Source)
	}
	if _, holds := c.Options.(*checks.HeldOptions); holds && c.Resolve == resolveAll {
		v.fail(at, "all cannot be for type held, which holds one connection")
	}
	if k := c.Options.NeedsTarget(); c.Resolve == resolveAll && k != checks.TargetHost && k != checks.TargetPort {
		v.fail(at, "all is for checks of a target, which %s does not need", c.Type)
	}
	if c.Resolve != resolveAll && v.doc.Has(p.With("resolve_min")) {
		v.fail(p.With("resolve_min"), "has no effect without resolve: all")
	}
}
