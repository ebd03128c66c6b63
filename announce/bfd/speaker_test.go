package bfd

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a test waits for what is to happen.
const patience = time.Minute

// end is one of two speakers that talk over loopback, each on ports of its own.
type end struct {
	*Speaker
	t     *testing.T
	alive atomic.Bool
	lost  chan string
}

// newEnd begins on ports that the kernel chooses.
func newEnd(t *testing.T, p Peer) *end {
	t.Helper()
	e := &end{t: t, lost: make(chan string, 10)}
	e.alive.Store(true)
	at := ports{listen: map[Hops]uint16{}, dial: map[Hops]uint16{}}
	hooks := Hooks{Alive: e.alive.Load, Down: func(_ netip.Addr, why string) { e.lost <- why }}
	var err error
	if e.Speaker, err = start([]Peer{p}, hooks, slog.New(slog.DiscardHandler), at); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *end) stop() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.Stop(ctx, 0); err != nil {
		e.t.Error(err)
	}
}

// wait waits for a state.
func (e *end) wait(what State) Status {
	e.t.Helper()
	return e.until(func(st Status) bool { return st.State == what })
}

func (e *end) until(cond func(Status) bool) Status {
	e.t.Helper()
	late := time.After(patience)
	look := time.NewTicker(time.Millisecond) // counters send no signal
	defer look.Stop()
	for {
		if st := e.Sessions(); len(st) == 1 && cond(st[0]) {
			return st[0]
		}
		select {
		case <-e.Changes():
		case <-look.C:
		case <-late:
			e.t.Fatalf("waited in vain: %+v", e.Sessions())
		}
	}
}

// discriminator is the one that the only session was given.
func (e *end) discriminator() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.entries[0].local
}

func loopback(address string) Peer {
	return Peer{
		Name: "other", Address: netip.MustParseAddr(address), Source: netip.MustParseAddr(address),
		Hops: HopsAuto, Expect: HopsSingle, MinTTL: 255, Interval: 20 * time.Millisecond, Multiplier: 150, // more than a machine stands still for
	}
}

// startTwo starts two ends and tells each where the other is.
func startTwo(t *testing.T, p, q Peer) (a, b *end) {
	t.Helper()
	a, b = newEnd(t, p), newEnd(t, q)
	a.dial(b)
	b.dial(a)
	return a, b
}

func (e *end) dial(other *end) {
	at := map[Hops]uint16{}
	other.locked(func(time.Time) {
		for k, l := range other.listeners {
			at[k.hops] = uint16(l.conn.LocalAddr().(*net.UDPAddr).Port)
		}
	})
	e.locked(func(time.Time) { e.ports.dial = at })
}

func TestSpeakersOverLoopback(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			a, b := startTwo(t, loopback(address), loopback(address))
			if st := a.wait(Up); st.Hops != HopsSingle || st.Detection == 0 {
				t.Errorf("up as %+v", st)
			}
			b.wait(Up)
			a.stop()
			if st := b.wait(Down); st.RemoteDiag != DiagAdmin || st.Flaps != 0 {
				t.Errorf("after a planned end: %+v", st)
			}
			b.stop()
			if len(a.lost)+len(b.lost) > 0 {
				t.Error("a planned end was called a loss")
			}
		})
	}
}

// A speaker that stops lets its peer end the session first.
func TestStopIsPatient(t *testing.T) {
	t.Parallel()
	const waits = 300 * time.Millisecond
	for name, peer := range map[string]func(b *end){
		"that waits":    func(*end) {},
		"that ends":     func(b *end) { _ = b.Configure(nil) },
		"that restarts": (*end).restart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := startTwo(t, loopback("127.0.0.1"), loopback("127.0.0.1"))
			a.wait(Up)
			b.wait(Up)
			began := time.Now()
			stopped := make(chan error)
			limit := waits
			if name != "that waits" {
				limit = time.Hour // it must not be used up
			}
			a.BeginStop()
			peer(b)
			go func() { stopped <- a.Stop(context.Background(), limit) }()
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if took := time.Since(began); name == "that waits" && took < waits {
				t.Errorf("stopped after %v, patience is %v", took, waits)
			}
			if name == "that restarts" {
				if st := b.until(func(st Status) bool { return st.RemoteDiag == DiagAdmin }); st.State != Down || st.Diag != DiagNone {
					t.Errorf("the peer came up again: %+v", st)
				}
			}
			b.stop()
			if len(a.lost)+len(b.lost) > 0 {
				t.Error("a planned end was called a loss")
			}
		})
	}
}

// restart begins the session anew, as if the one before had never been.
func (e *end) restart() {
	e.locked(func(now time.Time) {
		e.entries[0].close()
		e.entries[0], e.openAt = e.newEntry(e.entries[0].peer, now), now
	})
	signal(e.wake)
}

