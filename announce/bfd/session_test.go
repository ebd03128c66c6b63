package bfd

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// pair is two sessions and the wire between them, in a time of its own.
type pair struct {
	t     *testing.T
	now   time.Time
	a, b  *session
	delay time.Duration
	drop  func(from *session, p packet) bool
	wire  []flight
	sent  map[*session][]time.Time
	log   []string
}

type flight struct {
	at  time.Time
	to  *session
	raw []byte
}

func peerWith(interval time.Duration, mult uint8) Peer {
	return Peer{Name: "r", Address: netip.MustParseAddr("192.0.2.1"), Hops: HopsSingle, MinTTL: 255, Interval: interval, Multiplier: mult}
}

func newPair(t *testing.T, a, b Peer) *pair {
	p := &pair{t: t, now: time.Unix(1_000_000, 0), delay: time.Millisecond, sent: map[*session][]time.Time{}, drop: func(*session, packet) bool { return false }}
	r := rand.New(rand.NewPCG(1, 2))
	p.a = newSession(a, 1, 100, p.now, r.Float64)
	p.b = newSession(b, 2, 0xfffffff0, p.now.Add(300*time.Millisecond), r.Float64)
	return p
}

// run lets time pass, from one thing that is due to the next.
func (p *pair) run(d time.Duration) {
	end := p.now.Add(d)
	for {
		next := end
		for _, s := range []*session{p.a, p.b} {
			if due := s.due(); !due.IsZero() && due.Before(next) {
				next = due
			}
		}
		for _, f := range p.wire {
			if f.at.Before(next) {
				next = f.at
			}
		}
		if next.After(p.now) {
			p.now = next
		}
		p.arrive()
		for _, s := range []*session{p.a, p.b} {
			p.step(s, func() { s.expire(p.now) })
			p.transmit(s)
		}
		if !p.now.Before(end) {
			return
		}
	}
}

func (p *pair) arrive() {
	var later []flight
	for _, f := range p.wire {
		if f.at.After(p.now) {
			later = append(later, f)
			continue
		}
		pkt, raw, err := parse(f.raw)
		if err != nil {
			p.t.Fatalf("%v: %x", err, f.raw)
		}
		p.step(f.to, func() {
			if err := f.to.accept(p.now, pkt, raw, HopsSingle); err != nil {
				p.log = append(p.log, err.Error())
			}
		})
	}
	p.wire = later
	for _, s := range []*session{p.a, p.b} {
		p.transmit(s)
	}
}

func (p *pair) step(s *session, f func()) {
	was := s.state
	f()
	if s.state != was {
		p.log = append(p.log, fmt.Sprintf("%d %v", s.local, s.state))
	}
}

func (p *pair) transmit(s *session) {
	to := p.a
	if s == p.a {
		to = p.b
	}
	for raw := s.transmit(p.now); raw != nil; raw = s.transmit(p.now) {
		pkt, _, err := parse(raw)
		if err != nil {
			p.t.Fatalf("sent a packet that is none: %v", err)
		}
		p.sent[s] = append(p.sent[s], p.now)
		if !p.drop(s, pkt) {
			p.wire = append(p.wire, flight{p.now.Add(p.delay), to, raw})
		}
	}
}

func (p *pair) want(a, b State) {
	p.t.Helper()
	if p.a.state != a || p.b.state != b {
		p.t.Fatalf("states %v and %v, want %v and %v; so far: %v", p.a.state, p.b.state, a, b, p.log)
	}
}

// until runs in steps of a millisecond until cond holds, and returns how long.
func (p *pair) until(limit time.Duration, cond func() bool) time.Duration {
	p.t.Helper()
	for d := time.Duration(0); d < limit; d += time.Millisecond {
		if cond() {
			return d
		}
		p.run(time.Millisecond)
	}
	p.t.Fatalf("not within %v: %v, %v; %v", limit, p.a.state, p.b.state, p.log)
	return 0
}

func (p *pair) bothUp() bool { return p.a.state == Up && p.b.state == Up }

const hundred = 100 * time.Millisecond

