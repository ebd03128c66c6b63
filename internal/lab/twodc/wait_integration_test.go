//go:build integration

package twodc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"rhid/internal/control"
	"rhid/services"
)

// able waits until hosts are at least so ready for all services.
func (d *dc) able(least services.Readiness, hosts ...string) {
	d.t.Helper()
	d.eachIs(least.String()+" or better", func(r services.Readiness) bool { return r >= least }, hosts...)
}

// eachIs waits until the readiness of hosts for all services is as wanted.
func (d *dc) eachIs(what string, want func(services.Readiness) bool, hosts ...string) {
	d.t.Helper()
	for _, h := range hosts {
		d.until(h+" is "+what+" for all services", func() string {
			now := d.readiness(h)
			if slices.ContainsFunc(dcServices(), func(s service) bool { return !want(now[s.name]) }) {
				return fmt.Sprint(now)
			}
			return ""
		})
	}
}

// is waits until a host says that of itself for one service.
func (d *dc) is(host, service string, want services.Readiness) {
	d.t.Helper()
	d.until(host+" is "+want.String()+" for "+service, func() string {
		if now := d.readiness(host); now[service] != want {
			return fmt.Sprint(now)
		}
		return ""
	})
}

// until waits until wrong has nothing to say any more, and fails the test with
// what it says when that takes too long.
func (d *dc) until(what string, wrong func() string) time.Duration {
	d.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		text := wrong()
		took := time.Since(began)
		if text == "" {
			return took
		}
		if took > dcUp {
			d.t.Fatalf("waited %v in vain until %s: %s", dcUp, what, text)
		}
	}
}

// readiness is what a host says of itself, by service; nothing as long as it does
// not answer.
func (d *dc) readiness(host string) map[string]services.Readiness {
	now := map[string]services.Readiness{}
	for _, s := range d.status(host).Services {
		now[s.Name] = s.Readiness
	}
	return now
}

// status is what a host says; nothing as long as it does not answer. That the
// command fails tells of an alarm, too.
func (d *dc) status(host string) (st control.Status) {
	out, _ := d.Node(host).Run("rhid", "status", "-o", "json")
	if json.Unmarshal([]byte(out), &st) != nil {
		return control.Status{}
	}
	return st
}

// waitHolder waits until the routers lead to exactly these hosts, "a1" or
// "a1+b1".
func (d *dc) waitHolder(service, want string) {
	d.t.Helper()
	d.until("the routers lead to "+want+" for "+service, func() string {
		if d.fib[service].now() == want {
			return ""
		}
		return fmt.Sprintf("they led to %s, it was announced by %s", d.fib[service], d.wire[service])
	})
}

// calm waits until no journal has changed for a while.
func (d *dc) calm(quiet time.Duration) {
	d.t.Helper()
	count := func() int {
		n := 0
		for name := range d.fib {
			n += len(d.fib[name].moments()) + len(d.wire[name].moments())
		}
		return n
	}
	last, since := count(), time.Now()
	d.WaitFor(fmt.Sprintf("nothing moves for %v", quiet), dcUp, func() bool {
		if n := count(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) >= quiet
	})
}

// waitLed waits until a core router leads to a host, whatever the others do.
func (d *dc) waitLed(service, host string) {
	d.t.Helper()
	d.WaitFor(service+" led to "+host, dcUp, func() bool { return strings.Contains(d.fib[service].now(), host) })
}

// waitWire waits until exactly these hosts announce a service to their cores.
func (d *dc) waitWire(service, want string) {
	d.t.Helper()
	d.until(service+" is announced by "+want, func() string {
		if all := d.wire[service].moments(); all[len(all)-1].holders != want {
			return "it was by " + timed(all[0].at, all)
		}
		return ""
	})
}
