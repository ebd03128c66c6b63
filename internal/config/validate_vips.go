package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"rhid/internal/config/strict"
)

// The shortest prefixes that rhid announces without being asked twice: shorter
// ones are networks, not services, and one mistyped digit draws a whole
// network's traffic to a load balancer.
const (
	shortest4 = 24
	shortest6 = 48
)

// vipAt is where a VIP was seen first.
type vipAt struct {
	prefix  netip.Prefix
	service string
	path    strict.Path
}

// vipsSeen are the VIPs seen so far: all by prefix, and the blocks, which may
// overlap with others.
type vipsSeen struct {
	all    map[netip.Prefix]vipAt
	blocks []vipAt
}

// overlaps returns a VIP that has an address in common with p.
func (s *vipsSeen) overlaps(p netip.Prefix) (vipAt, bool) {
	if first, dup := s.all[p]; dup {
		return first, true
	}
	for _, b := range s.blocks {
		if b.prefix.Overlaps(p) {
			return b, true
		}
	}
	if !p.IsSingleIP() {
		for _, o := range s.all {
			if o.prefix.Overlaps(p) {
				return o, true
			}
		}
	}
	return vipAt{}, false
}

func (s *vipsSeen) add(v vipAt) {
	s.all[v.prefix] = v
	if !v.prefix.IsSingleIP() {
		s.blocks = append(s.blocks, v)
	}
}

func (v *validator) serviceVIPs(p strict.Path, s *Service, seen *vipsSeen) {
	for i, vip := range s.VIPs {
		at := p.With("vips", i)
		if !vip.IsValid() || !v.vipForm(at, s, vip) { // could not be read, or is wrong by itself
			continue
		}
		first, dup := seen.overlaps(vip)
		switch what := v.takenIn(vip); {
		case dup && first.service == s.Name && first.prefix == vip:
			v.fail(at, "%s is there twice", vip)
		case dup && first.prefix == vip:
			line, _ := v.doc.Position(first.path)
			v.fail(at, "%s is a VIP of service %q, too, in line %d", vip, first.service, line)
		case dup:
			line, _ := v.doc.Position(first.path)
			v.fail(at, "%s overlaps with the VIP %s of service %q in line %d", vip, first.prefix, first.service, line)
		case what != "":
			v.fail(at, "%s cannot be a VIP: it %s", vip, what)
		default:
			seen.add(vipAt{vip, s.Name, at})
			v.vipAllowed(at, s, vip)
		}
	}
}

// vipForm validates a VIP by itself.
func (v *validator) vipForm(at strict.Path, s *Service, vip netip.Prefix) bool {
	a := vip.Addr()
	shortest := shortest4
	if a.Is6() {
		shortest = shortest6
	}
	switch {
	case a.Is4In6():
		v.fail(at, "%s must be written as the IPv4 prefix %s/32", vip, a.Unmap())
	case vip.Bits() == 0:
		v.fail(at, "%s is the default route, which rhid never announces", vip)
	case vip != vip.Masked():
		v.fail(at, "%s is not a network; write %s, or %s/%d", vip, vip.Masked(), a, a.BitLen())
	case vip.Bits() < shortest && !s.ShortPrefixes:
		v.fail(at, "%s is shorter than /%d; set short_prefixes if that is meant", vip, shortest)
	case unusableVIP(a) != "":
		v.fail(at, "%s cannot be a VIP: it is %s", vip, unusableVIP(a))
	case !vip.IsSingleIP() && v.cfg.VIPOf(s).Mode == "address":
		v.fail(at, "%s is not a single address, and mode address makes each VIP an address on lo; use anyip", vip)
	default:
		return true
	}
	return false
}

// takenIn says what an address of the VIP is that cannot be one.
func (v *validator) takenIn(vip netip.Prefix) string {
	if vip.IsSingleIP() {
		if what := v.taken[vip.Addr()]; what != nil {
			return "is " + what[0]
		}
		return ""
	}
	var first netip.Addr
	for a := range v.taken {
		if vip.Contains(a) && (!first.IsValid() || a.Less(first)) {
			first = a
		}
	}
	if !first.IsValid() {
		return ""
	}
	return "contains " + first.String() + ", " + v.taken[first][0]
}

// unusableVIP says what an address is that cannot be routed to a service.
func unusableVIP(a netip.Addr) string {
	switch {
	case a.IsUnspecified():
		return "the unspecified address"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsMulticast():
		return "a multicast address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "the broadcast address"
	}
	return ""
}

// ownerOf returns the service that has an address among its VIPs.
func (v *validator) ownerOf(a netip.Addr) (service string, isVIP bool) {
	if service, isVIP = v.vips[a]; isVIP {
		return service, true
	}
	for _, b := range v.blocks {
		if b.prefix.Contains(a) {
			return b.service, true
		}
	}
	return "", false
}

// guard is one allow-list that holds for a VIP.
type guard struct {
	allow []netip.Prefix
	of    string // in words
}

// guards returns the allow-lists that hold for what a node announces.
func (c *Config) guards(n *Node) []guard {
	all := []guard{{c.Allow, "the cluster"}}
	if site, ok := c.Site(n.Site); ok {
		all = append(all, guard{site.Allow, "site " + strconv.Quote(site.Name)})
	}
	all = append(all, guard{n.Allow, "node " + strconv.Quote(n.Name)})
	return slices.DeleteFunc(all, func(g guard) bool { return len(g.allow) == 0 })
}

// Refuses says why a node may not announce a prefix, "" when it may: a default
// route, or a prefix outside of an allow-list of the cluster, the site or the
// node. Validation has asked already; who hands prefixes to a backend asks again.
func (c *Config) Refuses(n *Node, p netip.Prefix) string {
	if p.Bits() == 0 {
		return p.String() + " is the default route, which rhid never announces"
	}
	for _, g := range c.guards(n) {
		if !within(p, g.allow) {
			return fmt.Sprintf("%s is not in what %s may announce (allow: %s)", p, g.of, prefixes(g.allow))
		}
	}
	return ""
}

func within(p netip.Prefix, allow []netip.Prefix) bool {
	return slices.ContainsFunc(allow, func(a netip.Prefix) bool {
		return a.Bits() <= p.Bits() && a.Contains(p.Addr())
	})
}

func prefixes(list []netip.Prefix) string {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = p.String()
	}
	return strings.Join(words, ", ")
}

// vipAllowed reports the first node of the order that may not announce the VIP.
func (v *validator) vipAllowed(at strict.Path, s *Service, vip netip.Prefix) {
	for _, name := range s.Order {
		n, ok := v.cfg.Node(name)
		if !ok {
			continue
		}
		if why := v.cfg.Refuses(n, vip); why != "" {
			v.fail(at, "%s", why)
			return
		}
	}
}

// allowList validates an allow-list itself.
func (v *validator) allowList(p strict.Path, list []netip.Prefix) {
	seen := map[netip.Prefix]strict.Path{}
	for i, a := range list {
		switch at := p.With(i); {
		case !a.IsValid():
		case a != a.Masked():
			v.fail(at, "%s is not a network; write %s", a, a.Masked())
		case a.Bits() == 0:
			v.fail(at, "%s allows everything; leave it out", a)
		default:
			unique(v, seen, at, a, "%s is there twice", a)
		}
	}
}