func TestComesUpAtTheSlowRateAndThenSpeedsUp(t *testing.T) {
	p := newPair(t, peerWith(hundred, 3), peerWith(hundred, 3))
	p.drop = func(*session, packet) bool { return true }
	p.run(10 * time.Second)
	if n := len(p.sent[p.a]); n < 10 || n > 15 {
		t.Errorf("%d packets in 10 s before the peer was heard, want one in 0.75 to 1 s", n)
	}
	p.drop = func(*session, packet) bool { return false }
	if took := p.until(3*time.Second, p.bothUp); took > 1100*time.Millisecond {
		t.Errorf("up after %v", took)
	}
	p.until(time.Second, func() bool { return !p.a.poll && !p.b.poll })
	clear(p.sent)
	p.run(10 * time.Second)
	if n := len(p.sent[p.a]); n < 100 || n > 134 {
		t.Errorf("%d packets in 10 s, want one in 75 to 100 ms", n)
	}
	if d := p.a.detection(); d != 300*time.Millisecond {
		t.Errorf("detection time %v", d)
	}
	p.want(Up, Up)
}

func TestJitter(t *testing.T) {
	for _, c := range []struct {
		mult     uint8
		from, to time.Duration
	}{{3, 75 * time.Millisecond, hundred}, {1, 75 * time.Millisecond, 90 * time.Millisecond}} {
		p := newPair(t, peerWith(hundred, c.mult), peerWith(hundred, c.mult))
		p.until(3*time.Second, func() bool { return p.bothUp() && !p.a.poll && !p.b.poll })
		p.run(2 * time.Second)
		clear(p.sent)
		p.run(30 * time.Second)
		least, most := time.Hour, time.Duration(0)
		for i, at := range p.sent[p.a][1:] {
			gap := at.Sub(p.sent[p.a][i])
			least, most = min(least, gap), max(most, gap)
		}
		if least < c.from || most > c.to || most-least < (c.to-c.from)*8/10 {
			t.Errorf("multiplier %d: %v to %v between packets, want %v to %v and all of that", c.mult, least, most, c.from, c.to)
		}
	}
}

func TestSilenceIsDetected(t *testing.T) {
	p := newPair(t, peerWith(hundred, 3), peerWith(50*time.Millisecond, 5))
	p.until(3*time.Second, func() bool { return p.bothUp() && !p.a.poll && !p.b.poll })
	p.run(time.Second)
	p.drop = func(from *session, _ packet) bool { return from == p.b } // a hears nothing, b hears all
	p.run(2 * p.delay)
	heard := p.a.heard
	p.until(2*time.Second, func() bool { return p.a.state == Down })
	// b sends at a's pace, and says so with its own multiplier
	if took := p.now.Sub(heard); took < 500*time.Millisecond || took > 502*time.Millisecond {
		t.Errorf("detected %v after the last packet, want 5 × max(100 ms, 50 ms)", took)
	}
	if p.a.diag != DiagExpired || p.a.remote != 0 {
		t.Errorf("diagnostic %v, remote discriminator %d", p.a.diag, p.a.remote)
	}
	p.run(10 * time.Millisecond)
	p.want(Down, Down)
	if p.b.diag != DiagNeighbour {
		t.Errorf("the other side says %v", p.b.diag)
	}
	p.drop = func(*session, packet) bool { return false }
	p.until(3*time.Second, p.bothUp)
}

func TestTimersAreNegotiated(t *testing.T) {
	p := newPair(t, peerWith(hundred, 3), peerWith(300*time.Millisecond, 4))
	p.until(5*time.Second, func() bool { return p.bothUp() && !p.a.poll && !p.b.poll })
	if p.a.interval() != 300*time.Millisecond || p.a.detection() != 1200*time.Millisecond || p.b.detection() != 900*time.Millisecond {
		t.Errorf("interval %v, detection %v and %v", p.a.interval(), p.a.detection(), p.b.detection())
	}
}

