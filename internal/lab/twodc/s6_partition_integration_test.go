//go:build integration

package twodc

import (
	"fmt"
	"slices"
	"time"

	"rhid/internal/lab"
)

const (
	// afterHeal is when the result must stand.
	afterHeal = 15 * time.Second
	// gossipStill is how long the machine may stand still: after much more a host
	// may rightly pass for dead where gossip is fast.
	gossipStill = 150 * time.Millisecond
)

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
	d.up(settings{failback: "failback: {mode: auto, delay: 2s}"})
	all := cuts()
	if runs(d.t) > 10 {
		long := all[1]
		long.last = 90 * time.Second
		all = append(all, long)
	}
	for _, c := range all {
		lab.Steady(d.t, gossipStill, func() []string { return d.partition(c) })
	}
}

// partition cuts and heals once, and returns what was not as it should be.
func (d *dc) partition(c cut) (misses []string) {
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
		d.waitHolder(s.name, s.order[0])
	}
	d.calm(3 * time.Second)
	for _, s := range dcServices() {
		for _, miss := range slices.Concat(d.judgeCut(s, healed), d.losses(s.name, loads[s.name])) {
			misses = append(misses, fmt.Sprintf("gossip cut %s: %s", c.name, miss))
		}
	}
	d.t.Logf("gossip cut %s for %v: one result %s after the heal", c.name, c.last, ms(max(0, d.settledAt().Sub(healed))))
	return misses
}

// settledAt is when the last announcer changed, and the last route in a core.
func (d *dc) settledAt() time.Time {
	var last time.Time
	for name := range d.wire {
		for _, all := range [][]moment{d.wire[name].moments(), d.fib[name].moments()} {
			if at := all[len(all)-1].at; at.After(last) {
				last = at
			}
		}
	}
	return last
}

// judgeCut says what is wrong with the holders of one service.
func (d *dc) judgeCut(s service, healed time.Time) (misses []string) {
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
	d.t.Logf("%s announced by %s, led to %s", s.name, d.wire[s.name], d.fib[s.name])
	nobody := func(m moment) bool { return m.holders == "-" }
	if slices.ContainsFunc(fib, nobody) || slices.ContainsFunc(wire, nobody) {
		misses = append(misses, fmt.Sprintf("%s was announced by %s, led to %s, want a holder at all times", s.name, d.wire[s.name], d.fib[s.name]))
	}
	if more > 1 || fewer > 1 {
		misses = append(misses, fmt.Sprintf("%s was announced by %s: a holder came %d times and one went %d times, want at most once each", s.name, d.wire[s.name], more, fewer))
	}
	for _, all := range [][]moment{wire, fib} {
		if last := all[len(all)-1]; last.holders != s.order[0] || last.at.Sub(healed) > afterHeal {
			misses = append(misses, fmt.Sprintf("%s: %s in the end, %v after the heal; want %s within %v", s.name, last.holders, last.at.Sub(healed), s.order[0], afterHeal))
		}
	}
	return misses
}

// testDataCut: the data centres lose each other and gossip is whole. Nobody
// takes over what lives, and a branch goes on using its own data centre.
func testDataCut(d *dc) {
	d.up(settings{failback: "failback: {mode: auto, delay: 2s}"})
	lab.Steady(d.t, gossipStill, d.cutData)
}

// cutData cuts and heals once, and returns what was not as it should be.
func (d *dc) cutData() (misses []string) {
	d.t.Helper()
	d.calm(time.Second)
	d.forget()
	// What the hosts answer themselves: their HAProxy goes on asking the servers of
	// the other data centre until its own checks have failed.
	near := []*load{
		d.loadOf("atm", d.Node("client-a").ProbeHTTP("10.255.0.10:9200", 20*time.Millisecond)),
		d.loadOf("counter", d.Node("client-b").ProbeHTTP("10.255.0.30:9200", 20*time.Millisecond)),
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
		wire, fib := sequence(d.wire[s.name].moments()), withoutGaps(sequence(d.fib[s.name].moments()))
		if wire != s.order[0] || fib != s.order[0] {
			misses = append(misses, fmt.Sprintf("data network cut: %s was announced by %s and led to %s, want only %s", s.name, d.wire[s.name], d.fib[s.name], s.order[0]))
		}
	}
	for _, l := range near {
		for who := range l.probes[0].Result().Who {
			if who != serviceOf(l.service).order[0] && who != "" {
				misses = append(misses, fmt.Sprintf("data network cut: %s was served by %s", l.service, who))
			}
		}
		misses = append(misses, d.losses("data network cut, "+l.service+" from its own data centre", l)...)
	}
	return misses
}
