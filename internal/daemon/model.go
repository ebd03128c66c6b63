package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"rhid/announce"
	"rhid/announce/bfd"
	"rhid/announce/bgp"
	"rhid/announce/kernel"
	"rhid/announce/kernel/readback"
	"rhid/checks"
	"rhid/internal/config"
	"rhid/services"
)

// Names of the route targets, as in a service's via.
const (
	viaBGP    = "bgp"
	viaKernel = "kernel"
)

// model is a configuration as one node runs it. Once built it never
// changes, but for what the event loop keeps in service.made.
type model struct {
	cfg       *config.Config
	digest    string
	self      config.Node
	asn       uint32
	nodes     []services.Node
	decide    []services.Service
	at        map[string]int // place in decide, by name
	limited   bool           // a node's capacity is limited
	services  []*service     // those whose order names this node, in configured order
	specs     []checks.Spec
	recipes   []recipe // how to make each of specs anew
	links     []*link
	overload  string        // ID of the check that says whether this node is overloaded, empty for none
	peers     []bfd.Peer    // BFD sessions with the neighbours
	bgp       *bgp.Settings // nil when no service of this node is announced over BGP
	routers   []*teller     // those of bgp
	viaKernel bool          // a service of this node is announced as kernel route

	minNeighbours int       // BGP sessions without which the node is standby
	found         []heard   // routers that are known by an interface, in the order in which they were found
	unheard       []unheard // routers known by an interface that are no neighbours yet
	kernel        kernel.Settings
}

// service is one service of this node.
type service struct {
	name    string
	members []string            // IDs of its checks
	ids     map[string][]string // of each check: one for each server, or the node's own
	term    checks.Term
	pool    checks.Pool
	rules   services.Rules
	conf    *config.Service
	vip     config.VIP
	prepend int
	std     []uint32
	large   []announce.LargeCommunity
	made    map[attrKey]told // by the event loop, as they are needed
	first   int              // index of its first VIP in the wanted set, by the event loop
}

// newModel builds the model of node from cfg; found are the addresses of
// routers known by an interface, as far as they are known.
func newModel(cfg *config.Config, node string, found []heard) (*model, error) {
	self, ok := cfg.Node(node)
	if !ok {
		return nil, fmt.Errorf("the configuration has no node %q; it has %s (choose one with --node)", node, nodeNames(cfg))
	}
	m := &model{cfg: cfg, digest: cfg.Digest(), self: *self, asn: cfg.BGP.ASN, nodes: cfg.DecisionNodes(), decide: cfg.DecisionServices()}
	if self.ASN != 0 {
		m.asn = self.ASN
	}
	m.found = found
	m.minNeighbours = 1
	if site, ok := cfg.Site(self.Site); ok {
		m.minNeighbours = max(1, site.MinNeighbours)
	}
	m.limited = slices.ContainsFunc(m.nodes, func(n services.Node) bool { return n.Capacity > 0 })
	m.at = make(map[string]int, len(m.decide))
	for i, s := range m.decide {
		m.at[s.Name] = i
	}
	specs := map[string]bool{}
	parts := cfg.Parts()
	for i := range parts {
		if err := m.addService(&parts[i], specs); err != nil {
			return nil, fmt.Errorf("service %s: %w", parts[i].Name, err)
		}
	}
	if err := m.addLinks(specs); err != nil {
		return nil, fmt.Errorf("links and overload: %w", err)
	}
	m.viaKernel = len(m.vips(viaKernel)) > 0
	m.kernel = kernel.Settings{
		Protocol: cfg.Kernel.Protocol, Table: cfg.Kernel.Table, NextHop: cfg.Kernel.NextHop,
		Tiers: cfg.Kernel.Tiers, Devices: cfg.Kernel.TierDevices, Label: cfg.VIP.Label, VIPs: m.vips(""), Routed: m.vips(viaKernel),
		Readback: readback.Settings(cfg.Kernel.Readback), Spacing: cfg.Kernel.Spacing,
		Lease: cfg.Kernel.Lease, LeaseSource: kernel.TellsOfSource(),
	}
	return m, m.addBGP()
}

func nodeNames(cfg *config.Config) string {
	names := make([]string, len(cfg.Nodes))
	for i, n := range cfg.Nodes {
		names[i] = n.Name
	}
	return strings.Join(names, ", ")
}

func (m *model) addService(c *config.Service, specs map[string]bool) error {
	if !slices.Contains(c.Order, m.self.Name) {
		return nil
	}
	for _, p := range c.VIPs {
		if why := m.cfg.Refuses(&m.self, p); why != "" {
			return errors.New(why)
		}
	}
	s := &service{name: c.Name, conf: c, vip: m.cfg.VIPOf(c), prepend: 1, rules: rulesOf(c), made: map[attrKey]told{}}
	if c.Prepend != nil {
		s.prepend = *c.Prepend
	}
	std, large, err := c.ParsedCommunities()
	if err != nil {
		return err
	}
	s.std, s.large = std, largeOf(large)
	if err := m.addChecks(s, specs); err != nil {
		return err
	}
	m.services = append(m.services, s)
	return nil
}

