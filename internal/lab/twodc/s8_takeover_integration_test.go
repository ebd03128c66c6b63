//go:build integration

package twodc

import (
	"slices"
	"strings"
	"time"

	"rhid/internal/lab"
)

// returned is the pause after which what was going to move has moved: rhid has
// started, its session is up, its checks have risen and the delay is over.
const returned = 3 * time.Second

// want compares the holders that the routers led to with what they should have
// been. A moment without any ("-") may be too short for a router to show it:
// it is left out.
func (d *dc) want(service, holders string) {
	d.t.Helper()
	all := d.fib[service].moments()
	got := withoutGaps(sequence(all))
	if got != holders {
		d.t.Errorf("%s: the routers led to %s, want %s (wire: %s)", service, d.fib[service], holders, d.wire[service])
		return
	}
	d.t.Logf("%s: %s", service, d.fib[service])
}

// withoutGaps leaves out the moments without a holder, and what is then twice.
func withoutGaps(sequence string) string {
	var out []string
	for h := range strings.FieldsSeq(sequence) {
		if h != "-" && (len(out) == 0 || out[len(out)-1] != h) {
			out = append(out, h)
		}
	}
	return strings.Join(out, " ")
}

// testColdStart: four nodes that start together neither wait for the fail-back
// delay nor start a service twice.
func testColdStart(d *dc) {
	d.configure(settings{failback: "failback: {mode: auto, delay: 60s}"})
	var figures spread
	for range 3 {
		d.forget()
		began := time.Now()
		d.start("a1", "a2", "b1", "b2")
		for _, s := range dcServices() {
			d.waitHolderFor(s.name, s.order[0], 5*time.Second)
		}
		figures = append(figures, time.Since(began))
		time.Sleep(returned)
		for _, s := range dcServices() {
			if got := sequence(d.wire[s.name].moments()); got != "- "+s.order[0] {
				d.t.Errorf("cold start: %s was announced by %s, want only %s", s.name, d.wire[s.name], s.order[0])
			}
		}
		d.clear()
	}
	d.t.Logf("cold start of four nodes, fail-back delay 60 s: all services at the routers after %v; each announced once", figures)
}

// testFailbackAuto: the order a1, a2, b1, b2, and back after the delay.
func testFailbackAuto(d *dc) {
	d.up(settings{failback: "failback: {mode: auto, delay: 2s}"})
	d.forget()
	d.kill("a1")
	d.waitHolder("atm", "a2")
	d.kill("a2")
	d.waitHolder("atm", "b1")
	began := time.Now()
	d.start("a1")
	d.waitHolder("atm", "a1")
	if took := time.Since(began); took < 2*time.Second {
		d.t.Errorf("a1 took atm back %v after its start, want no sooner than the delay of 2 s", took)
	}
	d.start("a2")
	d.waitHolder("pos", "a2")
	d.calm(time.Second)
	d.want("atm", "a1 a2 b1 a1+b1 a1")
	d.want("pos", "a2 b2 a1+b2 a1 a2")
}

// testPlannedReturn: a1 takes back what a2 holds, under load.
func testPlannedReturn(d *dc) {
	const connections = 10_000
	d.up(settings{failback: "failback: {mode: auto, delay: 2s}"})
	d.kill("a1")
	d.waitHolder("atm", "a2")
	d.calm(time.Second)
	d.forget()
	l := d.load("atm", 3*time.Millisecond, "client-a", "client-b")
	d.start("a1")
	d.waitHolder("atm", "a1")
	d.WaitFor("10,000 connections", time.Minute, func() bool { time.Sleep(100 * time.Millisecond); return len(l.attempts()) > connections })
	d.want("atm", "a2 a1")
	d.noneLost("planned return of atm", l)
}

// load is clients that connect to a service all the time.
type load struct {
	service string
	probes  []*lab.Prober
	from    time.Time // when all of them were being served
}

// load starts clients and waits until they are served: branch-b's BIRD needs up
// to 5 s to learn of a holder.
func (d *dc) load(service string, every time.Duration, clients ...string) *load {
	d.t.Helper()
	l := &load{service: service}
	for _, c := range clients {
		l.probes = append(l.probes, d.Node(c).Probe(serviceOf(service).addr(), every))
	}
	for _, p := range l.probes {
		d.waitServed(p, "the holder")
	}
	l.from = time.Now()
	return l
}