// A longer interval comes into force only when the peer has said yes to it, so
// that it never takes the longer pause for silence.
func TestLongerIntervalWaitsForTheFinal(t *testing.T) {
	p := newPair(t, peerWith(hundred, 3), peerWith(hundred, 3))
	p.until(5*time.Second, func() bool { return p.bothUp() && !p.a.poll && !p.b.poll })
	p.drop = func(from *session, pkt packet) bool { return from == p.b && pkt.final }
	p.a.configure(p.now, peerWith(500*time.Millisecond, 3))
	p.run(time.Second)
	if !p.a.poll || p.a.interval() != hundred {
		t.Errorf("poll %v, interval %v without a final", p.a.poll, p.a.interval())
	}
	p.drop = func(*session, packet) bool { return false }
	p.until(time.Second, func() bool { return !p.a.poll })
	if p.a.interval() != 500*time.Millisecond || p.b.detection() != 1500*time.Millisecond {
		t.Errorf("interval %v, the peer's detection %v", p.a.interval(), p.b.detection())
	}
	// and back, as often as one likes
	for range 20 {
		p.a.configure(p.now, peerWith(hundred, 3))
		p.run(7 * time.Millisecond)
		p.a.configure(p.now, peerWith(400*time.Millisecond, 3))
		p.run(13 * time.Millisecond)
	}
	p.run(5 * time.Second)
	p.want(Up, Up)
	if p.a.poll || p.a.interval() != 400*time.Millisecond {
		t.Errorf("poll %v, interval %v in the end", p.a.poll, p.a.interval())
	}
}

func TestAdminDownIsNoFailure(t *testing.T) {
	p := newPair(t, peerWith(hundred, 3), peerWith(hundred, 3))
	p.until(3*time.Second, p.bothUp)
	p.a.adminDown(p.now)
	p.run(20 * time.Millisecond)
	p.want(AdminDown, Down)
	if p.b.remoteState != AdminDown || p.b.remoteDiag != DiagAdmin || p.b.diag != DiagNeighbour {
		t.Errorf("the peer knows %v (%v) and says %v", p.b.remoteState, p.b.remoteDiag, p.b.diag)
	}
	p.run(time.Minute)
	p.want(AdminDown, Down) // and stays there
}

func TestPeerThatRestartsIsFollowed(t *testing.T) {
	p := newPair(t, peerWith(hundred, 3), peerWith(hundred, 3))
	p.until(3*time.Second, p.bothUp)
	p.b = newSession(peerWith(hundred, 3), 77, 5, p.now, rand.Float64)
	p.wire = nil
	p.until(3*time.Second, func() bool { return p.a.state != Up })
	p.until(3*time.Second, p.bothUp)
	if p.a.remote != 77 {
		t.Errorf("remote discriminator %d", p.a.remote)
	}
}

func TestPeerThatWantsNoPacketsGetsNone(t *testing.T) {
	s := newSession(peerWith(hundred, 3), 1, 1, time.Unix(0, 0), rand.Float64)
	now := time.Unix(10, 0)
	s.receive(now, packet{state: Down, mult: 3, my: 2, minTx: time.Second})
	if b := s.transmit(now); b != nil {
		t.Errorf("sent %x to a peer with a required interval of 0", b)
	}
	s.receive(now, packet{state: Down, mult: 3, my: 2, minTx: time.Second, poll: true})
	if b := s.transmit(now); len(b) == 0 || b[1]&flagFinal == 0 {
		t.Errorf("sent %x as the answer to a poll", b)
	}
	s.receive(now, packet{state: Init, mult: 3, my: 2, your: 1, minTx: time.Second, minRx: time.Microsecond, demand: true})
	if s.state != Up {
		t.Fatal("not up")
	}
	for s.transmit(now) != nil {
	}
	s.receive(now, packet{state: Up, mult: 3, my: 2, your: 1, minTx: time.Second, minRx: time.Microsecond, demand: true, final: true})
	for i := range 100 {
		if b := s.transmit(now.Add(time.Duration(i) * 10 * time.Millisecond)); b != nil {
			t.Fatalf("sent %x to a peer in demand mode", b)
		}
	}
}

