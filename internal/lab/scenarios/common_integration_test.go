//go:build integration

package scenarios

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rhid/internal/lab"
)

const (
	bankPort   = 9100                   // of every VIP, at the load balancer
	bankLinger = 3 * time.Second        // vip.linger, its default; BIRD's OSPF may take a second (its tick) to act on an LSA
	bankProbe  = 300 * time.Millisecond // between two checks of a pool
	bankRise   = 30 * time.Second       // until a healthy pool is announced: BIRD's OSPF lets 5 s pass between two LSAs of one prefix
)

// way is one router that rhid's announcements reach: the router, the interface
// of lb1 towards it, and what carries them there.
type way struct {
	router string
	iface  string
	kind   lab.EventKind
}

// bankWays are the routers of each backend. lb1's own FRR speaks to core-frr,
// its BIRD to core-bird.
func bankWays(via string) []way {
	if via == "bgp" {
		return []way{{"tor-frr", "eth1", lab.BGPUpdate}, {"tor-bird", "eth2", lab.BGPUpdate}}
	}
	return []way{{"core-frr", "eth3", lab.OSPFUpdate}, {"core-bird", "eth4", lab.OSPFUpdate}}
}

// bankService is a service whose servers are checked on a port of its own. So
// its pool can die while the load balancer still answers on the VIP, and what
// breaks then is broken by rhid or the network and not by the servers.
type bankService struct {
	name   string
	via    string
	number int
	health *lab.Server // on srv1, what rhid checks
}

// vips are the service's VIPs, IPv4 and IPv6.
func (b *bankService) vips() []string {
	return []string{fmt.Sprintf("10.255.0.%d/32", b.number), fmt.Sprintf("fd00:255::%d/128", b.number)}
}

// addr is where clients find a VIP.
func bankAddr(vip string) string {
	return netip.AddrPortFrom(netip.MustParsePrefix(vip).Addr(), bankPort).String()
}

// bank is the one-site scenario with services of its own.
type bank struct {
	*siteLab
	services []*bankService
	watches  map[string]map[string]*lab.FIBWatch // by node and VIP
}

// startBank starts the network, the load balancer, the pools' health ports and
// rhid, and waits until all VIPs are at every router.
func startBank(s *siteLab, services ...*bankService) *bank {
	s.t.Helper()
	b := openBank(s, services...)
	b.announce(b.config())
	return b
}

// openBank is startBank without rhid.
func openBank(s *siteLab, services ...*bankService) *bank {
	s.t.Helper()
	b := &bank{siteLab: s, services: services, watches: map[string]map[string]*lab.FIBWatch{}}
	for _, svc := range services {
		svc.health = s.srv1.Serve(fmt.Sprintf("10.9.1.1:%d", 9300+svc.number))
		for _, vip := range svc.vips() {
			b.watch("lb1", vip)
			b.watch("branch", vip)
			for _, w := range bankWays(svc.via) {
				b.watch(w.router, vip)
			}
		}
	}
	s.lb.WriteFile("/tmp/bank.cfg", b.balancer())
	s.lb.Start("bank haproxy", "haproxy", "-db", "-f", "/tmp/bank.cfg")
	return b
}

// announce starts rhid and waits until all VIPs are at every router.
func (b *bank) announce(config string) {
	b.t.Helper()
	b.run(config)
	for _, svc := range b.services {
		b.waitAnnounced(svc)
	}
}

func (b *bank) watch(node, vip string) {
	b.t.Helper()
	if b.watches[node] == nil {
		b.watches[node] = map[string]*lab.FIBWatch{}
	}
	b.watches[node][vip] = b.Node(node).WatchFIB(vip)
}

// forget empties the watches of a service.
func (b *bank) forget(svc *bankService) {
	for _, node := range b.watches {
		for _, vip := range svc.vips() {
			if w := node[vip]; w != nil {
				w.Reset()
			}
		}
	}
}

// waitAnnounced waits until the service is at its routers, from lb1 and not
// from the other one by way of the branch, and at the branch.
func (b *bank) waitAnnounced(svc *bankService) {
	b.t.Helper()
	for _, vip := range svc.vips() {
		for _, w := range bankWays(svc.via) {
			b.fromHost(b.Node(w.router), vip)
		}
		b.WaitFor(vip+" at branch by both ways", bankRise, func() bool { return len(b.branch.Kernel(vip)) == 2 })
	}
}

// balancer is the load balancer's configuration.
func (b *bank) balancer() string {
	var out strings.Builder
	out.WriteString(`global
  maxconn 8000
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
backend bank
  server srv1 10.9.1.1:9100
  server srv2 10.9.1.2:9100
frontend bank
  default_backend bank
`)
	for _, svc := range b.services {
		for _, vip := range svc.vips() {
			fmt.Fprintf(&out, "  bind %s:%d transparent\n", netip.MustParsePrefix(vip).Addr(), bankPort)
		}
	}
	return out.String()
}

// config is rhid's configuration: the shipped one's routers with other
// services, checks that are quick and a short linger.
func (b *bank) config() string {
	b.t.Helper()
	head, _, ok := strings.Cut(b.shipped(), "checks:\n")
	if !ok {
		b.t.Fatal("the shipped configuration has no checks")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%svip: {linger: %v}\nchecks:\n  health: {type: tcp, interval: %v, timeout: 250ms, fall: 2, rise: 2}\nservices:\n",
		head, bankLinger, bankProbe)
	for _, svc := range b.services {
		vips := svc.vips()
		fmt.Fprintf(&out, `  - name: %s
    vips: [%s, "%s"]
    via: [%s]
    servers: {addresses: ["10.9.1.1:%d"], min_healthy: 1}
    check: health
    metric: {base: 10, step: 90}
`, svc.name, vips[0], vips[1], svc.via, 9300+svc.number)
	}
	return out.String()
}

// isDelete matches the end of a route at a router.
func isDelete(e lab.FIBEvent) bool { return e.Kind == lab.FIBDelete }

// isLocalGone matches the VIP ceasing to be local on the host.
func isLocalGone(e lab.FIBEvent) bool {
	return e.Kind == lab.FIBDelete && e.Hops[0].Table == unix.RT_TABLE_LOCAL && e.Hops[0].Type == unix.RTN_LOCAL
}

// withdraws matches the packet with which lb1 withdraws a VIP on a way.
func (w way) withdraws(vip string) func(lab.Event) bool {
	return func(e lab.Event) bool { return e.Sent && e.Iface == w.iface && e.Kind == w.kind && e.Withdraws(vip) }
}

// spread are figures of one kind.
type spread []time.Duration

func (s spread) String() string {
	if len(s) == 0 {
		return "none"
	}
	sorted := spread(slices.Sorted(slices.Values(s)))
	return fmt.Sprintf("min %s, p50 %s, p99 %s, max %s (%d)", ms(sorted[0]), ms(sorted.percentile(50)), ms(sorted.percentile(99)), ms(sorted[len(sorted)-1]), len(sorted))
}

// percentile is the least of the figures, which are sorted, that so many in a
// hundred do not exceed.
func (s spread) percentile(p int) time.Duration { return s[(len(s)*p+99)/100-1] }

// earliest and latest leave out the zero time.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
