package config

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"
	"strconv"
)

// Words of the configuration that code has to compare with.
const (
	ViaBGP    = "bgp"
	ViaKernel = "kernel"

	familyIPv4 = "ipv4"
	familyIPv6 = "ipv6"

	announcersAll = "all"

	bindAnnouncing = "announcing"
)

// Node returns the node of that name.
func (c *Config) Node(name string) (*Node, bool) {
	i := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil, false
	}
	return &c.Nodes[i], true
}

// Site returns the site of that name.
func (c *Config) Site(name string) (*Site, bool) {
	i := slices.IndexFunc(c.Sites, func(s Site) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return &c.Sites[i], true
}

// Service returns the service of that name.
func (c *Config) Service(name string) (*Service, bool) {
	i := slices.IndexFunc(c.Services, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return &c.Services[i], true
}

// RoutersOf returns the BGP neighbours of a node: those of its site, then its
// own, with all defaults filled in. An unknown node has none.
func (c *Config) RoutersOf(node string) []Router {
	n, ok := c.Node(node)
	if !ok {
		return nil
	}
	var out []Router
	if site, ok := c.Site(n.Site); ok {
		out = append(out, site.Routers...)
	}
	return append(out, n.Routers...)
}

// VIPOf returns the VIP settings of a service: its own, and the top-level ones
// where it has none.
func (c *Config) VIPOf(s *Service) VIP {
	out := c.VIP
	if s.VIP != nil {
		out.Bind, out.Mode, out.Linger = s.VIP.Bind, s.VIP.Mode, s.VIP.Linger
	}
	return out
}

// AnnouncersN returns how many nodes announce the service at once; 0 is all of
// the order.
func (s *Service) AnnouncersN() int {
	n, err := strconv.Atoi(s.Announcers)
	if err != nil {
		return 0
	}
	return n
}

// HasVia says whether the service is announced by that backend, ViaBGP or
// ViaKernel.
func (s *Service) HasVia(backend string) bool { return slices.Contains(s.Via, backend) }

// Digest is the SHA-256 of the configuration with all defaults, in hexadecimal.
// Equal configurations have the same digest, however their files are written.
func (c *Config) Digest() string {
	sum := sha256.Sum256(render(c, renderAll))
	return hex.EncodeToString(sum[:])
}

// Fingerprint is a text that two checks have in common exactly when all of
// their settings are the same.
func (c *Check) Fingerprint() string {
	w := new(yamlWriter)
	w.fields(reflect.ValueOf(c).Elem(), 0, false)
	return w.buf.String()
}

// IBGP says whether the session with the router is internal for the node.
func (n *Node) IBGP(r *Router) bool { return r.ASN == n.ASN }

func isIBGP(n *Node, r *Router) bool { return n.IBGP(r) }

func isEBGP(n *Node, r *Router) bool { return !n.IBGP(r) }

// anyRouter says whether is holds for a router of a node of the service's
// order.
func (c *Config) anyRouter(s *Service, is func(*Node, *Router) bool) bool {
	for _, name := range s.Order {
		n, ok := c.Node(name)
		if !ok {
			continue
		}
		routers := c.RoutersOf(name)
		for i := range routers {
			if is(n, &routers[i]) {
				return true
			}
		}
	}
	return false
}
