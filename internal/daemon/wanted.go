package daemon

import (
	"net/netip"
	"slices"

	"rhid/announce"
	"rhid/services"
)

// gracefulShutdown is the well-known community of RFC 8326: routers lower the
// preference of a route that carries it.
const gracefulShutdown = 0xFFFF0000

// wanted turns the plan into the whole wanted set of the announcer. While
// draining, what would be announced goes out with the worst rank and
// GRACEFUL_SHUTDOWN; when withdrawing, nothing is announced.
func (m *model) wanted(plan map[string]services.Decision, phase phase) []*announce.VIP {
	out := make([]*announce.VIP, 0, len(m.services))
	for _, s := range m.services {
		s.first = len(out)
		for _, p := range s.conf.VIPs {
			out = append(out, m.want(s, p, plan[s.name], phase))
		}
	}
	return out
}

// rewant makes the VIPs of some services anew in a wanted set.
func (m *model) rewant(set []*announce.VIP, some []*service, plan map[string]services.Decision, phase phase) {
	for _, s := range some {
		for i, p := range s.conf.VIPs {
			set[s.first+i] = m.want(s, p, plan[s.name], phase)
		}
	}
}

// want is one VIP with all that is wanted of it.
func (m *model) want(s *service, p netip.Prefix, d services.Decision, phase phase) *announce.VIP {
	action, rank := actionOf(d.Verdict), d.Rank
	if phase >= phaseWithdrawing && action != announce.Leave {
		action = announce.Withdraw
	}
	if phase == phaseDraining || d.Degraded {
		rank = len(s.conf.Order)
	}
	return &announce.VIP{
		Prefix: p, Service: s.name, Action: action,
		Attrs: s.attrs(m, rank, phase == phaseDraining || d.Verdict == services.Hold && d.Draining),
		Bind:  bindOf(s.vip.Bind), Local: localOf(s), Linger: s.vip.Linger, Via: s.conf.Via,
	}
}

func actionOf(v services.Verdict) announce.Action {
	switch v {
	case services.Announce, services.Hold:
		return announce.Announce
	case services.Withdraw:
		return announce.Withdraw
	default:
		return announce.Leave
	}
}

func bindOf(s string) announce.Bind {
	switch s {
	case "always":
		return announce.BindAlways
	case "never":
		return announce.BindNever
	default:
		return announce.BindAnnouncing
	}
}

// localOf chooses AnyIP for the kernel backend: FRR prefers the connected
// route of an address to a kernel route for the same prefix, and then exports
// nothing.
func localOf(s *service) announce.LocalMode {
	switch {
	case s.vip.Bind == "never":
		return announce.LocalNone
	case s.vip.Mode == "anyip", s.vip.Mode == "auto" && slices.Contains(s.conf.Via, viaKernel):
		return announce.LocalAnyIP
	default:
		return announce.LocalAddress
	}
}

// attrKey is what a service's attributes depend on.
type attrKey struct {
	rank     int
	draining bool
}

// attrs returns the attributes of a service at a rank, made once.
func (s *service) attrs(m *model, rank int, draining bool) announce.Attrs {
	key := attrKey{rank, draining}
	a, ok := s.made[key]
	if !ok {
		a = m.attrs(s, rank, draining)
		s.made[key] = a
	}
	return a
}

// attrs makes a service's attributes at a rank. The large community
// <asn>:<node id>:<rank> tells other nodes whose route it is.
func (m *model) attrs(s *service, rank int, draining bool) announce.Attrs {
	a := announce.Attrs{
		Rank:        rank,
		Metric:      s.conf.Metric.Base + uint32(rank)*s.conf.Metric.Step, //nolint:gosec // rank is at most the length of an order
		Prepend:     rank * s.prepend,
		LocalPref:   s.conf.LocalPref,
		Communities: s.std,
		LargeCommunities: append([]announce.LargeCommunity{
			{Global: m.asn, Local1: m.self.ID, Local2: uint32(rank)}, //nolint:gosec // as above
		}, s.large...),
	}
	if draining {
		a.Communities = append(slices.Clone(s.std), gracefulShutdown)
		slices.Sort(a.Communities)
	}
	return a
}
