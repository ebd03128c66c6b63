package checks

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const mainTable = 254

// RouteOptions are the settings of a route check.
type RouteOptions struct {
	Prefix   string   `yaml:"prefix" required:"true" doc:"the prefix that must be in the table exactly so, as in 10.0.0.0/8; 0.0.0.0/0 or ::/0 is the default route"`
	Via      []string `yaml:"via" doc:"neighbours of which one at the least must be a next hop; any by default"`
	Device   string   `yaml:"device" doc:"interface that a next hop must leave by; any by default"`
	Table    int      `yaml:"table" default:"254" doc:"number of the kernel's table; 254 is main"`
	Protocol int      `yaml:"protocol" doc:"number of the protocol that must have put it in, 188 is OSPF and 186 BGP of FRR, 12 is BIRD; any by default"`
}

// NeedsTarget implements Options.
func (*RouteOptions) NeedsTarget() TargetKind { return TargetNone }

// Problems implements Options.
func (o *RouteOptions) Problems() []Problem {
	var ps []Problem
	prefix, err := netip.ParsePrefix(o.Prefix)
	switch {
	case o.Prefix == "":
		ps = append(ps, Problem{"prefix", "is missing"})
	case err != nil:
		ps = append(ps, Problem{"prefix", fmt.Sprintf("%q is not a prefix like 10.0.0.0/8", o.Prefix)})
	case prefix != prefix.Masked():
		ps = append(ps, Problem{"prefix", fmt.Sprintf("%s has bits behind its length; write %s", prefix, prefix.Masked())})
	}
	for _, text := range o.Via {
		if a, err := netip.ParseAddr(text); err != nil || a.Zone() != "" || a.Is4In6() {
			ps = append(ps, Problem{"via", fmt.Sprintf("%q is not the address of a neighbour", text)})
		}
	}
	ps = append(ps, deviceProblems(o.Device, false)...)
	if o.Table < 0 || o.Table > math.MaxUint32 {
		ps = append(ps, Problem{"table", fmt.Sprintf("%d is not the number of a table, 1 to %d", o.Table, uint32(math.MaxUint32))})
	}
	if o.Protocol < 0 || o.Protocol > 255 {
		ps = append(ps, Problem{"protocol", fmt.Sprintf("%d is not between 1 and 255", o.Protocol)})
	}
	return ps
}

// routeProbe is a route check.
type routeProbe struct {
	prefix   netip.Prefix
	via      []netip.Addr
	device   string
	table    int
	protocol int
	limit    string
}

// Prober implements Options.
func (o *RouteOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("route check: %s %s", ps[0].Key, ps[0].Msg)
	}
	prefix, err := netip.ParsePrefix(o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("route check: %w", err)
	}
	p := &routeProbe{prefix: prefix, device: o.Device, table: o.Table, protocol: o.Protocol, limit: limitText(t.Limit)}
	if p.table == 0 {
		p.table = mainTable
	}
	for _, text := range o.Via {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("route check: via: %w", err)
		}
		p.via = append(p.via, a)
	}
	return timed(p.probe), nil
}

func (p *routeProbe) probe(ctx context.Context) Result {
	all, err := kernelRoutes(ctx, p.prefix, p.table)
	if err != nil {
		return kernelFailure(ctx, err, p.limit).result("")
	}
	links, err := kernelLinks(ctx)
	if err != nil {
		return kernelFailure(ctx, err, p.limit).result("")
	}
	name := func(index int) string {
		for _, l := range links {
			if l.index == index {
				return l.name
			}
		}
		return "interface " + strconv.Itoa(index)
	}
	hops, f := p.judge(all, name)
	return f.result("in the table, " + hops)
}

// judge looks at the routes for the prefix. Only those with the lowest metric
// carry traffic; whether another would do does not help.
func (p *routeProbe) judge(all []kernelRoute, name func(int) string) (hops string, f *failure) {
	best := bestRoutes(all)
	if len(best) == 0 {
		return "", failf(CauseAnswer, "no route for %s in table %d", p.prefix, p.table)
	}
	var texts []string
	usable, wanted := false, false
	for _, r := range best {
		if kind := r.kindName(); kind != "" {
			return "", failf(CauseAnswer, "the route for %s is of type %s: it leads nowhere", p.prefix, kind)
		}
		for _, h := range r.hops {
			texts = append(texts, h.text(name))
			usable = usable || !h.dead
			wanted = wanted || !h.dead && p.wants(h, name) && (p.protocol == 0 || p.protocol == r.protocol)
		}
	}
	hops = strings.Join(texts, " and ")
	switch {
	case wanted:
		return hops, nil
	case !usable:
		return "", failf(CauseAnswer, "the route for %s has no next hop that is alive: %s", p.prefix, hops)
	case p.protocol != 0 && !slices.ContainsFunc(best, func(r kernelRoute) bool { return r.protocol == p.protocol }):
		return "", failf(CauseAnswer, "the route for %s is of protocol %d, wanted protocol %d", p.prefix, best[0].protocol, p.protocol)
	default:
		return "", failf(CauseAnswer, "the route for %s goes %s, wanted %s", p.prefix, hops, p.wanted())
	}
}

// wants says whether a next hop is one of the wanted.
func (p *routeProbe) wants(h nextHop, name func(int) string) bool {
	return (p.via == nil || slices.Contains(p.via, h.gateway)) && (p.device == "" || p.device == name(h.link))
}

// wanted is what the next hop should be, in words.
func (p *routeProbe) wanted() string {
	var out []string
	if p.via != nil {
		names := make([]string, len(p.via))
		for i, a := range p.via {
			names[i] = a.String()
		}
		out = append(out, "via "+strings.Join(names, " or "))
	}
	if p.device != "" {
		out = append(out, "dev "+p.device)
	}
	return strings.Join(out, " ")
}
