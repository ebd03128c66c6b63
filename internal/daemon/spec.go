package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"rhid/checks"
	"rhid/internal/config"
)

// newSpec makes one check of one target, as it is written, for a service.
func (m *model) newSpec(name string, c *config.Check, target, service string) (checks.Spec, error) {
	r := recipe{name, c, m.ownTarget(target), service}
	spec, err := r.make()
	if err != nil {
		return spec, err
	}
	m.recipes = append(m.recipes, r)
	return spec, nil
}

// recipe is how a check is made.
type recipe struct {
	name    string
	check   *config.Check
	target  string
	service string
}

func (r *recipe) make() (checks.Spec, error) { return newSpec(r.name, r.check, r.target, r.service) }

// newSpec makes one check of one target for a service.
func newSpec(name string, c *config.Check, target, service string) (checks.Spec, error) {
	t, err := newTarget(c, target)
	if err != nil {
		return checks.Spec{}, err
	}
	common := checks.Common{
		ResolveAll: c.Resolve == "all", ResolveMin: checks.Quorum(c.ResolveMin), Invert: c.Invert,
		MaintenanceFile: strings.ReplaceAll(c.MaintenanceFile, "{target}", target),
	}
	p, err := checks.NewProber(c.Options, t, common)
	if err != nil {
		return checks.Spec{}, fmt.Errorf("check %s: %w", name, err)
	}
	typ := typeOf(c.Type)
	id := name
	switch {
	case typ.PerService:
		id += "@" + service
	case target != "":
		id += "@" + target
	}
	sum := sha256.Sum256([]byte(c.Fingerprint() + "|" + target))
	return checks.Spec{
		ID: id, Name: name, Type: c.Type, Target: target, Key: hex.EncodeToString(sum[:8]), Prober: p, Passive: typ.Passive,
		Timing: checks.Timing{
			Interval: c.Interval, FastInterval: c.FastInterval, Jitter: c.Jitter, Timeout: c.Timeout, Rise: c.Rise, Fall: c.Fall,
		},
		Rules: rulesOfCheck(c),
	}, nil
}

func typeOf(name string) checks.Type {
	types := checks.Types()
	return types[slices.IndexFunc(types, func(t checks.Type) bool { return t.Name == name })]
}

func rulesOfCheck(c *config.Check) checks.Rules {
	var out checks.Rules
	if w := c.Window; w != nil {
		out.Window = checks.Window(*w)
	}
	if r := c.Rate; r != nil {
		out.Rate = checks.Rate{Over: r.Over, Last: r.Last, Min: float64(r.Min), Recover: float64(r.Recover), MinSamples: r.MinSamples}
	}
	if l := c.Latency; l != nil {
		out.Latency = checks.Latency(*l)
	}
	return out
}

func newTarget(c *config.Check, target string) (checks.Target, error) {
	t := checks.Target{}
	if target != "" {
		var err error
		if t, err = config.ParseTarget(c.Options.NeedsTarget(), target); err != nil {
			return t, fmt.Errorf("target %s: %w", target, err)
		}
	}
	t.Source, t.Device, t.Mark, t.Limit = c.Source, c.Interface, c.Mark, c.Timeout
	if addr, err := netip.ParseAddr(c.Resolve); err == nil {
		t.Addr = addr.Unmap()
	}
	return t, nil
}
