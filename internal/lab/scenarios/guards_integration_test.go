//go:build integration

package scenarios

import (
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

// TestGuards has tor-frr carry what should not be there: the VIP from somebody
// else, and a network that contains it. rhid says so, in its status and its
// events, and says when it is over. Nothing that rhid does depends on it.
func TestGuards(t *testing.T) {
	s := startSite(t, lab.Options{})
	s.run(s.shipped())
	s.settled()
	g := &guards{siteLab: s}
	g.quiet("the shipped network")

	const twin = "router tor-frr (10.1.1.2) has this VIP from AS 65001 (path 65001) without a community of the cluster: a hijack, or a twin that is configured apart"
	g.frr("ip route 10.255.0.10/32 blackhole", "router bgp 65001", "address-family ipv4 unicast", "network 10.255.0.10/32")
	g.alarm("vip-stranger", siteATM, twin)
	g.frr("router bgp 65001", "address-family ipv4 unicast", "no network 10.255.0.10/32", "exit", "exit", "no ip route 10.255.0.10/32 blackhole")
	g.gone(siteATM)

	const covering = "10.255.0.0/24"
	const cover = "router tor-frr (10.1.1.2) has 10.255.0.0/24 from AS 65001 (path 65001), which contains 10.255.0.10/32: where the VIP is withdrawn, traffic follows it"
	// The router lets rhid see VIPs only; to be warned of this, let it see what contains them.
	g.frr("ip prefix-list VIPS seq 5 permit 10.255.0.0/24 le 32", "ip route 10.255.0.0/24 blackhole", "router bgp 65001", "address-family ipv4 unicast", "network 10.255.0.0/24")
	g.alarm("vip-covered", covering, cover)
	g.frr("router bgp 65001", "address-family ipv4 unicast", "no network 10.255.0.0/24")
	g.gone(covering)
	s.settled()
}

type guards struct{ *siteLab }

// frr configures tor-frr.
func (g *guards) frr(lines ...string) {
	g.t.Helper()
	args := []string{"vtysh", "-c", "configure terminal"}
	for _, l := range lines {
		args = append(args, "-c", l)
	}
	g.torFRR.Must(args...)
}

// found are the alarms of the guards.
func (g *guards) found() (out []string) {
	g.t.Helper()
	for _, a := range g.status().Alarms {
		if strings.HasPrefix(a.Code, "vip-") {
			out = append(out, a.Code+" "+a.What+": "+a.Detail)
		}
	}
	return out
}

func (g *guards) quiet(when string) {
	g.t.Helper()
	if got := g.found(); len(got) > 0 {
		g.t.Errorf("%s: %q", when, got)
	}
}

// alarm waits until there is exactly this alarm, and for its event.
func (g *guards) alarm(code, prefix, detail string) {
	g.t.Helper()
	want := code + " " + prefix + ": " + detail
	var last string
	took := g.WaitFor("this alarm and no other: "+want, siteUp, func() bool {
		got := g.found()
		if now := strings.Join(got, "\n"); now != last {
			last = now
			g.t.Logf("alarms: %q", got)
		}
		return len(got) == 1 && got[0] == want
	})
	g.WaitFor("the event", siteUp, func() bool { return g.told(prefix, "stranger", detail) })
	g.t.Logf("%s %s: said %v after it was configured: %s", code, prefix, took.Round(time.Millisecond), detail)
}

// gone waits until the alarm is over.
func (g *guards) gone(prefix string) {
	g.t.Helper()
	g.WaitFor("the end of the alarm of "+prefix, siteUp, func() bool { return len(g.found()) == 0 })
	g.WaitFor("the event", siteUp, func() bool { return g.told(prefix, "stranger gone", "no longer seen at tor-frr (10.1.1.2)") })
}

func (g *guards) told(prefix, what, detail string) bool {
	for _, e := range g.events(0) {
		if e.Kind == "route" && e.Subject == prefix && e.What == what && e.Detail == detail {
			return true
		}
	}
	return false
}
