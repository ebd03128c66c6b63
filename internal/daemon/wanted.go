package daemon

import (
	"net/netip"
	"slices"

	"rhid/announce"
	"rhid/internal/config"
	"rhid/services"
)

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
	key := attrKey{rank: rank}
	switch {
	case phase == phaseDraining, d.Verdict == services.Hold && d.Draining:
		key = attrKey{len(s.conf.Order), config.Draining}
	case d.Degraded:
		key = attrKey{len(s.conf.Order), config.Degraded}
	}
	t := s.told(m, key)
	return &announce.VIP{
		Prefix: p, Service: s.name, Action: action, Attrs: t.attrs, Towards: t.towards,
		Bind: bindOf(s.vip.Bind), Local: localOf(s, p), Linger: s.vip.Linger, Via: s.conf.Via,
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
func localOf(s *service, p netip.Prefix) announce.LocalMode {
	switch {
	case s.vip.Bind == "never":
		return announce.LocalNone
	case s.vip.Mode == "anyip", !p.IsSingleIP(), s.vip.Mode == "auto" && slices.Contains(s.conf.Via, viaKernel):
		return announce.LocalAnyIP
	default:
		return announce.LocalAddress
	}
}
