package config

import (
	"slices"
	"time"

	"rhid/internal/config/strict"
	"rhid/services"
)

// resolve fills in the defaults that depend on other values. It runs on
// configurations with errors, too, so that validation can find the rest.
func resolve(cfg *Config, doc *strict.Document) {
	if cfg.BGP.Keepalive == 0 {
		cfg.BGP.Keepalive = keepaliveFor(cfg.BGP.Hold)
	}
	if cfg.Kernel.Spacing == 0 {
		cfg.Kernel.Spacing = spacingFor(cfg.Kernel.Readback.From)
	}
	for i := range cfg.Sites {
		s := &cfg.Sites[i]
		resolveRouters(cfg, s.Routers)
		inheritAttributes(s, s.Routers)
		resolveLinks(cfg.Sites[i].Links, doc, strict.Path{"sites", i, "links"})
	}
	for i := range cfg.Nodes {
		resolveNode(cfg, &cfg.Nodes[i], i)
		resolveLinks(cfg.Nodes[i].Links, doc, strict.Path{"nodes", i, "links"})
	}
	for _, c := range cfg.Checks {
		c.resolve()
	}
	if ref := cfg.Overload; ref != nil && ref.Inline != nil {
		ref.Inline.resolve()
	}
	for i := range cfg.Services {
		resolveService(cfg, doc, i)
	}
}

// keepaliveFor is a third of the hold time (RFC 4271, 4.4) in whole seconds.
func keepaliveFor(hold time.Duration) time.Duration {
	return max(time.Second, (hold / 3).Truncate(time.Second))
}

// spacingFor is a little more than what routers and daemons keep between two
// LSAs of one prefix: MinLSArrival, and MinLSInterval in BIRD (RFC 2328,
// appendix B).
func spacingFor(daemons []string) time.Duration {
	if slices.Contains(daemons, "bird") {
		return 5100 * time.Millisecond
	}
	return 1100 * time.Millisecond
}

func resolveRouters(cfg *Config, routers []Router) {
	for i := range routers {
		r := &routers[i]
		switch {
		case r.Name != "":
		case r.Interface != "":
			r.Name = r.Interface
		case r.Address.IsValid():
			r.Name = r.Address.String()
		}
		switch {
		case r.Keepalive != 0:
		case r.Hold != 0:
			r.Keepalive = keepaliveFor(r.Hold)
		default:
			r.Keepalive = cfg.BGP.Keepalive
		}
		if r.Hold == 0 {
			r.Hold = cfg.BGP.Hold
		}
		if r.ConnectRetry == 0 {
			r.ConnectRetry = cfg.BGP.ConnectRetry
		}
		if r.Families == nil {
			r.Families = []string{familyIPv4, familyIPv6}
		}
	}
}

// inheritAttributes gives routers of a site its attributes where they have
// none of their own.
func inheritAttributes(site *Site, routers []Router) {
	for i := range routers {
		if routers[i].Attributes == nil {
			routers[i].Attributes = site.Attributes
		}
	}
}

func resolveNode(cfg *Config, n *Node, index int) {
	if n.ID == 0 {
		n.ID = uint32(index) + 1
	}
	if n.ASN == 0 {
		n.ASN = cfg.BGP.ASN
	}
	switch {
	case n.RouterID.IsValid():
	case cfg.BGP.RouterID.IsValid():
		n.RouterID = cfg.BGP.RouterID
	case n.Address.Is4():
		n.RouterID = n.Address
	}
	resolveRouters(cfg, n.Routers)
	if site, ok := cfg.Site(n.Site); ok {
		inheritAttributes(site, n.Routers)
	}
}

// resolve fills in a check's timing.
func (c *Check) resolve() {
	if c.FastInterval == 0 {
		c.FastInterval = c.Interval
	}
	if shorter := min(c.Interval, c.FastInterval); c.Timeout == 0 && c.Jitter < shorter {
		c.Timeout = (shorter - c.Jitter) * 8 / 10
	}
	if w := c.Window; w != nil && w.Recover == 0 {
		w.Recover = w.Size
	}
	if c.Rate != nil {
		c.Rate.resolve()
	}
}

// defaultMinSamples is rate.min_samples where last is not fewer.
const defaultMinSamples = 20

func (r *Rate) resolve() {
	if r.Recover == 0 {
		r.Recover = (r.Min + 100) / 2
	}
	if r.MinSamples == 0 {
		r.MinSamples = defaultMinSamples
		if r.Last > 0 {
			r.MinSamples = min(defaultMinSamples, r.Last)
		}
	}
}

func resolveService(cfg *Config, doc *strict.Document, index int) {
	s := &cfg.Services[index]
	if s.Order == nil {
		s.Order = services.AutoOrder(s.Name, s.Main, cfg.DecisionNodes())
	}
	if s.Check.Inline != nil {
		s.Check.Inline.resolve()
	}
	if s.Prepend == nil {
		n := 0
		if s.HasVia(ViaBGP) && cfg.anyRouter(s, isEBGP) {
			n = 1
		}
		s.Prepend = &n
	}
	p := strict.Path{"services", index, "vip"}
	if s.VIP == nil {
		s.VIP = new(ServiceVIP)
	}
	if s.VIP.Bind == "" {
		s.VIP.Bind = cfg.VIP.Bind
	}
	if s.VIP.Mode == "" {
		s.VIP.Mode = cfg.VIP.Mode
	}
	if !doc.Has(p.With("linger")) { // 0s is a value of its own
		s.VIP.Linger = cfg.VIP.Linger
	}
}
