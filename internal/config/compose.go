package config

import (
	"slices"

	"rhid/checks"
)

// Leaf is a check that a service uses.
type Leaf struct {
	Name        string // a check in place has the service's
	Check       *Check
	OverServers bool // it runs for each of the service's servers, and not for the node
}

// Leaves returns the checks of a service, each once, in the order in which they
// are written.
func (c *Config) Leaves(s *Service) []Leaf {
	var out []Leaf
	s.Check.each(func(r *CheckRef) {
		name, check := c.checkOf(s, r)
		if check != nil && !slices.ContainsFunc(out, func(l Leaf) bool { return l.Name == name }) {
			out = append(out, Leaf{name, check, s.overServers(check)})
		}
	})
	return out
}

// checkOf returns the check that a reference without a group is to. It is nil
// only where validation failed.
func (c *Config) checkOf(s *Service, r *CheckRef) (string, *Check) {
	if r.Inline != nil {
		return s.Of(), r.Inline
	}
	return r.Name, c.Checks[r.Name]
}

// overServers says whether a check runs for each of the service's servers: one
// that can be aimed, and has no address of its own.
func (s *Service) overServers(c *Check) bool {
	if s.Servers == nil || c.Address != "" || c.Options == nil {
		return false
	}
	typ, _ := typeOf(c.Type)
	return c.Options.NeedsTarget() != checks.TargetNone && !typ.PerService
}

// each visits the references without a group, in the order in which they are
// written.
func (r *CheckRef) each(visit func(*CheckRef)) {
	if r.Group == nil {
		visit(r)
		return
	}
	members := r.Group.members()
	for i := range members {
		members[i].each(visit)
	}
}

// members returns what a group joins.
func (g *Group) members() []*CheckRef {
	var out []*CheckRef
	for _, list := range [][]CheckRef{g.All, g.Any, g.Of} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	if g.Score != nil {
		for i := range g.Score.Of {
			out = append(out, &g.Score.Of[i].Check)
		}
	}
	return out
}

// Composition returns how a service's checks make its health. The pool's
// servers are as they are written.
func (c *Config) Composition(s *Service) (checks.Term, checks.Pool) {
	t := c.term(s, &s.Check)
	if s.Servers == nil {
		return t, checks.Pool{}
	}
	pool := checks.Pool{
		Low: checks.Quorum(s.Servers.MinHealthy), High: checks.Quorum(s.Servers.RecoverHealthy), SlowStart: s.Servers.SlowStart,
	}
	for _, srv := range s.Servers.Addresses {
		pool.Servers = append(pool.Servers, checks.Server{ID: srv.Address, Weight: srv.Weight, Backup: srv.Backup})
	}
	over := map[string]bool{}
	for _, l := range c.Leaves(s) {
		over[l.Name] = l.OverServers
	}
	return pooled(t, over), pool
}

// term returns a reference as a term in which servers play no part yet.
func (c *Config) term(s *Service, r *CheckRef) checks.Term {
	if r.Group == nil {
		name, check := c.checkOf(s, r)
		typ, _ := typeOf(check.Type)
		return checks.Term{Check: name, Silent: typ.Passive && !check.MayRaise, Dependency: check.Depends()}
	}
	g := r.Group
	out := checks.Term{}
	switch {
	case g.All != nil:
		out.Op = checks.OpAll
	case g.Any != nil:
		out.Op = checks.OpAny
	case g.Score != nil:
		out.Op, out.Up, out.Down = checks.OpScore, g.Score.Up, g.Score.Down
	default:
		out.Op, out.Need = checks.OpAtLeast, checks.Quorum(g.AtLeast)
	}
	for i, m := range g.members() {
		t := c.term(s, m)
		if g.Score != nil {
			t.Weight = g.Score.Of[i].Weight
		}
		out.Of = append(out.Of, t)
	}
	return out
}

// Depends says what fails when the check fails.
func (c *Check) Depends() checks.Dependency {
	switch c.Dependency {
	case "local":
		return checks.DependsLocal
	case "shared":
		return checks.DependsShared
	default:
		return checks.DependsAuto
	}
}

// pooled puts what is asked of each server into a pool. Checks of servers that
// stand side by side are joined server by server before the servers are
// counted: two halves of a pool that are sick in different ways leave nothing.
func pooled(t checks.Term, over map[string]bool) checks.Term {
	if allOver(t, over) {
		inner := t
		inner.Weight = 0
		return checks.Term{Op: checks.OpPool, Weight: t.Weight, Of: []checks.Term{inner}}
	}
	if t.Op == checks.OpCheck {
		return t
	}
	var of, pool []checks.Term
	for _, m := range t.Of {
		if t.Op == checks.OpAll && allOver(m, over) {
			pool = append(pool, m)
			continue
		}
		of = append(of, pooled(m, over))
	}
	switch len(pool) {
	case 0:
	case 1:
		of = append(of, checks.Term{Op: checks.OpPool, Of: pool})
	default:
		of = append(of, checks.Term{Op: checks.OpPool, Of: []checks.Term{{Op: checks.OpAll, Of: pool}}})
	}
	t.Of = of
	return t
}

// allOver says whether all checks of a term run for each server.
func allOver(t checks.Term, over map[string]bool) bool {
	if t.Op == checks.OpCheck {
		return over[t.Check]
	}
	return !slices.ContainsFunc(t.Of, func(m checks.Term) bool { return !allOver(m, over) })
}
