//go:build integration

package twodc

import (
	"slices"
	"strings"
	"time"

	"rhid/services"
)

// servers ends all business servers, and has them back.
func (d *dc) servers(up bool) {
	d.t.Helper()
	for _, name := range []string{"srv-a", "srv-b"} {
		n := d.Node(name)
		if !up {
			n.KillAll("haproxy")
			continue
		}
		for _, line := range d.Topology.Topology.Nodes[name].Exec {
			if strings.Contains(line, "haproxy") {
				n.Must("sh", "-c", line)
			}
		}
	}
}

// holders waits until the routers lead to as many hosts for each service.
func (d *dc) holders(count int, what string) {
	d.t.Helper()
	for _, s := range dcServices() {
		d.WaitFor(s.name+" "+what, dcUp, func() bool {
			now := d.fib[s.name].now()
			return now == "-" && count == 0 || now != "-" && strings.Count(now, "+")+1 == count
		})
	}
}

// testAllDown: what all checks share dies. By default every service leaves
// everywhere; with keep exactly one host goes on; what fails on three hosts only
// moves to the fourth, whatever the brake says.
func testAllDown(d *dc) {
	for _, c := range []struct {
		name, announcers string
		left             int // hosts that the routers lead to meanwhile
	}{
		{"withdraw", "announcers: 1", 0},
		{"keep", "announcers: 1\n    all_down: keep", 1},
	} {
		d.up(settings{detection: patient, announcers: c.announcers, failback: "failback: {mode: auto, delay: 1s}"})
		d.forget()
		began := time.Now()
		d.servers(false)
		d.eachIs("down", func(r services.Readiness) bool { return r == services.Down }, "a1", "a2", "b1", "b2")
		d.holders(c.left, "with every server dead, all_down: "+c.name)
		took := time.Since(began)
		d.calm(2 * time.Second)
		for _, s := range dcServices() {
			if got := sequence(d.wire[s.name].moments()); c.left == 1 && strings.Contains(got, "-") {
				d.t.Errorf("keep: %s was announced by %s, want a holder at all times", s.name, d.wire[s.name])
			}
		}
		d.holders(c.left, "with every server dead for a while, all_down: "+c.name)
		d.servers(true)
		for _, s := range dcServices() {
			d.waitHolder(s.name, s.order[0])
		}
		d.t.Logf("all servers dead, all_down: %s: as many as wanted, %d for each service, after %v; all back in the end", c.name, c.left, took.Round(time.Millisecond))
		d.clear()
	}
}

// testBrake: one host has all services and may let two go a minute because of
// what fails everywhere: two leave, two stay and say why. The others have no way
// to the servers: which of the hosts notices their death first is chance, and one
// that noticed later would have the service for a moment, and a brake of its own.
// Node-local failures are never held back.
func testBrake(d *dc) {
	d.up(settings{detection: patient + "\n  max_withdrawals: 2", failback: "failback: {mode: auto, delay: 1s}"})
	others := []string{"a2", "b1", "b2"}
	d.wayToServers(others, false)
	for _, s := range dcServices() {
		d.waitHolder(s.name, "a1")
	}
	d.calm(time.Second)
	d.servers(false)
	kept := func() (names []string) {
		for _, s := range dcServices() {
			if d.fib[s.name].now() != "-" {
				names = append(names, s.name)
			}
		}
		return names
	}
	d.WaitFor("two services left and two held", dcUp, func() bool { return len(kept()) == 2 })
	d.calm(2 * time.Second)
	held := kept()
	if len(held) != 2 {
		d.t.Errorf("%v are held, want two", held)
	}
	said := d.status("a1").Services
	if len(said) != len(dcServices()) {
		d.t.Errorf("a1 says of its services: %+v", said)
	}
	for _, s := range said {
		if braked := s.Reason.Code == "brake"; braked != slices.Contains(held, s.Name) {
			d.t.Errorf("a1 says of %s: %s, %s; held are %v", s.Name, s.Reason.Code, s.Reason.Evidence, held)
		}
	}
	d.t.Logf("all servers dead, max_withdrawals 2: %v are held by the brake", held)
	d.servers(true)
	for _, s := range dcServices() {
		d.waitHolder(s.name, "a1")
	}
	d.wayToServers(others, true)
	for _, s := range dcServices() {
		d.waitHolder(s.name, s.order[0])
	}
	d.local()
}

// local breaks the way to the servers on three hosts.
func (d *dc) local() {
	d.t.Helper()
	d.calm(time.Second)
	bad := []string{"a1", "a2", "b1"}
	d.wayToServers(bad, false)
	for _, s := range dcServices() {
		d.waitHolder(s.name, "b2")
	}
	d.wayToServers(bad, true)
	for _, s := range dcServices() {
		d.waitHolder(s.name, s.order[0])
	}
	d.t.Logf("three of four hosts without a way to the servers: all services went to b2, and back")
}

// wayToServers gives hosts their way to the servers back, or takes it.
func (d *dc) wayToServers(hosts []string, there bool) {
	d.t.Helper()
	do := "add"
	if there {
		do = "del"
	}
	for _, h := range hosts {
		d.Node(h).Must("ip", "route", do, "unreachable", "10.9.0.0/16")
	}
}
