//go:build integration

package checks

import (
	"context"
	"log/slog"
	"syscall"
	"testing"
	"time"
)

// The held check against socat and openssl: what comes when it cannot connect,
// and what when the connection that it holds breaks.
func TestHeldSicknesses(t *testing.T) {
	ca := newAuthority(t, "ours")
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		good, goodKey := ca.certFiles(t, -time.Hour, 24*time.Hour, "held.example")
		old, oldKey := ca.certFiles(t, -72*time.Hour, -25*time.Hour, "held.example")
		socat := startServer(t, "tcp 7101", "socat", "TCP4-LISTEN:7101,fork,reuseaddr", "SYSTEM:cat >/dev/null")
		s1 := startServer(t, "tcp 7102", "openssl", "s_server", "-accept", "7102", "-cert", good, "-key", goodKey, "-quiet")
		startServer(t, "tcp 7103", "openssl", "s_server", "-accept", "7103", "-cert", old, "-key", oldKey, "-quiet")
		plain := &HeldOptions{}
		secure := &HeldOptions{TLS: true, CAFile: ca.file, ServerName: "held.example"}
		showSicknesses(t, "held", []sickness{
			{name: "healthy", opts: plain, to: on(7101, probeLimit), ok: true, says: "connected, and held"},
			{name: "healthy, TLS", opts: secure, to: on(7102, probeLimit), ok: true, says: "connected, and held"},
			{name: "refused", opts: plain, to: on(7109, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: plain, to: on(7101, shortLimit), makes: dropped("tcp dport 7101"), cause: CauseTimeout, says: "SYN not answered"},
			{name: "hung process, TLS", opts: secure, to: on(7102, shortLimit), makes: s1.hung, cause: CauseTimeout, says: "TLS handshake did not end"},
			{name: "certificate expired", opts: secure, to: on(7103, probeLimit), cause: CauseTLS, says: "certificate expired 25 hours ago"},
			{name: "no TLS", opts: secure, to: on(7104, probeLimit), makes: func(t *testing.T) func() {
				return startServer(t, "tcp 7104", "socat", "TCP4-LISTEN:7104,fork,reuseaddr", "SYSTEM:echo hello; cat >/dev/null").end
			}, cause: CauseTLS, says: "does not speak TLS"},
		})
		showBreak(t, sickness{name: "held: process killed", opts: plain, to: on(7101, probeLimit), makes: func(*testing.T) func() { socat.end(); return func() {} },
			cause: CauseNetwork, says: "the held connection broke after"}, 10*time.Second)
		showBreak(t, sickness{name: "held: process killed, TLS", opts: secure, to: on(7102, probeLimit), makes: func(*testing.T) func() { s1.end(); return func() {} },
			cause: CauseNetwork, says: "the held connection broke after"}, 10*time.Second)
		acceptsAndCloses(t, "7105")
		showBreak(t, sickness{name: "held: half-closed", opts: plain, to: on(7105, probeLimit), cause: CauseNetwork, says: "the target closed it"}, 10*time.Second)
		startServer(t, "tcp 7106", "socat", "TCP4-LISTEN:7106,fork,reuseaddr", "SYSTEM:cat >/dev/null")
		showBreak(t, sickness{name: "held: black hole", opts: plain, to: on(7106, probeLimit), makes: dropped("tcp dport 7106"),
			cause: CauseTimeout, says: "the kernel gave up waiting"}, 30*time.Second)
	})
}

// showBreak makes a connection, brings a sickness about, and waits for the
// prober to tell by itself.
func showBreak(t *testing.T, s sickness, within time.Duration) {
	t.Helper()
	h, broke := heldProber(t, s.opts.(*HeldOptions), s.to)
	if res := h.Probe(t.Context()); !res.OK {
		t.Errorf("%s: not healthy before: %+v", s.name, res)
		return
	}
	begin, heal := time.Now(), func() {}
	if s.makes != nil {
		heal = s.makes(t)
	}
	select {
	case res := <-broke:
		s.show(t, "held", res)
		t.Logf("held     | %-28s | told after %s, without a probe", s.name, time.Since(begin).Round(time.Millisecond))
	case <-time.After(within):
		t.Errorf("%s: nothing was told within %s", s.name, within)
	}
	heal()
}

// A server of a check that probes every 10 s is killed: the Runner says so at
// once.
func TestHeldServerKilled(t *testing.T) {
	const port = 17107
	s := startServer(t, "tcp 17107", "socat", "TCP4-LISTEN:17107,fork,reuseaddr", "SYSTEM:cat >/dev/null")
	p, err := (&HeldOptions{}).Prober(on(port, 400*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf("held", p)
	spec.Timing = Timing{Interval: 10 * time.Second, FastInterval: 500 * time.Millisecond, Timeout: 400 * time.Millisecond, Rise: 1, Fall: 1}
	r := NewRunner(slog.New(slog.DiscardHandler), RunnerOptions{})
	mustUpdate(t, r, spec)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for ev := range r.Events() { // the first probe may have come too late on a busy machine
		if ev.State == Up {
			break
		}
	}
	begin := time.Now()
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ev := <-r.Events()
	took := time.Since(begin)
	t.Logf("interval 10 s, server killed: %s after %s: %s", ev.State, took.Round(100*time.Microsecond), ev.Result.Detail)
	if ev.State != Down || took > 3*time.Second {
		t.Errorf("event %+v after %s, want down at once", ev, took)
	}
}
