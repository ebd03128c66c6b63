package config

import "rhid/internal/config/strict"

// attributes validates a table of attributes by rank and state.
func (v *validator) attributeTable(p strict.Path, a *Attributes) {
	if a == nil || !v.doc.Has(p) { // absent, or the site's
		return
	}
	if len(a.Ranks) == 0 && a.Worst == nil && a.Draining == nil && a.Degraded == nil {
		v.fail(p, "has no row: give it ranks, worst, draining or degraded")
	}
	a.each(p, func(at strict.Path, row *Row) { v.communityList(at.With("communities"), row.Communities) })
}

// each visits the rows that are there.
func (a *Attributes) each(p strict.Path, f func(strict.Path, *Row)) {
	for i := range a.Ranks {
		f(p.With("ranks", i), &a.Ranks[i])
	}
	for key, row := range map[string]*Row{"worst": a.Worst, "draining": a.Draining, "degraded": a.Degraded} {
		if row != nil {
			f(p.With(key), row)
		}
	}
}

// rowsFit refuses what the session of a node with a router never carries.
func (v *validator) rowsFit(n *Node, r placedRouter) {
	p := r.path.With("attributes")
	if r.Attributes == nil || !v.doc.Has(p) {
		return
	}
	r.Attributes.each(p, func(at strict.Path, row *Row) {
		if row.LocalPref != nil && !n.IBGP(r.Router) {
			v.fail(at.With("local_preference"), "is for iBGP; node %q is in AS %d and this router in AS %d", n.Name, n.ASN, r.ASN)
		}
		if row.Prepend != nil && *row.Prepend > 0 && n.IBGP(r.Router) {
			v.fail(at.With("prepend"), "is for eBGP; node %q and this router are both in AS %d", n.Name, n.ASN)
		}
	})
}

// communityList validates communities that rhid is to set besides its own.
func (v *validator) communityList(p strict.Path, texts []string) {
	seen := map[community]strict.Path{}
	for i, text := range texts {
		at := p.With(i)
		c, err := parseCommunity(text)
		if err != nil {
			v.fail(at, "%v", err)
			continue
		}
		unique(v, seen, at, c, "%s is there twice", text)
		for j := range v.cfg.Nodes {
			n := &v.cfg.Nodes[j]
			if c.isLarge && c.large[0] == n.ASN && (c.large[1] == n.ID || c.large[1] == 0) {
				v.fail(at, "%s is of the form that rhid sets by itself: ASN, node id, rank", text)
				break
			}
		}
	}
}

// told validates which services a router is told of.
func (v *validator) told(p strict.Path, r *Router) {
	if r.Services != nil && len(r.Services) == 0 {
		v.fail(p, "must not be empty; without it the router is told of all")
	}
	seen := map[string]strict.Path{}
	for i, name := range r.Services {
		at := p.With(i)
		s, ok := v.cfg.Service(name)
		switch {
		case !ok:
			v.noSuch(at, "service", name, serviceNames(v.cfg))
		case !s.HasVia(ViaBGP):
			v.fail(at, "service %q is not announced by bgp", name)
		default:
			unique(v, seen, at, name, "%q is there twice", name)
		}
	}
}

func serviceNames(c *Config) []string {
	out := make([]string, len(c.Services))
	for i := range c.Services {
		out[i] = c.Services[i].Name
	}
	return out
}

// bandwidths validates the link bandwidths of a service.
func (v *validator) bandwidths(p strict.Path, s *Service) {
	for name := range s.LinkBandwidth {
		if _, ok := v.cfg.Node(name); !ok {
			v.noSuch(p.With(name), "node", name, nodeNames(v.cfg))
		}
	}
	if len(s.LinkBandwidth) > 0 && !s.HasVia(ViaBGP) {
		v.fail(p, "is for bgp, which is not in via")
	}
}
