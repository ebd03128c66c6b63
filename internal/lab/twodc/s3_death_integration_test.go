//go:build integration

package twodc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rhid/internal/lab"
)

const (
	deathProbe = 4 * time.Millisecond
	// A connection that takes longer was lost for a while: a SYN is sent again
	// only after a second.
	deathSlow = 150 * time.Millisecond
)

// death is one way to lose the holder.
type death struct {
	name      string
	set       settings
	witness   bool   // the cores send VIPs back to the hosts
	before    string // announcers of atm before, with a1 the holder; of counter alike
	after     string
	power     bool          // the host is gone too, with its links; else only its daemon
	goal      time.Duration // of the median of the client's outage at the FRR core
	ownGoal   time.Duration // … without what the router itself took
	gossipMin time.Duration // gossip alone cannot be quicker
}

func deaths() []death {
	quick, drain := "failback: {mode: auto, delay: 500ms}", "500ms"
	return []death{
		{name: "gossip only", set: settings{drain: drain, failback: quick}, before: "1", after: "2", goal: time.Second},
		{
			name: "witness", set: settings{drain: drain, failback: quick, detection: "detection: lan"}, witness: true, before: "1", after: "2",
			goal: 300 * time.Millisecond, ownGoal: 300 * time.Millisecond, gossipMin: 1200 * time.Millisecond,
		},
		{name: "warm standby", set: settings{drain: drain, failback: quick, announcers: "announcers: 2"}, witness: true, before: "1+2", after: "2+3", goal: 100 * time.Millisecond, ownGoal: 100 * time.Millisecond},
		{name: "warm standby, power off", set: settings{drain: drain, failback: quick, announcers: "announcers: 2"}, witness: true, before: "1+2", after: "2+3", power: true, ownGoal: 100 * time.Millisecond},
	}
}

// victim is a host whose death is measured, by a client near it.
type victim struct {
	service service
	core    string
	client  string
}

func victims() []victim {
	return []victim{{serviceOf("atm"), "core-a", "client-a"}, {serviceOf("counter"), "core-b", "client-b"}}
}

// places turns "1+2" into the names of the first and second of the order.
func (s service) places(text string) string {
	var out []string
	for p := range strings.SplitSeq(text, "+") {
		out = append(out, s.order[p[0]-'1'])
	}
	return join(out)
}

// testDeath measures what a client sees of the holder's death, at an FRR and at
// a BIRD core by turns.
func testDeath(d *dc) {
	for _, k := range deaths() {
		d.sendBack(k.witness)
		d.up(k.set)
		got := map[string]*deathFigures{"core-a": {}, "core-b": {}}
		for i := range runs(d.t) {
			for j, v := range victims() {
				// Every other time is enough where only the routers' own time is measured.
				if i%2 == 0 || j == 0 && !k.power || runs(d.t) > 10 {
					d.dies(k, v, got[v.core])
				}
			}
		}
		for _, v := range victims() {
			f := got[v.core]
			// One or two figures may be those of a machine that stood still: then
			// the median of five decides.
			for len(k.misses(v, f)) > 0 && len(f.outage) < 5 {
				d.dies(k, v, f)
			}
			d.judge(k, v, f)
		}
		d.clear()
	}
	d.sendBack(true)
}

// deathFigures are those of one kind of death at one core.
type deathFigures struct {
	outage   spread // of the client
	detected spread // from the death until the core router no longer led to the host
	taken    spread // from then until it led to the next
	failed   int    // connections
}

// dies kills the holder of a service once, measures, and brings it back.
func (d *dc) dies(k death, v victim, f *deathFigures) {
	d.t.Helper()
	s := v.service
	first, second := s.order[0], s.order[1]
	for _, each := range dcServices() {
		d.waitWire(each.name, each.places(k.before))
		d.waitLed(each.name, each.order[0])
	}
	d.calm(300 * time.Millisecond)
	d.forget()
	clients := d.loadOf(s.name, d.Node(v.client).Probe(s.addr(), deathProbe))
	at := time.Now()
	if k.power {
		d.Cut(first + ":eth1")
		d.Cut(first + ":eth2")
	}
	d.kill(first)
	d.waitLed(s.name, second)
	d.waitWire(s.name, s.places(k.after))
	d.waitServed(clients.probes[0], second)
	clients.probes[0].Stop()

	outage, failed := outageOf(clients.attempts())
	f.outage, f.failed = append(f.outage, outage), f.failed+failed
	all := d.fib[s.name].moments()
	if got := strings.ReplaceAll(sequence(all), " - ", " "); k.before == "1" && got != first+" "+second {
		d.t.Errorf("%s of %s: the routers led to %s, want %s and then %s", k.name, first, sequence(all), first, second)
	}
	gone := slices.IndexFunc(all, func(m moment) bool { return !strings.Contains(m.holders, first) })
	next := slices.IndexFunc(all, func(m moment) bool { return strings.Contains(m.holders, second) })
	f.detected = append(f.detected, all[gone].at.Sub(at))
	f.taken = append(f.taken, all[next].at.Sub(all[gone].at))
	if k.power {
		d.powerOn(first)
	}
	d.start(first)
}

