// Package routerconf writes the other side's configuration: what a router, or the
// routing daemon beside rhid, must be told so that it fits rhid's own.
package routerconf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"rhid/internal/config"
)

// What text is written for.
const (
	FRR    = "frr"
	BIRD   = "bird"
	Cisco  = "cisco"  // IOS and IOS XE
	Huawei = "huawei" // VRP

	SideHost   = "host"
	SideRouter = "router"
	SideBoth   = "both"
)

// Options choose what to write.
type Options struct {
	For  string // FRR, BIRD, Cisco or Huawei
	Via  string // config.ViaBGP or config.ViaKernel
	Side string // SideHost, SideRouter or SideBoth; BGP has no host's side
	Node string // the host; all that concern a router where it is empty
	// Routers are names or addresses of BGP neighbours that are one router; by
	// default each name is a router.
	Routers []string

	HostInterface   string // with OSPF: the host's link to the router
	RouterInterface string // with OSPF: the router's link to the host
	Area            string // of OSPF

	// Password returns the MD5 password of a router's sessions. Without it, the
	// text says where it is.
	Password func(config.Router) (string, error)
}

// session is one BGP session as the router sees it.
type session struct {
	node     string
	address  netip.Addr // of the host
	asn      uint32
	router   config.Router
	password string
}

// router is a BGP router with all of its sessions.
type router struct {
	name     string
	asn      uint32
	sessions []session
	vips     []netip.Prefix // that rhid may send it
}

// Write returns the text, one section for each side and each router.
func Write(cfg *config.Config, o Options) (string, error) {
	switch {
	case !slices.Contains([]string{FRR, BIRD, Cisco, Huawei}, o.For):
		return "", fmt.Errorf("nothing can be written for %q; frr, bird, cisco and huawei are known", o.For)
	case o.Via == config.ViaKernel && o.For != FRR && o.For != BIRD:
		return "", fmt.Errorf("via kernel is for the routing daemon beside rhid, frr or bird, not %s", o.For)
	case o.Via == config.ViaKernel:
		return writeKernel(cfg, o)
	case o.Via == config.ViaBGP:
		return writeBGP(cfg, o)
	}
	return "", fmt.Errorf("%q is neither bgp nor kernel", o.Via)
}

func writeBGP(cfg *config.Config, o Options) (string, error) {
	if o.Side == SideHost {
		return "", errors.New("over BGP rhid speaks itself: there is no host's side")
	}
	routers, err := routersOf(cfg, o)
	if err != nil {
		return "", err
	}
	write := map[string]func(*text, router){FRR: frrBGP, BIRD: birdBGP, Cisco: ciscoBGP, Huawei: huaweiBGP}[o.For]
	var t text
	for _, r := range routers {
		write(&t, r)
	}
	return t.String(), nil
}

// routersOf collects the BGP routers in the order of the configuration.
func routersOf(cfg *config.Config, o Options) ([]router, error) {
	var out []router
	for _, n := range cfg.Nodes {
		if o.Node != "" && n.Name != o.Node {
			continue
		}
		for _, r := range cfg.RoutersOf(n.Name) {
			if o.Routers != nil && !slices.Contains(o.Routers, r.Name) && !slices.Contains(o.Routers, r.Address.String()) {
				continue
			}
			if r.Interface != "" {
				continue // docs/bgp.md has the router's side of those
			}
			s := session{node: n.Name, address: n.Address, asn: n.ASN, router: r}
			if r.Source.IsValid() {
				s.address = r.Source
			}
			if err := s.readPassword(o); err != nil {
				return nil, err
			}
			i := slices.IndexFunc(out, func(have router) bool {
				return have.asn == r.ASN && (have.name == r.Name || o.Routers != nil)
			})
			if i < 0 {
				out = append(out, router{name: r.Name, asn: r.ASN})
				i = len(out) - 1
			}
			out[i].sessions = append(out[i].sessions, s)
			out[i].addVIPs(cfg, n.Name, r)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the configuration has no such BGP router")
	}
	return out, nil
}

func (s *session) readPassword(o Options) error {
	if o.Password == nil || !s.hasPassword() {
		return nil
	}
	var err error
	if s.password, err = o.Password(s.router); err != nil {
		return fmt.Errorf("router %s: %w", s.router.Name, err)
	}
	return nil
}

func (s *session) hasPassword() bool {
	return s.router.PasswordFile != "" || s.router.PasswordCred != ""
}

// passwordIs says where the password is.
func (s *session) passwordIs() string {
	if s.router.PasswordFile != "" {
		return "the first line of " + s.router.PasswordFile + " on the host"
	}
	return "that of the credential " + s.router.PasswordCred + " on the host"
}

// families says which families the session carries.
func (s *session) families() (four, six bool) {
	return slices.Contains(s.router.Families, "ipv4"), slices.Contains(s.router.Families, "ipv6")
}

// extended says whether IPv4 VIPs have an IPv6 next hop (RFC 8950).
func (s *session) extended() bool {
	four, _ := s.families()
	return four && (s.address.Is6() && !s.router.NextHop.Is4() || s.router.NextHop.Is6())
}

func (r *router) addVIPs(cfg *config.Config, node string, of config.Router) {
	for i := range cfg.Services {
		svc := &cfg.Services[i]
		if !svc.HasVia(config.ViaBGP) || !slices.Contains(svc.Order, node) ||
			of.Services != nil && !slices.Contains(of.Services, svc.Name) {
			continue
		}
		for _, p := range svc.VIPs {
			if !slices.Contains(r.vips, p) {
				r.vips = append(r.vips, p)
			}
		}
	}
}

// carried are the VIPs of a family that some session of the router carries.
func (r *router) carried() (four, six []netip.Prefix) {
	hasFour, hasSix := false, false
	for _, s := range r.sessions {
		f, x := s.families()
		hasFour, hasSix = hasFour || f, hasSix || x
	}
	four, six = split(r.vips)
	if !hasFour {
		four = nil
	}
	if !hasSix {
		six = nil
	}
	return four, six
}

// split takes IPv4 and IPv6 apart.
func split(ps []netip.Prefix) (four, six []netip.Prefix) {
	for _, p := range ps {
		if p.Addr().Is4() {
			four = append(four, p)
		} else {
			six = append(six, p)
		}
	}
	return four, six
}

// prefixLimit is how many prefixes of a family a router should take from one
// session: more than there are, so that some can be added.
func prefixLimit(n int) int { return 2*n + 10 }

func seconds(d time.Duration) int { return int(d / time.Second) }

func milliseconds(d time.Duration) int { return int(d / time.Millisecond) }

// fastest returns the BFD settings with the shortest interval of all sessions,
// nil if none has BFD.
func (r *router) fastest() *config.BFD {
	var out *config.BFD
	for _, s := range r.sessions {
		if b := s.router.BFD; b != nil && (out == nil || b.Interval < out.Interval) {
			out = b
		}
	}
	return out
}

// text is written line by line.
type text struct{ strings.Builder }

func (t *text) line(format string, args ...any) {
	fmt.Fprintf(t, format+"\n", args...)
}