// attempts are the connections since all clients were served.
func (l *load) attempts() []lab.Attempt {
	var all []lab.Attempt
	for _, p := range l.probes {
		all = append(all, p.Attempts()...)
	}
	return slices.DeleteFunc(all, func(a lab.Attempt) bool { return a.Start.Before(l.from) })
}

// lostPacket is how long a connection takes at the least of which the first
// packet was lost.
const lostPacket = 900 * time.Millisecond

// noneLost ends a load and fails the test for each connection that was lost,
// but for one whose packets were on both sides of a change of route: anycast
// sends them to two hosts.
func (d *dc) noneLost(what string, l *load) {
	d.t.Helper()
	for _, p := range l.probes {
		p.Stop()
	}
	lost, between := 0, 0
	moments := d.fib[l.service].moments()[1:]
	all := l.attempts()
	for _, a := range all {
		switch {
		case a.Error == "" && a.Took < lostPacket:
		case straddles(a, moments):
			between++
		default:
			if lost++; lost < 6 {
				d.t.Logf("%s: lost at %s: %+v", what, a.Start.Sub(d.fib[l.service].began), a)
			}
		}
	}
	if lost > 0 || between > len(moments)*len(l.probes) {
		d.t.Errorf("%s: %d of %d connections were lost, and %d more that were under way when a route changed; %s", what, lost, len(all), between, d.fib[l.service])
		return
	}
	d.t.Logf("%s: 0 of %d connections lost; %d were under way when a route changed", what, len(all), between)
}

// straddles says whether a connection was under way when the routers changed.
func straddles(a lab.Attempt, moments []moment) bool {
	const told = 20 * time.Millisecond // how much later a change may be noted than it was
	for _, m := range moments {
		if !a.Start.After(m.at) && a.Start.Add(a.Took).After(m.at.Add(-told)) && m.at.Sub(a.Start) < told {
			return true
		}
	}
	return false
}

// testFailbackManual: a1 waits until an operator, on any node, says so.
func testFailbackManual(d *dc) {
	d.up(settings{failback: "failback: {mode: manual}"})
	d.forget()
	d.kill("a1")
	d.waitHolder("atm", "a2")
	d.start("a1")
	time.Sleep(returned)
	d.want("atm", "a1 a2")
	began := time.Now()
	d.Node("b2").Rhid("failback", "atm", "--why", "test")
	d.waitHolder("atm", "a1")
	d.t.Logf("rhid failback on b2: a1 has atm after %s", ms(time.Since(began)))
	d.calm(time.Second)
	d.want("atm", "a1 a2 a1")
}

// testFailbackNever: a healthy holder keeps the service, an unhealthy one loses
// it to the first of the order.
func testFailbackNever(d *dc) {
	d.up(settings{failback: "failback: {mode: never}"})
	d.forget()
	d.kill("a1")
	d.waitHolder("atm", "a2")
	d.start("a1")
	time.Sleep(returned)
	d.want("atm", "a1 a2")
	port := serviceOf("atm").port
	d.Node("a2").RefuseTCP(port)
	d.waitHolder("atm", "a1")
	d.Node("a2").AcceptTCP(port)
	time.Sleep(returned)
	d.want("atm", "a1 a2 a1")
}

// testFlapping: a1 loses its servers five times. Three times it comes back; then
// damping (1000 for each loss, 3000 is too much) keeps it on standby.
func testFlapping(d *dc) {
	d.up(settings{failback: "failback: {mode: auto, delay: 500ms}"})
	d.forget()
	a1, port := d.Node("a1"), serviceOf("atm").port
	for i := range 5 {
		a1.RefuseTCP(port)
		d.waitHolder("atm", "a2")
		time.Sleep(time.Second)
		a1.AcceptTCP(port)
		if i < 3 {
			d.waitHolder("atm", "a1")
		} else {
			time.Sleep(returned)
		}
	}
	d.want("atm", "a1 a2 a1 a2 a1 a2 a1 a2")
	if out := d.Node("a2").Rhid("explain", "atm"); !strings.Contains(out, "damped") {
		d.t.Errorf("explain does not say that a1 is damped:\n%s", out)
	}
}