// powerOn is a host that boots: its links are up, and its routes are as its
// network configuration has them, which went with the link.
func (d *dc) powerOn(host string) {
	d.t.Helper()
	d.Heal(host + ":eth1")
	d.Heal(host + ":eth2")
	n := d.Node(host)
	for _, line := range d.Topology.Topology.Nodes[host].Exec {
		if strings.HasPrefix(line, "ip route add") {
			n.Must(strings.Fields(strings.Replace(line, " add ", " replace ", 1))...)
		}
	}
}

func bad(a lab.Attempt) bool { return a.Error != "" || a.Took > deathSlow }

// outageOf is the longest time in which no connection worked at once: from the
// start of the first of them to the start of the next that did. It also counts
// those that failed for good.
func outageOf(attempts []lab.Attempt) (longest time.Duration, failed int) {
	var down time.Time // start of the first of those in a row
	for _, a := range attempts {
		if a.Error != "" {
			failed++
		}
		switch {
		case bad(a) && down.IsZero():
			down = a.Start
		case !bad(a) && !down.IsZero():
			longest = max(longest, a.Start.Sub(down))
			down = time.Time{}
		}
	}
	return longest, failed
}

// judge prints the figures of one kind of death and compares them with the
// goals, which are for FRR: BIRD lets up to 5 s pass between two LSAs of one
// prefix.
func (d *dc) judge(k death, v victim, f *deathFigures) {
	d.t.Helper()
	d.t.Logf("%s, %s: client's outage %v, %d connections failed; router noticed after %v, led to the next %v later",
		k.name, v.core, f.outage, f.failed, f.detected, f.taken)
	for _, miss := range k.misses(v, f) {
		d.t.Errorf("%s, %s: %s", k.name, v.core, miss)
	}
}

// misses says which goals the figures miss.
func (k death) misses(v victim, f *deathFigures) (all []string) {
	if k.gossipMin > 0 && f.taken.median() >= k.gossipMin {
		all = append(all, fmt.Sprintf("taken over only %s after the router noticed: that was gossip and no witness", ms(f.taken.median())))
	}
	if k.ownGoal > 0 && f.taken.median() > k.ownGoal {
		all = append(all, fmt.Sprintf("the next was led to %s after the router noticed, the goal is %s", ms(f.taken.median()), k.ownGoal))
	}
	if k.goal > 0 && v.core == "core-a" && f.outage.median() > k.goal {
		all = append(all, fmt.Sprintf("the client's outage is %s, the goal is %s", ms(f.outage.median()), k.goal))
	}
	return all
}

// sendBack has the cores tell the hosts each other's VIPs, or nothing at all.
// No daemon may be running.
func (d *dc) sendBack(on bool) {
	d.t.Helper()
	name := "VIPS"
	if !on {
		name = "NOTHING"
	}
	a := d.Node("core-a")
	a.Must("vtysh", "-c", "configure terminal", "-c", "route-map NOTHING deny 10", "-c", "router bgp 65001",
		"-c", "address-family ipv4 unicast", "-c", "neighbor RHID route-map "+name+" out")
	b, conf := d.Node("core-b"), "/etc/bird/bird.conf"
	if !on {
		text, err := b.ReadFile(conf)
		const filter = "filter to_host { if source = RTS_BGP then accept; reject; }"
		if err != nil || !strings.Contains(text, filter) {
			d.t.Fatalf("%s of core-b (%v) has no %q", conf, err, filter)
		}
		conf = "/tmp/quiet.conf"
		b.WriteFile(conf, strings.Replace(text, filter, "filter to_host { reject; }", 1))
	}
	if out := b.Must("birdc", fmt.Sprintf("configure %q", conf)); !strings.Contains(out, "Reconfigur") {
		d.t.Fatalf("core-b: %s", out)
	}
}
