//go:build integration

package twodc

import (
	"encoding/json"
	"time"

	"rhid/internal/control"
)

// testStall: the daemon of the holder stands still for 10 s. The next takes over
// when the router gives the session up; the one that wakes takes nothing back
// before the fail-back delay, and blames no server for its own sleep.
func testStall(d *dc) {
	const asleep, delay = 10 * time.Second, 4 * time.Second
	d.up(settings{detection: patient, failback: "failback: {mode: auto, delay: 4s}"})
	d.forget()
	_, failed := d.probes("a1", "atm")
	d.mu.Lock()
	p := d.proc["a1"]
	d.mu.Unlock()
	began := time.Now()
	p.Stop()
	d.waitHolder("atm", "a2")
	took := time.Since(began)
	time.Sleep(asleep - time.Since(began))
	woke := time.Now()
	p.Cont()
	runs, _ := d.probes("a1", "atm")
	d.WaitFor("a1 has asked the servers of atm again", dcUp, func() bool { now, _ := d.probes("a1", "atm"); return now >= runs+4 })
	if _, now := d.probes("a1", "atm"); now != failed {
		d.t.Errorf("a1 counted %d failed probes of atm because of the stall", now-failed)
	}
	d.waitHolder("atm", "a1")
	back := time.Since(woke)
	if back < delay {
		d.t.Errorf("a1 took atm back %v after it woke, want no sooner than after the delay of %v", back, delay)
	}
	d.calm(time.Second)
	d.want("atm", "a1 a2 a1")
	d.t.Logf("SIGSTOP of a1 for %v: a2 led to after %v, a1 back %v after it woke, no probe counted failed",
		asleep, took.Round(time.Millisecond), back.Round(time.Millisecond))
}

// probes is how many probes of a service a host has made, and how many of them
// have failed.
func (d *dc) probes(host, service string) (runs, fails uint64) {
	d.t.Helper()
	var ex control.Explanation
	if err := json.Unmarshal([]byte(d.Node(host).Must("rhid", "explain", service, "-o", "json")), &ex); err != nil {
		d.t.Fatal(err)
	}
	if len(ex.Checks) == 0 {
		d.t.Fatalf("%s has no checks of %s", host, service)
	}
	for _, c := range ex.Checks {
		runs, fails = runs+c.Runs, fails+c.Fails
	}
	return runs, fails
}
