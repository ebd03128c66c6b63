//go:build integration

package twodc

import (
	"fmt"
	"strings"
	"time"

	"rhid/internal/lab"
	"rhid/services"
)

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
	d.configure(settings{detection: patient, failback: "failback: {mode: auto, delay: 60s}"})
	var figures spread
	for range 3 {
		lab.Steady(d.t, coldStill, func() []string {
			took, misses := d.coldStart()
			figures = append(figures, took)
			return misses
		})
	}
	d.t.Logf("cold start of four nodes, fail-back delay 60 s: all services at the routers after %v; each announced once", figures)
}

const (
	coldStart = 5 * time.Second
	coldStill = 200 * time.Millisecond // of the machine, after which a cold start says nothing
)

// coldStart starts the four nodes once and ends them.
func (d *dc) coldStart() (took time.Duration, misses []string) {
	d.t.Helper()
	defer d.clear()
	d.forget()
	began := time.Now()
	d.start("a1", "a2", "b1", "b2")
	for _, s := range dcServices() {
		d.waitHolder(s.name, s.order[0])
	}
	if took = time.Since(began); took > coldStart {
		misses = append(misses, fmt.Sprintf("cold start: all services at the routers after %v, want %v at the most", took, coldStart))
	}
	d.able(services.Standby, "a1", "a2", "b1", "b2")
	d.calm(time.Second)
	for _, s := range dcServices() {
		if got := sequence(d.wire[s.name].moments()); got != "- "+s.order[0] {
			misses = append(misses, fmt.Sprintf("cold start: %s was announced by %s, want only %s", s.name, d.wire[s.name], s.order[0]))
		}
	}
	return took, misses
}

// testFailbackAuto: the order a1, a2, b1, b2, and back after the delay.
func testFailbackAuto(d *dc) {
	d.up(settings{detection: patient, failback: "failback: {mode: auto, delay: 2s}"})
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
	d.up(settings{detection: patient, failback: "failback: {mode: auto, delay: 2s}"})
	d.kill("a1")
	d.waitHolder("atm", "a2")
	d.calm(time.Second)
	d.forget()
	l := d.load("atm", 4*time.Millisecond, "client-a", "client-b")
	d.start("a1")
	d.waitHolder("atm", "a1")
	d.connections(l, connections)
	d.want("atm", "a2 a1")
	d.noneLost("planned return of atm", l)
}

// testFailbackManual: a1 waits until an operator, on any node, says so.
func testFailbackManual(d *dc) {
	d.up(settings{detection: patient, failback: "failback: {mode: manual}"})
	d.forget()
	d.kill("a1")
	d.waitHolder("atm", "a2")
	d.start("a1")
	d.able(services.Standby, "a1")
	d.calm(time.Second)
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
	d.up(settings{detection: patient, failback: "failback: {mode: never}"})
	d.forget()
	d.kill("a1")
	d.waitHolder("atm", "a2")
	d.start("a1")
	d.able(services.Ready, "a1")
	d.calm(time.Second)
	d.want("atm", "a1 a2")
	port := serviceOf("atm").port
	d.Node("a2").RefuseTCP(port)
	d.waitHolder("atm", "a1")
	d.Node("a2").AcceptTCP(port)
	d.able(services.Ready, "a2")
	d.calm(time.Second)
	d.want("atm", "a1 a2 a1")
}

// testFlapping: a1 loses its servers five times. Three times it comes back; then
// damping (1000 for each loss, which halves in five minutes, 3000 is too much)
// keeps it on standby.
func testFlapping(d *dc) {
	d.up(settings{detection: patient, failback: "failback: {mode: auto, delay: 500ms}"})
	d.forget()
	a1, port := d.Node("a1"), serviceOf("atm").port
	for i := range 5 {
		a1.RefuseTCP(port)
		d.is("a1", "atm", services.Down)
		d.waitHolder("atm", "a2")
		a1.AcceptTCP(port)
		if i < 3 {
			d.waitHolder("atm", "a1")
			continue
		}
		d.able(services.Standby, "a1")
		d.calm(time.Second)
	}
	d.want("atm", "a1 a2 a1 a2 a1 a2 a1 a2")
	d.is("a1", "atm", services.Standby)
	d.until("a2 explains that a1 is damped", func() string {
		if out := d.Node("a2").Rhid("explain", "atm"); !strings.Contains(out, "damped") {
			return out
		}
		return ""
	})
}
