package bgp

import (
	"context"
	"fmt"
	"math/bits"
	"net/netip"

	api "github.com/osrg/gobgp/v3/api"
)

// Names of the policies and sets in GoBGP.
const (
	exportPolicy = "rhid-export"
	importPolicy = "rhid-import"
	setVIPs4     = "rhid-vips-ipv4"
	setVIPs6     = "rhid-vips-ipv6"
	setEBGP      = "rhid-ebgp"
)

// nextHopPlan says how a family's routes get their next hop on a session.
type nextHopPlan struct {
	addr     netip.Addr // not valid: the session's own address, set by GoBGP
	extended bool       // IPv4 routes with an IPv6 next hop, needs RFC 8950
	missing  bool       // there is none
}

// takes says whether n is to exchange routes of a family.
func (n Neighbour) takes(v4 bool) bool { return v4 && n.IPv4 || !v4 && n.IPv6 }

// plan returns the next hop of IPv4 or IPv6 routes towards n.
func (n Neighbour) plan(v4 bool) nextHopPlan {
	session4 := n.Address.Is4()
	var own netip.Addr
	if n.linkLocal() {
		own = n.Source.WithZone("") // see Settings.resolve
	}
	switch {
	case v4 && n.NextHop.IsValid():
		return nextHopPlan{addr: n.NextHop, extended: n.NextHop.Is6()}
	case v4:
		return nextHopPlan{addr: own, extended: !session4}
	case n.NextHop6.IsValid():
		return nextHopPlan{addr: n.NextHop6}
	default:
		return nextHopPlan{addr: own, missing: session4}
	}
}

// exports says whether the policy has a statement for the family towards n.
// extended is whether the present session negotiated RFC 8950: without it a
// router may take an IPv6 next hop of an IPv4 route for a malformed message.
func (n Neighbour) exports(v4, extended bool) bool {
	if !n.takes(v4) {
		return false
	}
	p := n.plan(v4)
	return !p.missing && (!p.extended || extended)
}

// buildPolicies returns the whole filter. extended has the neighbours whose
// present session negotiated RFC 8950, special the routes that look different
// to different neighbours.
func buildPolicies(st Settings, extended map[netip.Addr]bool, special *specials) *api.SetPoliciesRequest {
	req := &api.SetPoliciesRequest{}
	have := map[bool]bool{}
	for _, v4 := range []bool{true, false} {
		set := vipSet(st.Allowed, v4)
		if have[v4] = len(set.Prefixes) > 0; have[v4] {
			req.DefinedSets = append(req.DefinedSets, set)
		}
	}
	var ebgp []string
	var accept, own []*api.Statement
	for i, n := range st.Neighbours {
		host := n.Address.WithZone("")
		cidr := netip.PrefixFrom(host, host.BitLen()).String()
		set := fmt.Sprintf("rhid-neighbour-%d", i)
		req.DefinedSets = append(req.DefinedSets, &api.DefinedSet{
			DefinedType: api.DefinedType_NEIGHBOR, Name: set, List: []string{cidr}})
		if kept, refuse := special.refusal(set, n); kept != nil {
			req.DefinedSets = append(req.DefinedSets, kept)
			own = append(own, refuse)
		}
		own = append(own, special.statements(set, n, st.ASN)...)
		if n.ASN != st.ASN {
			ebgp = append(ebgp, cidr)
		}
		for _, v4 := range []bool{true, false} {
			if have[v4] && n.exports(v4, extended[n.Address]) {
				accept = append(accept, acceptStatement(set, v4, n.plan(v4)))
			}
		}
	}
	export := &api.Policy{Name: exportPolicy, Statements: own}
	if len(ebgp) > 0 {
		req.DefinedSets = append(req.DefinedSets, &api.DefinedSet{
			DefinedType: api.DefinedType_NEIGHBOR, Name: setEBGP, List: ebgp})
		export.Statements = append(export.Statements, prependStatements(st.ASN)...)
	}
	export.Statements = append(export.Statements, accept...)
	// The import policy also judges local paths, which must get in.
	local := &api.Policy{Name: importPolicy, Statements: []*api.Statement{{
		Name:       importPolicy + "-local",
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ACCEPT},
	}}}
	req.Policies = []*api.Policy{export, local}
	return req
}