func TestAuthenticatedPair(t *testing.T) {
	for _, typ := range []AuthType{KeyedSHA1, MeticulousKeyedSHA1} {
		with := peerWith(hundred, 3)
		with.Auth = Auth{Type: typ, KeyID: 1, Key: "secret"}
		p := newPair(t, with, with)
		p.until(3*time.Second, p.bothUp)
		var last flight
		p.drop = func(from *session, _ packet) bool { return from == p.a }
		for len(p.wire) == 0 {
			p.run(time.Millisecond)
		}
		last = p.wire[0]
		p.drop = func(*session, packet) bool { return false }
		p.run(10 * time.Second) // the sequence number of b wraps
		p.want(Up, Up)
		pkt, raw, err := parse(last.raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := last.to.accept(p.now, pkt, raw, HopsSingle); err == nil {
			t.Errorf("type %d: a packet of ten seconds ago was taken", typ)
		}
	}
	with := peerWith(hundred, 3)
	with.Auth = Auth{Type: KeyedSHA1, KeyID: 1, Key: "secret"}
	p := newPair(t, with, peerWith(hundred, 3))
	p.run(5 * time.Second)
	p.want(Down, Down)
}

// FuzzSession throws any sequence of packets, pauses and changes at a session.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0x40, 3, 1, 10, 10, 0x80, 3, 1, 10, 10, 0xc0, 3, 1, 1, 1})
	f.Add([]byte{0x80, 3, 1, 10, 10, 0x01, 200, 0, 0, 0, 0x02, 5, 0, 0, 0, 0xe0, 1, 0, 0, 0})
	f.Add([]byte{0x40, 1, 9, 0, 255, 0x00, 3, 9, 0, 0, 0xf2, 9, 9, 9, 9, 0x03, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		now := time.Unix(1000, 0)
		s := newSession(peerWith(hundred, 3), 7, 1, now, func() float64 { return 0.5 })
		for ; len(in) >= 5; in = in[5:] {
			before := s.state
			switch v := in[0]; {
			case v < 0x20 && v%4 == 1:
				now = now.Add(time.Duration(in[1]) * 10 * time.Millisecond)
				s.expire(now)
			case v < 0x20 && v%4 == 2:
				s.configure(now, peerWith(time.Duration(max(1, in[1]))*MinInterval, max(1, in[2])))
			case v < 0x20 && v%4 == 3:
				s.adminDown(now)
			default:
				// as from the wire: only what parse lets through
				p := packet{
					state: State(v >> 6), poll: v&flagPoll != 0, final: v&flagFinal != 0, demand: v&flagDemand != 0, mult: in[1],
					my: uint32(in[2]), your: 7, minTx: time.Duration(in[3]) * 5 * time.Millisecond, minRx: time.Duration(in[4]) * 5 * time.Millisecond,
				}
				raw := p.append(nil)
				if p, raw, err := parse(raw); err == nil {
					_ = s.accept(now, p, raw, HopsSingle)
				}
			}
			invariants(t, s, before, now)
		}
	})
}

// invariants are those of RFC 5880, 6.8.
func invariants(t *testing.T, s *session, before State, now time.Time) {
	t.Helper()
	switch {
	case before == AdminDown && s.state != AdminDown:
		t.Fatalf("left admin-down for %v by itself", s.state)
	case before == Down && s.state == Up && s.remoteState != Init:
		t.Fatalf("down to up on %v", s.remoteState)
	case s.state == Up && s.remote == 0, s.state == Init && s.remote == 0:
		t.Fatalf("%v with an unknown peer", s.state)
	case (s.state == Up || s.state == Init) && s.detectAt().IsZero():
		t.Fatalf("%v without a detection time", s.state)
	case s.state != Up && s.desiredTx < slow:
		t.Fatalf("%v in state %v", s.desiredTx, s.state)
	case s.activeTx < s.desiredTx && !s.poll, s.activeRx > s.requiredRx && !s.poll:
		t.Fatal("other timers in force than sent, and no poll")
	}
	for n := 0; ; n++ {
		b := s.transmit(now)
		if b == nil {
			break
		}
		p, _, err := parse(b)
		if err != nil {
			t.Fatalf("sent what it would refuse: %v", err)
		}
		if n > 1 {
			t.Fatalf("more than a final and a packet of its own at once: %+v", p)
		}
	}
	if due := s.due(); !due.IsZero() && due.Before(now) && !due.Equal(s.detectAt()) {
		t.Fatalf("due %v ago, and sent nothing", now.Sub(due))
	}
}
