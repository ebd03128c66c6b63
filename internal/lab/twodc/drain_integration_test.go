//go:build integration

package twodc

import (
	"strings"
	"time"

	"rhid/services"
)

// testDrain: a host is drained from another data centre, under load. Once the
// command says that it is safe, the host's daemon is killed, and no connection is
// lost; when it comes back it is still drained, until that is taken back.
func testDrain(d *dc) {
	d.up(settings{detection: patient, failback: "failback: {mode: auto, delay: 1s}"})
	d.forget()
	l := d.load("atm", 5*time.Millisecond, "client-a", "client-b")
	b2 := d.Node("b2")
	began := time.Now()
	said := b2.Must("rhid", "drain", "node:a1", "--wait", "30s", "--why", "new kernel")
	took := time.Since(began)
	if !strings.Contains(said, "node:a1: safe to stop") {
		d.t.Errorf("drain --wait said %q", said)
	}
	d.want("atm", "a1 a2")
	d.kill("a1")
	if out, err := b2.Run("rhid", "drain", "node:b1", "--wait", "1ms"); err == nil || !strings.Contains(err.Error(), "not safe to stop") {
		d.t.Errorf("drain --wait 1ms of b1, which cannot be over yet: %v, %q", err, out)
	}
	b2.Must("rhid", "undrain", "node:b1")
	d.start("a1")
	d.able(services.Ready, "a1")
	d.calm(time.Second)
	d.want("atm", "a1 a2")
	d.Node("a2").Must("rhid", "undrain", "node:a1")
	d.waitHolder("atm", "a1")
	d.calm(time.Second)
	d.want("atm", "a1 a2 a1")
	d.noneLost("drain of a1, end and return", l)
	d.t.Logf("drain --wait of a1: safe to stop after %v", took.Round(time.Millisecond))
}
