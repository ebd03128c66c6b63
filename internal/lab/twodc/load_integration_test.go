//go:build integration

package twodc

import (
	"fmt"
	"slices"
	"time"

	"rhid/internal/lab"
)

// load is clients that connect to a service all the time.
type load struct {
	service string
	probes  []*lab.Prober
	from    time.Time // when all of them were being served
}

// loadMost is how many connections of one client are under way at once: what a
// busy machine cannot serve in time is not tried.
const loadMost = 8

// load starts clients and waits until they are served: branch-b's BIRD needs up
// to 5 s to learn of a holder.
func (d *dc) load(service string, every time.Duration, clients ...string) *load {
	d.t.Helper()
	var probes []*lab.Prober
	for _, c := range clients {
		probes = append(probes, d.Node(c).ProbeAtMost(serviceOf(service).addr(), every, loadMost))
	}
	return d.loadOf(service, probes...)
}

// loadOf is load of clients that have begun.
func (d *dc) loadOf(service string, probes ...*lab.Prober) *load {
	d.t.Helper()
	l := &load{service: service, probes: probes}
	for _, p := range l.probes {
		d.waitServed(p, "the holder")
	}
	l.from = time.Now()
	return l
}

// waitServed waits until a client has been served without a loss for a while.
func (d *dc) waitServed(p *lab.Prober, by string) {
	d.t.Helper()
	const calm = 300 * time.Millisecond
	d.until("the client is served, by "+by, func() string {
		attempts := p.Attempts()
		if len(attempts) == 0 || time.Since(attempts[len(attempts)-1].Start) > calm {
			return "it is not served at all"
		}
		last := attempts[len(attempts)-1].Start
		for _, a := range slices.Backward(attempts) {
			if isLost(a) {
				return fmt.Sprintf("%s before the last connection: %+v", last.Sub(a.Start), a)
			}
			if last.Sub(a.Start) > calm {
				return ""
			}
		}
		return "it has only begun"
	})
}

// attempts are the connections since all clients were served.
func (l *load) attempts() []lab.Attempt {
	var all []lab.Attempt
	for _, p := range l.probes {
		all = append(all, p.Attempts()...)
	}
	return slices.DeleteFunc(all, func(a lab.Attempt) bool { return a.Start.Before(l.from) })
}

// connections waits until clients have connected so many times.
func (d *dc) connections(l *load, count int) {
	d.t.Helper()
	d.WaitFor(fmt.Sprintf("%d connections", count), 3*time.Minute, func() bool {
		time.Sleep(100 * time.Millisecond)
		return len(l.attempts()) > count
	})
}

// lostPacket is how long a connection takes at the least of which the first
// packet was lost.
const lostPacket = 900 * time.Millisecond

// isLost says whether a connection failed, or the kernel sent its first packet
// again: that it took long is no loss on a busy machine.
func isLost(a lab.Attempt) bool { return a.Error != "" || a.Resent > 0 }

// noneLost ends a load and fails the test for each connection that was lost; see
// losses.
func (d *dc) noneLost(what string, l *load) {
	d.t.Helper()
	for _, miss := range d.losses(what, l) {
		d.t.Error(miss)
	}
}

// losses ends a load and says what is wrong with it: each connection that was
// lost, but for one whose packets were on both sides of a change of route: anycast
// sends them to two hosts. There cannot be more of those at a change than were
// under way at once.
func (d *dc) losses(what string, l *load) (misses []string) {
	d.t.Helper()
	for _, p := range l.probes {
		p.Stop()
	}
	lost, between := 0, 0
	turns, all := d.fib[l.service].turns(), l.attempts()
	for _, a := range all {
		switch still := d.pauses.Within(a.Start, a.Start.Add(a.Took)); {
		case !isLost(a), a.Error == "" && a.Took-still < lostPacket:
		case a.Error == lab.ConnTimeout && a.Took-still < lostPacket:
			d.t.Logf("%s: the machine stood still for %v of the %v of a connection", what, still, a.Took)
		case d.straddles(a, turns):
			between++
		default:
			if lost++; lost < 6 {
				d.t.Logf("%s: lost at %s: %+v", what, a.Start.Sub(d.fib[l.service].began), a)
			}
		}
	}
	if lost > 0 || between > len(turns)*max(len(l.probes), underWay(all)) {
		return []string{fmt.Sprintf("%s: %d of %d connections were lost, and %d more that were under way when a route changed; %s; turns %v",
			what, lost, len(all), between, d.fib[l.service], d.fib[l.service].since(turns))}
	}
	d.t.Logf("%s: 0 of %d connections lost; %d were under way when a route changed", what, len(all), between)
	return nil
}

// straddles says whether a connection was under way when a router turned. One
// that began long before was lost before: how long a connection takes is some
// milliseconds.
func (d *dc) straddles(a lab.Attempt, turns []time.Time) bool {
	const (
		told = 20 * time.Millisecond  // how much later a turn may be noted than it was
		open = 100 * time.Millisecond // the longest time that a connection takes which is not lost
	)
	return slices.ContainsFunc(turns, func(at time.Time) bool {
		before := at.Sub(a.Start)
		return before >= 0 && before-d.pauses.Within(a.Start, at) < open && !a.Start.Add(a.Took).Before(at.Add(-told))
	})
}

// underWay is how many connections were under way at once at the most, of those
// that were not lost.
func underWay(all []lab.Attempt) (most int) {
	var begins, ends []time.Time
	for _, a := range all {
		if !isLost(a) {
			begins, ends = append(begins, a.Start), append(ends, a.Start.Add(a.Took))
		}
	}
	slices.SortFunc(begins, time.Time.Compare)
	slices.SortFunc(ends, time.Time.Compare)
	ended := 0
	for i, at := range begins {
		for ends[ended].Before(at) {
			ended++
		}
		most = max(most, i+1-ended)
	}
	return most
}
