package config

import (
	"maps"
	"slices"
	"time"

	"rhid/internal/config/strict"
)

// Link is a path that a node depends on, watched by several probes a second.
type Link struct {
	Name       string        `yaml:"name" required:"true" doc:"the link's name"`
	Check      CheckRef      `yaml:"check" required:"true" doc:"how the link is probed: name of a check, or a check in place, whose interval is then 300ms by default; the link's own window stands in the place of rise and fall"`
	Addresses  []string      `yaml:"addresses" doc:"what is probed along the link; the check's address by default"`
	MinHealthy Quorum        `yaml:"min_healthy" default:"1" doc:"how many addresses must be reached well for the link to be up: a number or a percentage"`
	Window     int           `yaml:"window" default:"50" min:"1" max:"1000" doc:"the last so many probes of an address are looked at"`
	MaxLoss    int           `yaml:"max_loss" default:"10" min:"0" max:"100" doc:"percentage of the window that may be lost; up again at half of it; 100 does not look at loss"`
	MaxDelay   time.Duration `yaml:"max_delay" doc:"limit of the answers' median delay; none by default"`
	Effect     string        `yaml:"effect" default:"alarm" enum:"alarm,standby,down" doc:"what it means for services that depend on the link when it is down: only an alarm; the node serves where no other can; the node cannot serve"`
	Backends   []string      `yaml:"backends" enum:"bgp,kernel" doc:"the link matters to services that are announced by these backends only; all by default"`
}

// overloadName is the name of the overload's check where it stands in place.
const overloadName = "overload"

// linkInterval is the interval of a link's check in place that has none: with
// it a whole window of 50 probes takes 15 s, and delays of up to 240 ms can be
// told from loss.
const linkInterval = 300 * time.Millisecond

// LinksOf returns the links of a node: those of its site, then its own, with
// all defaults filled in. An unknown node has none.
func (c *Config) LinksOf(node string) []Link {
	n, ok := c.Node(node)
	if !ok {
		return nil
	}
	var out []Link
	if site, ok := c.Site(n.Site); ok {
		out = append(out, site.Links...)
	}
	return append(out, n.Links...)
}

// CheckOfLink returns the check of a link.
func (c *Config) CheckOfLink(l *Link) *Check { return c.checkOfRef(&l.Check) }

// CheckOfOverload returns the check of the nodes' overload and its name, nil
// where there is none.
func (c *Config) CheckOfOverload() (name string, check *Check) {
	switch ref := c.Overload; {
	case ref == nil:
		return "", nil
	case ref.Inline != nil:
		return overloadName, ref.Inline
	default:
		return ref.Name, c.Checks[ref.Name]
	}
}

func (c *Config) checkOfRef(ref *CheckRef) *Check {
	if ref.Inline != nil {
		return ref.Inline
	}
	return c.Checks[ref.Name]
}

// Concerns says whether a service depends on the link: all backends by which
// it is announced are among those of the link. A service that has another way
// into the network goes on by that.
func (l *Link) Concerns(s *Service) bool {
	if len(l.Backends) == 0 {
		return true
	}
	return !slices.ContainsFunc(s.Via, func(via string) bool { return !slices.Contains(l.Backends, via) })
}

// resolveLinks fills in what depends on where the check stands.
func resolveLinks(links []Link, doc *strict.Document, p strict.Path) {
	for i := range links {
		c := links[i].Check.Inline
		if c == nil {
			continue
		}
		if !doc.Has(p.With(i, "check", "interval")) {
			c.Interval = linkInterval
		}
		c.resolve()
	}
}

// links validates the links of a site or a node. names has those that a node
// has from its site.
func (v *validator) links(p strict.Path, links []Link, names map[string]strict.Path) {
	for i := range links {
		l := &links[i]
		at := p.With(i)
		v.name(at.With("name"), l.Name)
		unique(v, names, at.With("name"), l.Name, "there is a link %q already", l.Name)
		c := v.checkRef(at.With("check"), &l.Check)
		seen := map[string]strict.Path{}
		for j, b := range l.Backends {
			unique(v, seen, at.With("backends", j), b, "%s is there twice", b)
		}
		if c != nil && c.Options != nil {
			v.linkProbes(at, l, c)
		}
	}
}

// checkRef validates a reference to a check outside of a service, and returns
// what it refers to, nil for nothing.
func (v *validator) checkRef(p strict.Path, ref *CheckRef) *Check {
	c := v.cfg.checkOfRef(ref)
	switch {
	case ref.Inline != nil:
		v.check(p, c)
	case c == nil && ref.Name != "" && !v.cfg.hasCheck(ref.Name):
		v.noSuch(p, "check", ref.Name, slices.Sorted(maps.Keys(v.cfg.Checks)))
	}
	if c == nil {
		return nil
	}
	if typ, _ := typeOf(c.Type); typ.Passive {
		v.fail(p, "is of type %s, which watches a service's traffic; here a check is needed that probes", c.Type)
	}
	return c
}

// linkProbes validates what a link's probes go to, and what they can see.
func (v *validator) linkProbes(p strict.Path, l *Link, c *Check) {
	seen := map[string]strict.Path{}
	for i, text := range l.Addresses {
		at := p.With("addresses", i)
		if t, ok := v.target(at, c, text); ok {
			unique(v, seen, at, sameTarget(t), "%s is there twice", text)
		}
	}
	switch have := max(1, len(l.Addresses)); {
	case len(l.Addresses) == 0 && c.Address == "" && needsTarget(c):
		v.fail(p.With("addresses"), "is required: the link has nothing to probe; or give the check an address")
	case l.MinHealthy.N > have:
		v.fail(p.With("min_healthy"), "%d is more than the %d addresses", l.MinHealthy.N, have)
	}
	if l.MaxDelay < 0 || l.MaxDelay > 0 && l.MaxDelay >= c.Timeout {
		v.fail(p.With("max_delay"), "%s must be positive and shorter than the check's timeout %s: a later answer counts as lost", l.MaxDelay, c.Timeout)
	}
}

// overload validates the check of the nodes' overload.
func (v *validator) overload() {
	ref := v.cfg.Overload
	if ref == nil {
		return
	}
	p := strict.Path{"overload"}
	c := v.checkRef(p, ref)
	if c != nil && c.Options != nil && c.Address == "" && needsTarget(c) {
		v.fail(p, "has nothing to look at: give the check an address, or use a check of type load")
	}
}
