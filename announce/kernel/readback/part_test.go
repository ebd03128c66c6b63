package readback

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var vip = netip.MustParsePrefix("10.255.0.20/32")

// daemon is an ospfd that answers from memory.
type daemon struct {
	mu       sync.Mutex
	has      bool
	frozen   chan struct{} // answers wait until it is closed
	refuses  error
	question int
}

func (d *daemon) dial(context.Context) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses != nil {
		return nil, d.refuses
	}
	ours, theirs := net.Pipe()
	go d.serve(theirs)
	return ours, nil
}

func (d *daemon) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		if _, err := r.ReadString(0); err != nil {
			return
		}
		d.mu.Lock()
		d.question++
		frozen := d.frozen
		d.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		d.mu.Lock()
		reply := "{}"
		if d.has {
			reply = ospfdReply
		}
		d.mu.Unlock()
		if _, err := c.Write([]byte(reply + "\x00\x00\x00\x00")); err != nil {
			return
		}
	}
}

func (d *daemon) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// asks is how often it was asked in a time.
func (d *daemon) asks(during time.Duration) int {
	synctest.Wait()
	d.mu.Lock()
	before := d.question
	d.mu.Unlock()
	<-time.After(during)
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.question - before
}

// bubble is synctest.Test on one processor. With -race and more of them, Go 1.26
// lets all use one context of the race detector for a bubble's timers, and now
// and then ends with a SIGSEGV in it (golang/go#78156). The detector goes by the
// order of events, not by chance, so one processor finds as much.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}

// world is a Readback of one daemon, in virtual time.
func world(t *testing.T, d *daemon) (*Readback, func() Answer) {
	t.Helper()
	r := New(Settings{From: []string{FRR}, Interval: time.Second, FRRDirectory: "/nowhere"}, slog.New(slog.DiscardHandler))
	frr := r.Daemons[0]
	frr.parts = frr.parts[:1]
	frr.parts[0].dial = d.dial
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		d.set(func() {
			if d.frozen != nil {
				close(d.frozen)
			}
		})
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r, func() Answer {
		synctest.Wait()
		return frr.Answer(vip)
	}
}

func heard(r *Readback) bool {
	synctest.Wait()
	select {
	case <-r.Changes():
		return true
	default:
		return false
	}
}

func TestAsksOftenWhileOtherThanExpected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &daemon{}
		r, answer := world(t, d)
		if a := answer(); a.Has || a.Asked.IsZero() || a.Fault != "" {
			t.Fatalf("at first: %+v", a)
		}
		if n := d.asks(10 * time.Second); n != 10 {
			t.Errorf("at rest: asked %d times in 10 s, want 10", n)
		}
		heard(r)
		changed := time.Now()
		r.Expect(vip, true)
		if !heard(r) || answer().Asked.Before(changed) {
			t.Error("not asked at once after a change")
		}
		if n := d.asks(hotFor); n < 50 || n > 70 {
			t.Errorf("after a change: asked %d times in %v", n, hotFor)
		}
		if n := d.asks(10 * time.Second); n < 38 || n > 42 {
			t.Errorf("while lost: asked %d times in 10 s, want some 40", n)
		}
		d.set(func() { d.has = true })
		<-time.After(warmGap)
		if !heard(r) || !answer().Has {
			t.Errorf("the change was not heard: %+v", answer())
		}
		d.asks(time.Second)
		if n := d.asks(10 * time.Second); n != 10 {
			t.Errorf("at rest again: asked %d times in 10 s, want 10", n)
		}
	})
}

func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &daemon{has: true}
		r, answer := world(t, d)
		answer()
		frozen := time.Now()
		d.set(func() { d.frozen = make(chan struct{}) })
		r.Expect(vip, false)
		synctest.Wait()
		heard(r)
		<-time.After(patience)
		a := answer()
		if want := "ospfd does not answer since " + clock(frozen); !heard(r) || a.Fault != want || a.Gone || !a.Has {
			t.Errorf("frozen: %+v, want fault %q", a, want)
		}
		if n := d.asks(30 * time.Second); n != 0 {
			t.Errorf("frozen: asked again %d times", n)
		}
		if heard(r) || answer() != a {
			t.Errorf("frozen, later: %+v, want %+v", answer(), a)
		}
		d.set(func() { close(d.frozen); d.frozen, d.has = nil, false })
		if a := answer(); !heard(r) || a.Fault != "" || a.Has || a.Asked.Before(frozen) {
			t.Errorf("as it goes on: %+v", a)
		}
		// It was not at work for 30 s, so it need not rest for minutes.
		if n := d.asks(workShare * patience); n == 0 {
			t.Errorf("not asked again within %v", workShare*patience)
		}
		if n := d.asks(10 * time.Second); n != 10 {
			t.Errorf("at rest again: asked %d times in 10 s, want 10", n)
		}
	})
}

func TestNobodyListens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &daemon{refuses: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
		r, answer := world(t, d)
		a := answer()
		if !heard(r) || !a.Gone || !strings.HasPrefix(a.Fault, "ospfd cannot be asked since ") || !strings.HasSuffix(a.Fault, ": connection refused") {
			t.Errorf("refused: %+v", a)
		}
		d.set(func() { d.refuses = nil })
		<-time.After(redial)
		if a := answer(); !heard(r) || a.Fault != "" || a.Asked.IsZero() {
			t.Errorf("later: %+v", a)
		}
	})
}

// TestSlowDaemon has a daemon that needs long for an answer: it is not asked for
// more than a tenth of its time.
func TestSlowDaemon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &daemon{}
		r, answer := world(t, d)
		answer()
		slow := r.Daemons[0].parts[0]
		slow.mu.Lock()
		slow.took = 400 * time.Millisecond
		slow.mu.Unlock()
		if p := slow.pause(); p != 4*time.Second {
			t.Errorf("pause after an answer that took 400 ms: %v", p)
		}
	})
}

func TestSettings(t *testing.T) {
	good := Settings{From: []string{FRR, BIRD}, Interval: time.Second}
	if err := good.Validate(); err != nil {
		t.Errorf("good settings: %v", err)
	}
	if err := (Settings{From: []string{"quagga"}}).Validate(); err == nil || !strings.Contains(err.Error(), "quagga") || !strings.Contains(err.Error(), "interval") {
		t.Errorf("bad settings: %v", err)
	}
	if good.Equal(Settings{From: []string{FRR}, Interval: time.Second}) || !good.Equal(Settings{From: []string{FRR, BIRD}, Interval: time.Second}) {
		t.Error("Equal")
	}
}
