//go:build integration

package twodc

import (
	"fmt"
	"slices"
	"time"

	"rhid/internal/lab"
)

// afterHeal is when the result must stand.
const afterHeal = 15 * time.Second

// cut is one way in which gossip fails while the data network is whole.
type cut struct {
	name string
	last time.Duration
	node string // where packets are dropped
	drop string // a chain of nftables' family netdev, %s is the rule's verdict
}

// ingress drops what comes in at an interface and matches.
func ingress(dev, match string) string {
	return fmt.Sprintf(`table netdev cut { chain in { type filter hook ingress device %q priority -500; %s counter drop; }
	}`, dev, match)
}

func cuts() []cut {
	both := `table netdev cut {
		chain in { type filter hook ingress device "eth3" priority -500; counter drop; }
		chain out { type filter hook egress device "eth3" priority -500; counter drop; }
	}`
	return []cut{
		{"between the data centres", 10 * time.Second, "gossip-a", both},
		// memberlist forgets the dead after 30 s
		{"between the data centres, longer than memberlist remembers", 40 * time.Second, "gossip-a", both},
		{"from b to a only", 10 * time.Second, "gossip-a", ingress("eth3", "")},
		{"UDP between the data centres", 10 * time.Second, "gossip-a", ingress("eth3", "meta l4proto udp")},
		{"a1 hears nobody", 10 * time.Second, "a1", ingress("eth2", "")},
		{"b2 hears nobody, longer than the witness holds", 15 * time.Second, "b2", ingress("eth2", "")},
	}
}

// testPartition: gossip is cut, the data network is whole. No service is ever
// without a holder, each moves at most once for the cut and once for the heal,
// and then the first of the order has it alone.
func testPartition(d *dc) {
	d.up(settings{})
	all := cuts()
	if runs(d.t) > 10 {
		long := all[1]
		long.last = 90 * time.Second
		all = append(all, long)
	}
	for _, c := range all {
		d.partition(c)
	}
}

func (d *dc) partition(c cut) {
	d.t.Helper()
	d.calm(time.Second)
	d.forget()
	loads := map[string]*load{}
	for _, s := range dcServices() {
		loads[s.name] = d.load(s.name, 40*time.Millisecond, "client-a", "client-b")
	}
	d.Node(c.node).Must("nft", c.drop)
	time.Sleep(c.last)
	d.Node(c.node).Must("nft", "delete table netdev cut")
	healed := time.Now()
	for _, s := range dcServices() {
		d.waitHolderFor(s.name, s.order[0], afterHeal)
	}
	result := d.settledAt().Sub(healed)
	d.calm(3 * time.Second)
	for _, s := range dcServices() {
		d.judgeCut(c, s, healed)
		d.noneLost("gossip cut "+c.name+", "+s.name, loads[s.name])
	}
	d.t.Logf("gossip cut %s for %v: one result %s after the heal", c.name, c.last, ms(max(0, result)))
}

// settledAt is when the last announcer changed.
func (d *dc) settledAt() time.Time {
	var last time.Time
	for _, j := range d.wire {
		all := j.moments()
		if at := all[len(all)-1].at; at.After(last) {
			last = at
		}
	}
	return last
}

func (d *dc) judgeCut(c cut, s service, healed time.Time) {
	d.t.Helper()
	wire, fib := d.wire[s.name].moments(), d.fib[s.name].moments()
	more, fewer := 0, 0 // the cut adds a holder, the heal takes it away
	for i, m := range wire[1:] {
		if len(m.holders) > len(wire[i].holders) {
			more++
		} else {
			fewer++
		}
	}
	d.t.Logf("gossip cut %s for %v: %s announced by %s, led to %s", c.name, c.last, s.name, d.wire[s.name], d.fib[s.name])
	if slices.ContainsFunc(fib, func(m moment) bool { return m.holders == "-" }) {
		d.t.Errorf("%s, %s: the routers led to nobody", c.name, s.name)
	}
	if slices.ContainsFunc(wire, func(m moment) bool { return m.holders == "-" }) {
		d.t.Errorf("%s, %s: nobody announced it", c.name, s.name)
	}
	if more > 1 || fewer > 1 {
		d.t.Errorf("%s, %s: a holder came %d times and one went %d times, want at most once each", c.name, s.name, more, fewer)
	}
	if last := wire[len(wire)-1]; last.holders != s.order[0] || last.at.Sub(healed) > afterHeal {
		d.t.Errorf("%s, %s: announced by %s in the end, %v after the heal; want %s within %v", c.name, s.name, last.holders, last.at.Sub(healed), s.order[0], afterHeal)
	}
}

// testDataCut: the data centres lose each other and gossip is whole. Nobody
// takes over what lives, and a branch goes on using its own data centre.
func testDataCut(d *dc) {
	d.up(settings{})
	d.forget()
	// What the hosts answer themselves: their HAProxy goes on asking the servers of
	// the other data centre until its own checks have failed.
	near := []*load{
		{service: "atm", probes: []*lab.Prober{d.Node("client-a").ProbeHTTP("10.255.0.10:9200", 20*time.Millisecond)}},
		{service: "counter", probes: []*lab.Prober{d.Node("client-b").ProbeHTTP("10.255.0.30:9200", 20*time.Millisecond)}},
	}
	for _, l := range near {
		d.waitServed(l.probes[0], "the holder")
		l.from = time.Now()
	}
	links := []string{"core-a:eth3", "core-a:eth5", "core-b:eth4"}
	for _, l := range links {
		d.Cut(l)
	}
	time.Sleep(10 * time.Second)
	for _, l := range links {
		d.Heal(l)
	}
	time.Sleep(5 * time.Second)
	for _, s := range dcServices() {
		if got := sequence(d.wire[s.name].moments()); got != s.order[0] {
			d.t.Errorf("data network cut: %s was announced by %s, want only %s", s.name, d.wire[s.name], s.order[0])
		}
		d.want(s.name, s.order[0])
	}
	for _, l := range near {
		for who := range l.probes[0].Result().Who {
			if who != serviceOf(l.service).order[0] && who != "" {
				d.t.Errorf("data network cut: %s was served by %s", l.service, who)
			}
		}
		d.noneLost("data network cut, "+l.service+" from its own data centre", l)
	}
}
