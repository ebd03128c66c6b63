package checks

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func linkName(index int) string { return fmt.Sprintf("eth%d", index) }

// hopVia is a next hop by eth1.
func hopVia(text string) nextHop { return nextHop{gateway: netip.MustParseAddr(text), link: 1} }

func TestRouteJudge(t *testing.T) {
	one := func(h ...nextHop) kernelRoute { return kernelRoute{kind: unix.RTN_UNICAST, protocol: 188, hops: h} }
	worse := func(r kernelRoute, metric uint32) kernelRoute { r.metric = metric; return r }
	dead := hopVia("10.1.0.1")
	dead.dead = true
	via := []string{"10.1.0.1", "10.1.0.2"}
	tests := []struct {
		name   string
		opts   RouteOptions
		routes []kernelRoute
		want   outcome
	}{
		{"any", RouteOptions{}, []kernelRoute{one(hopVia("10.1.0.9"))}, outcome{true, CauseNone, "in the table, via 10.1.0.9 dev eth1"}},
		{"on the link", RouteOptions{}, []kernelRoute{one(nextHop{link: 2})}, outcome{true, CauseNone, "in the table, dev eth2"}},
		{"wanted neighbour", RouteOptions{Via: via}, []kernelRoute{one(hopVia("10.1.0.2"))}, outcome{true, CauseNone, "in the table, via 10.1.0.2 dev eth1"}},
		{"one of several", RouteOptions{Via: via}, []kernelRoute{one(hopVia("10.1.0.9"), hopVia("10.1.0.1"))},
			outcome{true, CauseNone, "in the table, via 10.1.0.9 dev eth1 and via 10.1.0.1 dev eth1"}},
		{"IPv6 writes one route for each", RouteOptions{Via: via}, []kernelRoute{one(hopVia("10.1.0.9")), one(hopVia("10.1.0.1"))},
			outcome{true, CauseNone, "in the table, via 10.1.0.9 dev eth1 and via 10.1.0.1 dev eth1"}},
		{"none", RouteOptions{}, nil, outcome{false, CauseAnswer, "no route for 10.0.0.0/8 in table 254"}},
		{"another neighbour", RouteOptions{Via: via, Device: "eth1"}, []kernelRoute{one(hopVia("10.1.0.9"))},
			outcome{false, CauseAnswer, "the route for 10.0.0.0/8 goes via 10.1.0.9 dev eth1, wanted via 10.1.0.1 or 10.1.0.2 dev eth1"}},
		{"another interface", RouteOptions{Device: "eth2"}, []kernelRoute{one(hopVia("10.1.0.1"))},
			outcome{false, CauseAnswer, "the route for 10.0.0.0/8 goes via 10.1.0.1 dev eth1, wanted dev eth2"}},
		{"the wanted one is a reserve", RouteOptions{Via: via}, []kernelRoute{worse(one(hopVia("10.1.0.1")), 20), worse(one(hopVia("10.1.0.9")), 10)},
			outcome{false, CauseAnswer, "the route for 10.0.0.0/8 goes via 10.1.0.9 dev eth1, wanted via 10.1.0.1 or 10.1.0.2"}},
		{"dead", RouteOptions{Via: via}, []kernelRoute{one(dead)},
			outcome{false, CauseAnswer, "the route for 10.0.0.0/8 has no next hop that is alive: via 10.1.0.1 dev eth1 (dead)"}},
		{"the wanted one is dead", RouteOptions{Via: via}, []kernelRoute{one(dead, hopVia("10.1.0.9"))},
			outcome{false, CauseAnswer, "the route for 10.0.0.0/8 goes via 10.1.0.1 dev eth1 (dead) and via 10.1.0.9 dev eth1, wanted via 10.1.0.1 or 10.1.0.2"}},
		{"blackhole", RouteOptions{}, []kernelRoute{{kind: unix.RTN_BLACKHOLE, hops: []nextHop{{}}}},
			outcome{false, CauseAnswer, "the route for 10.0.0.0/8 is of type blackhole: it leads nowhere"}},
		{"protocol", RouteOptions{Protocol: 188}, []kernelRoute{one(hopVia("10.1.0.1"))}, outcome{true, CauseNone, "in the table, via 10.1.0.1 dev eth1"}},
		{"another protocol", RouteOptions{Protocol: 12}, []kernelRoute{one(hopVia("10.1.0.1"))},
			outcome{false, CauseAnswer, "the route for 10.0.0.0/8 is of protocol 188, wanted protocol 12"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &routeProbe{prefix: netip.MustParsePrefix("10.0.0.0/8"), device: tt.opts.Device, table: mainTable, protocol: tt.opts.Protocol}
			for _, text := range tt.opts.Via {
				p.via = append(p.via, netip.MustParseAddr(text))
			}
			hops, f := p.judge(tt.routes, linkName)
			wantOutcome(t, f.result("in the table, "+hops), tt.want)
		})
	}
}

// Every host has lo; whoever may look at nothing else may look at this.
func TestInterfaceOfThisHost(t *testing.T) {
	to := Target{Limit: probeLimit}
	res := probeOnce(t, &InterfaceOptions{Device: "lo"}, to)
	if res.Cause == CauseInternal {
		t.Errorf("%+v", res)
	}
	wantOutcome(t, probeOnce(t, &InterfaceOptions{Device: "nosuch0"}, to),
		outcome{false, CauseInternal, "interface nosuch0 does not exist on this host"})
	wantOutcome(t, probeOnce(t, &RouteOptions{Prefix: "198.51.100.0/24"}, Target{Limit: time.Second}),
		outcome{false, CauseAnswer, "no route for 198.51.100.0/24 in table 254"})
}

// The kernel is to be trusted, but not with a crash.
func FuzzRtnetlink(f *testing.F) {
	route := append([]byte{unix.AF_INET, 8, 0, 0, 254, 188, 0, 1, 0, 0, 0, 0}, 8, 0, unix.RTA_DST, 0, 10, 0, 0, 0)
	f.Add(append(route, 20, 0, unix.RTA_MULTIPATH, 0, 16, 0, 1, 0, 2, 0, 0, 0, 8, 0, unix.RTA_GATEWAY, 0, 10, 1, 0, 1))
	f.Add(append(route, 10, 0, unix.RTA_VIA, 0, 10, 0, 1, 2, 3, 4, 5, 6))
	f.Add(append(make([]byte, unix.SizeofIfInfomsg), 7, 0, unix.IFLA_IFNAME, 0, 'l', 'o', 0))
	f.Add(append([]byte{unix.AF_INET6, 64, 0x80, 0, 1, 0, 0, 0}, 8, 0, unix.IFA_FLAGS, 0, 8, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok := parseRoute(b); ok && (!r.prefix.IsValid() || len(r.hops) == 0) {
			t.Errorf("%x became %+v", b, r)
		}
		if l, ok := parseLink(b); ok && l.name == "" {
			t.Errorf("%x became %+v", b, l)
		}
		if a, _, ok := parseAddr(b); ok && !a.prefix.IsValid() {
			t.Errorf("%x became %+v", b, a)
		}
		if netlinkError(b) == nil {
			t.Errorf("%x is no error", b)
		}
	})
}
