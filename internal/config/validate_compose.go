package config

import (
	"maps"
	"net/netip"
	"slices"

	"rhid/internal/config/strict"
)

// maxDepth is how deep compositions may be nested: nobody can follow more.
const maxDepth = 4

// serviceCheck validates the check of a service and the servers it looks at.
func (v *validator) serviceCheck(p strict.Path, s *Service) {
	at := p.With("check")
	if s.Check.Inline != nil {
		v.check(at, s.Check.Inline)
		if _, taken := v.cfg.Checks[s.Name]; taken {
			v.fail(at, "a check in place has its service's name, and there is a named check %q", s.Name)
		}
	}
	v.reference(at, s, &s.Check, 1)
	if v.doc.Failed(at) {
		return
	}
	v.evidence(at, s)
	v.ownVIP(at, s)
	if s.Servers != nil {
		v.servers(p.With("servers"), at, s)
	}
}

// reference validates a check's name, or what a group joins.
func (v *validator) reference(p strict.Path, s *Service, r *CheckRef, depth int) {
	switch {
	case r.Group != nil:
		v.group(p, s, r.Group, depth)
	case r.Inline != nil && depth > 1:
		v.fail(p, "a check within a composition is named: put it into checks, and its name here")
	case r.Inline == nil && r.Name != "" && !v.cfg.hasCheck(r.Name):
		v.noSuch(p, "check", r.Name, slices.Sorted(maps.Keys(v.cfg.Checks)))
	default:
		_, c := v.cfg.checkOf(s, r)
		if c != nil && c.Options != nil && c.Address == "" && needsTarget(c) && !s.overServers(c) {
			v.fail(p, "has nothing to look at: give the service servers, or the check an address")
		}
	}
}

// group validates a composition.
func (v *validator) group(p strict.Path, s *Service, g *Group, depth int) {
	ways := 0
	for _, set := range []bool{g.All != nil, g.Any != nil, g.AtLeast != Quorum{}, g.Score != nil} {
		if set {
			ways++
		}
	}
	switch {
	case depth > maxDepth:
		v.fail(p, "compositions are nested deeper than %d", maxDepth)
		return
	case ways > 1:
		v.fail(p, "all, any, at_least and score exclude each other; nest them")
		return
	case g.AtLeast != (Quorum{}) && len(g.Of) == 0:
		v.fail(p.With("at_least"), "needs of, the checks to count")
	case g.AtLeast == (Quorum{}) && g.Of != nil && !v.doc.Has(p.With("at_least")):
		v.fail(p.With("of"), "needs at_least, how many of them must be up")
	case g.AtLeast.N > len(g.Of):
		v.fail(p.With("at_least"), "%d is more than the %d in of", g.AtLeast.N, len(g.Of))
	case g.All != nil && len(g.All) == 0, g.Any != nil && len(g.Any) == 0:
		v.fail(p, "must join at least one check")
	}
	if g.Score != nil && g.Score.Down > g.Score.Up {
		v.fail(p.With("score", "down"), "%d must not be above up, %d", g.Score.Down, g.Score.Up)
	}
	v.members(p, s, g, depth)
}

// members validates what a group joins.
func (v *validator) members(p strict.Path, s *Service, g *Group, depth int) {
	seen := map[string]strict.Path{}
	one := func(at strict.Path, r *CheckRef) {
		v.reference(at, s, r, depth+1)
		if r.Name != "" {
			unique(v, seen, at, r.Name, "check %q is there twice", r.Name)
		}
	}
	for key, list := range map[string][]CheckRef{"all": g.All, "any": g.Any, "of": g.Of} {
		for i := range list {
			one(p.With(key, i), &list[i])
		}
	}
	if g.Score != nil {
		for i := range g.Score.Of {
			one(p.With("score", "of", i, "check"), &g.Score.Of[i].Check)
		}
	}
}

// evidence makes sure that a service has something that can bring it up.
func (v *validator) evidence(p strict.Path, s *Service) {
	for _, l := range v.cfg.Leaves(s) {
		if typ, known := typeOf(l.Check.Type); !known || !typ.Passive || l.Check.MayRaise {
			return
		}
	}
	v.fail(p, "is passive evidence only, which may pull the service down and never bring it up: join it with an active check (all: [...]), or set may_raise")
}

// ownVIP refuses a check that looks at a VIP which is local only while the
// check is up: once it was down, it would test whoever else announces the VIP,
// and bring this node up for another's health.
func (v *validator) ownVIP(p strict.Path, s *Service) {
	if v.cfg.VIPOf(s).Bind != bindAnnouncing {
		return
	}
	for _, l := range v.cfg.Leaves(s) {
		targets := []string{l.Check.Address}
		if l.OverServers {
			for _, srv := range s.Servers.Addresses {
				targets = append(targets, srv.Address)
			}
		}
		for _, text := range targets {
			host, _, err := splitTarget(text)
			addr, aerr := netip.ParseAddr(host)
			if err == nil && aerr == nil && l.Check.AllowVIP && v.vips[addr.Unmap()] == s.Name {
				v.fail(p, "check %q goes to the service's own VIP %s, which is not on this host while the service is withdrawn: it would test another node; set vip.bind: always, or aim it at self", l.Name, addr)
				return
			}
		}
	}
}

func (v *validator) servers(p, check strict.Path, s *Service) {
	var over []Leaf
	for _, l := range v.cfg.Leaves(s) {
		if l.OverServers {
			over = append(over, l)
		}
	}
	if len(over) == 0 {
		v.fail(check, "does not look at the servers: it has an address of its own, or needs no target; take the address out, or leave servers out")
		return
	}
	seen := map[string]strict.Path{}
	primaries, weight := 0, 0
	for i, srv := range s.Servers.Addresses {
		at := p.With("addresses", i)
		if v.doc.Has(at.With("address")) {
			at = at.With("address")
		}
		for _, l := range over {
			t, ok := v.target(at, l.Check, srv.Address)
			if ok && l.Name == over[0].Name {
				unique(v, seen, at, sameTarget(t), "%s is there twice", srv.Address)
			}
		}
		weight += srv.Weight
		if !srv.Backup {
			primaries++
		}
	}
	v.watermarks(p, s.Servers, primaries, weight)
	for _, l := range over {
		if _, err := netip.ParseAddr(l.Check.Resolve); err == nil && len(s.Servers.Addresses) > 1 {
			v.fail(check, "check %q has resolve: %s, which all servers would stand for", l.Name, l.Check.Resolve)
		}
	}
}

// watermarks validates how many servers must be up.
func (v *validator) watermarks(p strict.Path, s *Servers, primaries, weight int) {
	low, high := s.MinHealthy, s.RecoverHealthy
	switch have := len(s.Addresses); {
	case have == 0: // reported already
	case primaries == 0:
		v.fail(p.With("addresses"), "all servers are backups; one at the least must not be")
	case low.N > weight:
		v.fail(p.With("min_healthy"), "%d is more than the %d servers, by weight", low.N, weight)
	case high.N > weight:
		v.fail(p.With("recover_healthy"), "%d is more than the %d servers, by weight", high.N, weight)
	case high != (Quorum{}) && (high.Percent > 0) != (low.Percent > 0):
		v.fail(p.With("recover_healthy"), "%s and min_healthy %s must be of the same kind: numbers, or percentages", high, low)
	case high != (Quorum{}) && (high.N < low.N || high.Percent < low.Percent):
		v.fail(p.With("recover_healthy"), "%s must not be below min_healthy %s", high, low)
	}
}
