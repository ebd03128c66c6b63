package checks

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// doorman accepts connections and lets a test do with them as it likes.
func doorman(t *testing.T) (to Target, came chan net.Conn) {
	t.Helper()
	came = make(chan net.Conn)
	ap := serve(t, "127.0.0.1:0", func(c net.Conn) {
		select {
		case came <- c:
		case <-t.Context().Done():
		}
		<-t.Context().Done() // serve closes it after that
	})
	return targetOf(ap, probeLimit), came
}

// heldProber makes a held check, which lets go at the end of the test.
func heldProber(t *testing.T, o *HeldOptions, to Target) (Holder, chan Result) {
	t.Helper()
	p, err := o.Prober(to)
	if err != nil {
		t.Fatal(err)
	}
	h, ok := p.(Holder)
	if !ok {
		t.Fatalf("%T is no Holder", p)
	}
	t.Cleanup(h.Release)
	broke := make(chan Result, 1)
	h.Watch(func(r Result) { broke <- r })
	return h, broke
}

// connect makes the probe that connects, and returns the server's side.
func connect(t *testing.T, h Holder, came chan net.Conn) net.Conn {
	t.Helper()
	first := make(chan Result)
	go func() { first <- h.Probe(t.Context()) }()
	server := <-came
	wantOutcome(t, <-first, outcome{true, CauseNone, "connected, and held from now on"})
	return server
}

// wantHeld makes a probe, which must find the connection of an earlier one.
func wantHeld(t *testing.T, h Holder) {
	t.Helper()
	if res := h.Probe(t.Context()); !res.OK || !strings.HasPrefix(res.Detail, "held for ") {
		t.Errorf("%+v, want a connection that is held", res)
	}
}

func TestHeldBreaks(t *testing.T) {
	tests := []struct {
		name  string
		close func(c *net.TCPConn) error
		want  string
	}{
		{"closed", (*net.TCPConn).Close, ": the target closed it"},
		{"half closed", (*net.TCPConn).CloseWrite, ": the target closed it"},
		{"reset", func(c *net.TCPConn) error { _ = c.SetLinger(0); return c.Close() }, ": connection reset by the target"},
		{"closed after a word", func(c *net.TCPConn) error { _, _ = io.WriteString(c, "bye"); return c.Close() }, ": the target closed it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to, came := doorman(t)
			h, broke := heldProber(t, &HeldOptions{}, to)
			server := connect(t, h, came)
			wantHeld(t, h)
			if err := tt.close(server.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			res := <-broke
			if res.OK || res.Cause != CauseNetwork || res.Start.IsZero() || !strings.HasSuffix(res.Detail, tt.want) {
				t.Errorf("%+v, want %q", res, tt.want)
			}
			connect(t, h, came)
		})
	}
}

func TestHeldOverReload(t *testing.T) {
	to, came := doorman(t)
	h, broke := heldProber(t, &HeldOptions{}, to)
	server := connect(t, h, came)
	next, brokeNext := heldProber(t, &HeldOptions{}, to)
	next.Inherit(h)
	next.Watch(func(r Result) { brokeNext <- r })
	wantHeld(t, next)
	server.Close()
	if res := <-brokeNext; res.OK {
		t.Errorf("%+v", res)
	}
	if len(broke) > 0 {
		t.Errorf("the former prober was told: %+v", <-broke)
	}
}

func TestHeldRelease(t *testing.T) {
	to, came := doorman(t)
	before := runtime.NumGoroutine()
	h, broke := heldProber(t, &HeldOptions{}, to)
	server := connect(t, h, came)
	h.Release()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the target reads %v, want the end", err)
	}
	wantOutcome(t, probeAfterRelease(t, h, came), outcome{false, CauseInternal, "the probe was stopped"})
	if len(broke) > 0 {
		t.Errorf("told of its own release: %+v", <-broke)
	}
	eventually(t, "no goroutine is left but those of the test's server", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// probeAfterRelease makes a probe that connects too late to be held.
func probeAfterRelease(t *testing.T, h Holder, came chan net.Conn) Result {
	t.Helper()
	late := make(chan Result)
	go func() { late <- h.Probe(t.Context()) }()
	server := <-came
	res := <-late
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the target of the late one reads %v, want the end", err)
	}
	return res
}

func TestHeldTLS(t *testing.T) {
	ca := newAuthority(t, "ours")
	serveTLS := func(from, to time.Duration) Target {
		cfg := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, from, to, "held.example")}}
		return targetOf(serve(t, "127.0.0.1:0", func(c net.Conn) {
			tc := tls.Server(c, cfg)
			if tc.Handshake() == nil {
				_, _ = io.Copy(io.Discard, tc) // until the probe closes
			}
		}), probeLimit)
	}
	o := &HeldOptions{TLS: true, CAFile: ca.file, ServerName: "held.example"}
	h, _ := heldProber(t, o, serveTLS(-time.Hour, time.Hour))
	wantOutcome(t, h.Probe(t.Context()), outcome{true, CauseNone, "connected, and held from now on"})
	wantHeld(t, h)
	h, _ = heldProber(t, o, serveTLS(-48*time.Hour, -25*time.Hour))
	wantOutcome(t, h.Probe(t.Context()), outcome{false, CauseTLS, "certificate expired 25 hours ago"})
	h, _ = heldProber(t, o, targetOf(closedPort(t), probeLimit))
	wantOutcome(t, h.Probe(t.Context()), outcome{false, CauseRefused, "connection refused"})
}