// What the sessions vouch for has stopped: the other side must find out.
func TestNothingIsSentWhenNotAlive(t *testing.T) {
	t.Parallel()
	p := loopback("127.0.0.1")
	p.Multiplier = 100 // 2 s
	a, b := startTwo(t, p, p)
	a.wait(Up)
	b.wait(Up)
	began := time.Now()
	a.alive.Store(false)
	if st := b.wait(Down); st.Diag != DiagExpired || st.Flaps != 1 {
		t.Errorf("the other side: %+v", st)
	}
	if took := time.Since(began); took < time.Second { // when a stood still before that, b has counted already
		t.Errorf("down after %v already", took)
	}
	<-b.lost
	a.wait(Down)
	<-a.lost
	a.alive.Store(true)
	a.wait(Up)
	b.wait(Up)
	a.stop()
	b.stop()
}

// The one that is told to find out by itself follows the one that speaks multihop.
func TestAutoFollowsTheOther(t *testing.T) {
	t.Parallel()
	multi := loopback("127.0.0.1")
	multi.Hops = HopsMulti
	a, b := startTwo(t, loopback("127.0.0.1"), multi)
	if st := a.wait(Up); st.Hops != HopsMulti {
		t.Errorf("up as %+v", st)
	}
	a.stop()
	b.stop()
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	p := loopback("127.0.0.1")
	a, b := startTwo(t, p, p)
	since := a.wait(Up).Since
	b.wait(Up)
	p.Interval, p.Name = 40*time.Millisecond, "renamed"
	if err := a.Configure([]Peer{p}); err != nil {
		t.Fatal(err)
	}
	a.until(func(st Status) bool { return st.Interval == p.Interval })
	if st := a.wait(Up); !st.Since.Equal(since) || st.Name != "renamed" {
		t.Errorf("the session did not go on: %+v", st)
	}
	p.Auth = Auth{Type: KeyedSHA1, KeyID: 1, Key: "x"}
	if err := a.Configure([]Peer{p}); err != nil {
		t.Fatal(err)
	}
	b.wait(Down)
	if err := b.Configure([]Peer{p}); err != nil {
		t.Fatal(err)
	}
	a.wait(Up)
	p.Multiplier = 0
	if err := a.Configure([]Peer{p}); err == nil {
		t.Error("multiplier 0 was taken")
	}
	if err := a.Configure(nil); err != nil {
		t.Fatal(err)
	}
	b.wait(Down)
	a.stop()
	b.stop()
	if len(a.lost)+len(b.lost) > 0 {
		t.Error("a change of configuration was called a loss")
	}
}

// Packets that are not from the peer, or came from too far away, do not count.
func TestStrangersAreIgnored(t *testing.T) {
	t.Parallel()
	p := loopback("127.0.0.1")
	a, b := startTwo(t, p, p)
	a.wait(Up)
	b.wait(Up)
	to := netip.AddrPortFrom(p.Address, b.ports.dial[HopsSingle]) // where a listens
	down := packet{state: Down, mult: 3, my: 99, your: a.discriminator(), minTx: time.Second, minRx: time.Second}.append(nil)
	for _, from := range []string{"127.0.0.2:0", "127.0.0.1:0"} { // another host; the right one with the system's TTL
		la, err := net.ResolveUDPAddr("udp4", from)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.DialUDP("udp4", la, net.UDPAddrFromAddrPort(to))
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range [][]byte{down, nil, down[:10]} {
			if _, err := c.Write(raw); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Close()
	}
	if st := a.until(func(st Status) bool { return st.Refused > 0 }); st.State != Up || st.Refused != 1 || st.Flaps != 0 {
		t.Errorf("after foreign packets: %+v", st)
	}
	a.stop()
	b.stop()
}

func TestPeerValidation(t *testing.T) {
	for name, edit := range map[string]func(*Peer){
		"no address":              func(p *Peer) { p.Address = netip.Addr{} },
		"link-local without zone": func(p *Peer) { p.Address, p.Source = netip.MustParseAddr("fe80::1"), netip.Addr{} },
		"source of another kind":  func(p *Peer) { p.Source = netip.MustParseAddr("::1") },
		"no idea of hops":         func(p *Peer) { p.Expect = HopsAuto },
		"interval":                func(p *Peer) { p.Interval = time.Millisecond },
		"multiplier":              func(p *Peer) { p.Multiplier = 0 },
		"no key":                  func(p *Peer) { p.Auth.Type = KeyedSHA1 },
		"long key":                func(p *Peer) { p.Auth = Auth{KeyedSHA1, 1, "123456789012345678901"} },
	} {
		p := loopback("127.0.0.1")
		edit(&p)
		if p.validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := loopback("::1").validate(); err != nil {
		t.Error(err)
	}
}