// addChecks makes the checks of a service, those that another service has
// already excepted.
func (m *model) addChecks(s *service, specs map[string]bool) error {
	s.term, s.pool = m.cfg.Composition(s.conf)
	s.ids = map[string][]string{}
	for _, leaf := range m.cfg.Leaves(s.conf) {
		targets := []string{leaf.Check.Address}
		if leaf.OverServers {
			targets = nil
			for _, srv := range s.conf.Servers.Addresses {
				targets = append(targets, srv.Address)
			}
		}
		for _, t := range targets {
			spec, err := m.newSpec(leaf.Name, leaf.Check, t, s.name)
			if err != nil {
				return err
			}
			s.ids[leaf.Name] = append(s.ids[leaf.Name], spec.ID)
			s.members = append(s.members, spec.ID)
			if !specs[spec.ID] {
				specs[spec.ID] = true
				m.specs = append(m.specs, spec)
			}
		}
	}
	for i := range s.pool.Servers {
		s.pool.Servers[i].ID = m.ownTarget(s.pool.Servers[i].ID)
	}
	return nil
}

// ownTarget puts the node's own address in the place of the host self, so that
// one configuration lets every node check its own load balancer.
func (m *model) ownTarget(target string) string {
	switch port, ok := strings.CutPrefix(target, "self:"); {
	case ok:
		return net.JoinHostPort(m.self.Address.String(), port)
	case target == "self":
		return m.self.Address.String()
	default:
		return target
	}
}

func rulesOf(c *config.Service) services.Rules {
	d := c.Damping
	return services.Rules{
		Failback: failbackMode(c.Failback.Mode), Delay: c.Failback.Delay,
		Damping: services.Damping{Penalty: float64(d.Penalty), Suppress: float64(d.Suppress), Reuse: float64(d.Reuse), HalfLife: d.HalfLife},
	}
}

func failbackMode(s string) services.FailbackMode {
	switch s {
	case "manual":
		return services.FailbackManual
	case "never":
		return services.FailbackNever
	default:
		return services.FailbackAuto
	}
}

// vips returns the VIPs of this node's services; of those announced via one
// target unless that is empty.
func (m *model) vips(via string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range m.services {
		if via == "" || slices.Contains(s.conf.Via, via) {
			out = append(out, s.conf.VIPs...)
		}
	}
	return out
}

// addBGP builds the speaker's settings where a service needs it.
func (m *model) addBGP() error {
	allowed := m.vips(viaBGP)
	if len(allowed) == 0 {
		return nil
	}
	set := &bgp.Settings{
		ASN: m.asn, RouterID: m.self.RouterID, Port: m.cfg.BGP.Port,
		ListenAddresses: m.cfg.BGP.ListenAddresses, NodeID: m.self.ID, Allowed: allowed,
	}
	if len(m.interfaces()) > 0 && set.ListenAddresses == nil { // before the routers are known
		set.ListenAddresses = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	for _, r := range m.cfg.RoutersOf(m.self.Name) {
		if r.Interface != "" {
			var why string
			if r.Address, why = m.meeting(r.Interface); why != "" {
				m.unheard = append(m.unheard, unheard{r, why})
				continue
			}
		}
		n, err := newNeighbour(r)
		if err == nil {
			err = m.addRouter(r)
		}
		if err == nil {
			err = m.addPeer(r)
		}
		if err != nil {
			return fmt.Errorf("router %s: %w", r.Name, err)
		}
		set.Neighbours = append(set.Neighbours, n)
	}
	m.bgp = set
	return nil
}

func newNeighbour(r config.Router) (bgp.Neighbour, error) {
	n := bgp.Neighbour{
		Name: r.Name, Address: r.Address, ASN: r.ASN, Port: r.Port, Passive: r.Passive,
		Multihop: r.Multihop, TTLSecurity: r.TTLSecurity, Source: r.Source,
		Hold: r.Hold, Keepalive: r.Keepalive, ConnectRetry: r.ConnectRetry,
		IPv4: slices.Contains(r.Families, "ipv4"), IPv6: slices.Contains(r.Families, "ipv6"),
		NextHop: r.NextHop, NextHop6: r.NextHop6, MaxPrefixes: r.MaxPrefixes,
	}
	var err error
	if n.Password, err = r.Password(os.ReadFile); err != nil {
		return n, fmt.Errorf("reading the MD5 password: %w", err)
	}
	return n, nil
}