// vipSet is the set of all VIPs of a family, each as exactly itself.
func vipSet(allowed []netip.Prefix, v4 bool) *api.DefinedSet {
	set := &api.DefinedSet{DefinedType: api.DefinedType_PREFIX, Name: setVIPs6}
	if v4 {
		set.Name = setVIPs4
	}
	for _, p := range allowed {
		if p.Addr().Is4() == v4 {
			length := uint32(p.Bits())
			set.Prefixes = append(set.Prefixes, &api.Prefix{IpPrefix: p.String(), MaskLengthMin: length, MaskLengthMax: length})
		}
	}
	return set
}

// prependStatements turn the mark of a path into prepends towards eBGP
// neighbours and let the evaluation go on: one statement for each bit of the
// mark, so that a path passes five of them and not thirty-one.
func prependStatements(asn uint32) []*api.Statement {
	var out []*api.Statement
	for bit := 1; bit <= maxPrepend; bit <<= 1 {
		out = append(out, &api.Statement{
			Name: fmt.Sprintf("%s-prepend-%d", exportPolicy, bit),
			Conditions: &api.Conditions{
				NeighborSet:   &api.MatchSet{Name: setEBGP, Type: api.MatchSet_ANY},
				NextHopInList: marksWith(bit),
			},
			Actions: &api.Actions{AsPrepend: &api.AsPrependAction{Asn: asn, Repeat: uint32(bit)}},
		})
	}
	return out
}

// marksWith lists, as few prefixes, the marks with a bit set.
func marksWith(bit int) []string {
	var out []string
	for _, v4 := range []bool{true, false} {
		for n := bit; n <= maxPrepend; n += 2 * bit {
			a := markAddr(v4, n)
			out = append(out, netip.PrefixFrom(a, a.BitLen()-bits.TrailingZeros(uint(bit))).String())
		}
	}
	return out
}

// acceptStatement lets the VIPs of a family out to one neighbour. It always
// sets the next hop, which takes the prepend mark off.
func acceptStatement(neighbourSet string, v4 bool, plan nextHopPlan) *api.Statement {
	prefixes, name := setVIPs6, "ipv6"
	if v4 {
		prefixes, name = setVIPs4, "ipv4"
	}
	hop := &api.NexthopAction{Self: true}
	if plan.addr.IsValid() {
		hop = &api.NexthopAction{Address: plan.addr.String()}
	}
	return &api.Statement{
		Name: neighbourSet + "-" + name,
		Conditions: &api.Conditions{
			NeighborSet: &api.MatchSet{Name: neighbourSet, Type: api.MatchSet_ANY},
			PrefixSet:   &api.MatchSet{Name: prefixes, Type: api.MatchSet_ANY},
			RouteType:   api.Conditions_ROUTE_TYPE_LOCAL,
		},
		Actions: &api.Actions{RouteAction: api.RouteAction_ACCEPT, Nexthop: hop},
	}
}

// assignPolicies makes the two policies those of the global table, with reject
// as the default. Later SetPolicies calls replace their contents in one step
// and keep the assignment.
func (s *Speaker) assignPolicies(ctx context.Context) error {
	for dir, name := range map[api.PolicyDirection]string{
		api.PolicyDirection_EXPORT: exportPolicy,
		api.PolicyDirection_IMPORT: importPolicy,
	} {
		err := s.bgp.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
			Name: "global", Direction: dir, Policies: []*api.Policy{{Name: name}}, DefaultAction: api.RouteAction_REJECT,
		}})
		if err != nil {
			return fmt.Errorf("assigning the policy %s: %w", name, err)
		}
	}
	return nil
}
