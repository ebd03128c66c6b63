package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"rhid/internal/config/strict"
)

// Values of fate and families, and the host of a server that stands for the
// service's own VIPs.
const (
	fateAny       = "any"
	fatePerVIP    = "per-vip"
	familiesApart = "apart"
	ownVIP        = "vip"
)

// Of is the name that the service has in the configuration: a part of it has
// another in Name.
func (s *Service) Of() string {
	if s.PartOf != "" {
		return s.PartOf
	}
	return s.Name
}

// Parts returns what is decided on by itself: each service, or in its place one
// for each address family (families: apart) or VIP (fate: per-vip). A part has
// the servers of its family, and a server vip:PORT is each VIP of it.
func (c *Config) Parts() []Service {
	var out []Service
	for i := range c.Services {
		out = append(out, c.Services[i].parts()...)
	}
	return out
}

func (s *Service) parts() []Service {
	switch {
	case s.Fate == fatePerVIP:
		var out []Service
		for _, p := range s.VIPs {
			name := strings.NewReplacer(":", "-", "/", "-").Replace(p.String())
			if p.IsSingleIP() {
				name = strings.ReplaceAll(p.Addr().String(), ":", "-")
			}
			out = append(out, s.part(s.Name+"-"+name, []netip.Prefix{p}))
		}
		return out
	case s.Families == familiesApart:
		var v4, v6 []netip.Prefix
		for _, p := range s.VIPs {
			if p.Addr().Is4() {
				v4 = append(v4, p)
			} else {
				v6 = append(v6, p)
			}
		}
		return []Service{s.part(s.Name+"-"+familyIPv4, v4), s.part(s.Name+"-"+familyIPv6, v6)}
	case s.checksVIPs():
		return []Service{s.part(s.Name, s.VIPs)}
	default:
		return []Service{*s}
	}
}

// part is the service with some of its VIPs.
func (s *Service) part(name string, vips []netip.Prefix) Service {
	p := *s
	p.Name, p.VIPs, p.PartOf = name, vips, s.Name
	if s.Servers == nil || len(vips) == 0 {
		return p
	}
	servers := *s.Servers
	servers.Addresses = nil
	for _, srv := range s.Servers.Addresses {
		servers.Addresses = append(servers.Addresses, p.servers(srv)...)
	}
	if s.checksVIPs() && s.Fate == fateAny {
		servers.MinHealthy = Quorum{N: 1}
	} else if s.checksVIPs() {
		servers.MinHealthy = Quorum{Percent: 100}
	}
	p.Servers = &servers
	return p
}

// servers is what a server of the service is in a part of it.
func (s *Service) servers(srv Server) []Server {
	host, port, err := splitTarget(srv.Address)
	switch {
	case err == nil && host == ownVIP:
		var out []Server
		for _, v := range s.VIPs {
			one := srv
			if one.Address = v.Addr().String(); port != "" {
				n, _ := strconv.ParseUint(port, 10, 16) // validated
				one.Address = netip.AddrPortFrom(v.Addr(), uint16(n)).String()
			}
			out = append(out, one)
		}
		return out
	case err == nil && s.Families == familiesApart:
		if a, err := netip.ParseAddr(host); err == nil && a.Unmap().Is4() != s.VIPs[0].Addr().Is4() {
			return nil
		}
	}
	return []Server{srv}
}

// checksVIPs says whether the servers are the service's own VIPs.
func (s *Service) checksVIPs() bool {
	return s.Servers != nil && slices.ContainsFunc(s.Servers.Addresses, isOwnVIP)
}

func isOwnVIP(srv Server) bool {
	host, _, err := splitTarget(srv.Address)
	return err == nil && host == ownVIP
}

// parts validates what makes a service several. names has all parts' names so
// far.
func (v *validator) parts(p strict.Path, s *Service, names map[string]strict.Path) {
	own := s.checksVIPs()
	at := p.With("fate")
	switch {
	case s.Fate == fatePerVIP && s.Families == familiesApart:
		v.fail(p.With("families"), "apart has no use where fate is per-vip")
		return
	case (s.Fate == fateAny || s.Fate == fatePerVIP) && !own:
		v.fail(at, "%s: nothing tells the health of one VIP from that of another; let servers have the address vip:PORT", s.Fate)
	}
	if own {
		v.ownVIPs(p, s)
	}
	if s.Families == familiesApart {
		v.apart(p, s)
	}
	for _, part := range s.parts() {
		if part.Name != s.Name {
			unique(v, names, p.With("name"), part.Name, "a part of it is called %q, as another service", part.Name)
			v.name(p.With("name"), part.Name)
		}
	}
}

// ownVIPs validates servers that are the service's own VIPs.
func (v *validator) ownVIPs(p strict.Path, s *Service) {
	if slices.ContainsFunc(s.Servers.Addresses, func(srv Server) bool { return !isOwnVIP(srv) }) {
		v.fail(p.With("servers", "addresses"), "vip cannot stand together with other servers")
	}
	if v.cfg.VIPOf(s).Bind == "announcing" {
		v.fail(p.With("servers"), "vip: the VIP is on this host only while it is announced, so the check could never go up; set bind to always or never")
	}
	for i, vip := range s.VIPs {
		if vip.IsValid() && !vip.IsSingleIP() {
			v.fail(p.With("vips", i), "the block %s has no address of its own to check as vip", vip)
		}
	}
}

// apart makes sure that both families are there, and can be told apart.
func (v *validator) apart(p strict.Path, s *Service) {
	for _, part := range s.parts() {
		family := strings.TrimPrefix(part.Name, s.Name+"-")
		switch {
		case len(part.VIPs) == 0:
			v.fail(p.With("families"), "apart needs VIPs of both families, and there is none of %s", family)
		case s.Servers == nil:
			v.fail(p.With("families"), "apart: nothing tells the health of one family from that of the other; give the service servers of both")
			return
		case len(part.Servers.Addresses) == 0:
			v.fail(p.With("servers", "addresses"), "has no server of %s, and families are apart", family)
		case part.Servers.MinHealthy.N > len(part.Servers.Addresses):
			v.fail(p.With("servers", "min_healthy"), "%d is more than the %d servers of %s", part.Servers.MinHealthy.N, len(part.Servers.Addresses), family)
		}
	}
}
