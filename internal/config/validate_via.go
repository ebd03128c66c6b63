package config

import (
	"slices"

	"rhid/checks"
	"rhid/internal/config/strict"
)

// needsTarget says whether the check cannot do without a target.
func needsTarget(c *Check) bool {
	k := c.Options.NeedsTarget()
	return k == checks.TargetHost || k == checks.TargetPort
}

// hasCheck says whether the name is there, be it of a check with errors.
func (c *Config) hasCheck(name string) bool {
	_, ok := c.Checks[name]
	return ok
}

// via validates how a service gets into the network.
func (v *validator) via(p strict.Path, s *Service) {
	at := p.With("via")
	if len(s.Via) == 0 {
		v.fail(at, "must not be empty")
	}
	seen := map[string]strict.Path{}
	for i, backend := range s.Via {
		unique(v, seen, at.With(i), backend, "%s is there twice", backend)
	}
	if vip := v.cfg.VIPOf(s); s.HasVia(ViaKernel) && vip.Mode == "address" && vip.Bind != "never" && slices.Contains(v.cfg.Kernel.Readback.From, "frr") {
		v.fail(at, "kernel with vip.mode address: FRR, in kernel.readback.from, prefers the connected route of the address and exports nothing; use anyip")
	}
	reached := false
	if s.HasVia(ViaBGP) {
		reached = v.viaBGP(p, s)
	}
	if reached || !s.HasVia(ViaBGP) {
		v.attributes(p, s)
	}
}

// viaBGP makes sure that each node of the order can tell each VIP to a router.
// It returns false after an error.
func (v *validator) viaBGP(p strict.Path, s *Service) bool {
	var noASN, noRouter []string
	for _, name := range s.Order {
		switch n, ok := v.cfg.Node(name); {
		case !ok:
		case n.ASN == 0:
			noASN = append(noASN, name)
		case len(v.cfg.RoutersOf(name)) == 0 && v.cfg.siteKnown(n):
			noRouter = append(noRouter, name)
		}
	}
	switch {
	case noASN != nil && v.doc.Failed(strict.Path{"bgp", "asn"}):
	case noASN != nil:
		v.fail(p.With("via"), "bgp needs an AS number: set bgp.asn, or asn of %s", list(noASN))
	case noRouter != nil:
		v.fail(p.With("via"), "bgp needs a router, and these nodes and their sites have none: %s", list(noRouter))
	default:
		return v.families(p, s)
	}
	return false
}

// siteKnown says that the node's site, if it has one, is there.
func (c *Config) siteKnown(n *Node) bool {
	_, ok := c.Site(n.Site)
	return ok || n.Site == ""
}

// families makes sure that every VIP has a router that takes its address
// family, with a next hop.
func (v *validator) families(p strict.Path, s *Service) bool {
	ok := true
	for _, name := range s.Order {
		i := slices.IndexFunc(v.cfg.Nodes, func(n Node) bool { return n.Name == name })
		if i < 0 {
			continue
		}
		routers := v.placedRouters(strict.Path{"nodes", i}, &v.cfg.Nodes[i])
		for j := range s.VIPs {
			at := p.With("vips", j)
			if !v.doc.Failed(at) && !v.vipReaches(at, s, j, name, routers) {
				ok = false
			}
		}
	}
	return ok
}

func (v *validator) vipReaches(p strict.Path, s *Service, index int, node string, routers []placedRouter) bool {
	vip := s.VIPs[index]
	family := familyIPv4
	if vip.Addr().Is6() {
		family = familyIPv6
	}
	reached := len(routers) == 0 // reported already
	for _, r := range routers {
		if v.doc.Failed(r.path.With("families")) {
			reached = true
		}
		if !slices.Contains(r.Families, family) || !r.Tells(s.Name) {
			continue
		}
		reached = true
		if family == familyIPv6 && r.Address.Is4() && !r.NextHop6.IsValid() {
			v.fail(r.path.With("next_hop6"), "is required: the session is IPv4 and service %q has the IPv6 VIP %s; or leave ipv6 out of families", s.Name, vip.Addr())
		}
	}
	if !reached {
		v.fail(p, "no router of node %q takes %s of this service", node, family)
	}
	return reached
}

// attributes refuses BGP attributes that no neighbour would ever see.
func (v *validator) attributes(p strict.Path, s *Service) {
	bgp := s.HasVia(ViaBGP)
	switch {
	case s.LocalPref == 0 && !v.doc.Has(p.With("local_preference")):
	case !bgp:
		v.fail(p.With("local_preference"), "is for bgp, which is not in via")
	case s.LocalPref > 0 && !v.cfg.anyRouter(s, isIBGP):
		v.fail(p.With("local_preference"), "is for iBGP, and no router of the order's nodes is in the node's own AS")
	}
	switch {
	case *s.Prepend == 0:
	case !bgp:
		v.fail(p.With("prepend"), "is for bgp, which is not in via")
	case !v.cfg.anyRouter(s, isEBGP):
		v.fail(p.With("prepend"), "is for eBGP, and all routers of the order's nodes are in the node's own AS")
	}
	if !bgp && len(s.Communities) > 0 {
		v.fail(p.With("communities"), "are for bgp, which is not in via")
	}
}
