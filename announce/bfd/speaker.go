package bfd

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	openAgain  = time.Second           // after a socket could not be opened
	aliveAgain = 10 * time.Millisecond // between two questions while Alive says no
	farewells  = 3                     // AdminDown packets at the most
	idle       = time.Hour             // without sessions
)

// Hooks connect the sessions with the rest. They are called without locks held
// and must not wait.
type Hooks struct {
	// Alive says whether what the sessions vouch for is alive. While it is not,
	// nothing is sent.
	Alive func() bool
	// Down is called when a session that was up is lost: not at a planned end.
	Down func(peer netip.Addr, why string)
}

// Speaker has the sessions with all routers.
type Speaker struct {
	log     *slog.Logger
	hooks   Hooks
	ports   ports
	changes chan struct{}
	wake    chan struct{}
	gone    chan struct{} // sessions have left
	quit    chan struct{}
	tasks   sync.WaitGroup

	mu        sync.Mutex
	entries   []*entry // sorted by address; leaving ones too
	listeners map[listenKey]*listener
	listenErr map[listenKey]error
	openAt    time.Time   // when to try again what could not be opened
	lost      []loss      // to be told once mu is free
	unused    []*listener // to be closed once mu is free
}

type loss struct {
	peer netip.Addr
	why  string
}

// Start begins sessions with peers. A port that another BFD daemon holds is no
// error: it is in the status, and tried again.
func Start(peers []Peer, hooks Hooks, log *slog.Logger) (*Speaker, error) {
	return start(peers, hooks, log, wellKnown())
}

func start(peers []Peer, hooks Hooks, log *slog.Logger, at ports) (*Speaker, error) {
	s := &Speaker{
		log: log, hooks: hooks, ports: at,
		changes: make(chan struct{}, 1), wake: make(chan struct{}, 1), gone: make(chan struct{}, 1), quit: make(chan struct{}),
		listeners: map[listenKey]*listener{}, listenErr: map[listenKey]error{},
	}
	if err := s.Configure(peers); err != nil {
		return nil, err
	}
	s.locked(s.reopen)
	s.tasks.Go(s.run)
	return s, nil
}

// Changes receives a value, never more than one at a time, when Sessions may
// return something new.
func (s *Speaker) Changes() <-chan struct{} { return s.changes }

// Configure makes peers the set of sessions. One that did not change is not
// touched; other timers are negotiated within the session; one that is gone, or
// changed otherwise, ends by AdminDown. An error leaves all as it was.
func (s *Speaker) Configure(peers []Peer) error {
	want := map[netip.Addr]Peer{}
	var errs []error
	for _, p := range peers {
		errs = append(errs, p.validate())
		if _, twice := want[p.Address]; twice {
			errs = append(errs, fmt.Errorf("bfd: peer %s: address %s is given twice", p.Name, p.Address))
		}
		want[p.Address] = p
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.locked(func(now time.Time) {
		for _, e := range s.entries {
			p, stays := want[e.peer.Address]
			switch {
			case e.leaving:
			case stays && e.peer.sameSession(p):
				e.configure(now, p)
				delete(want, p.Address)
			default:
				e.leave(now)
			}
		}
		for _, p := range want {
			s.entries = append(s.entries, s.newEntry(p, now))
		}
		slices.SortStableFunc(s.entries, func(a, b *entry) int { return a.peer.Address.Compare(b.peer.Address) })
		s.openAt = now
		signal(s.changes)
	})
	signal(s.wake)
	return nil
}

// run sends what is due and finds out who is silent.
func (s *Speaker) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-s.wake:
		case <-timer.C:
		}
		next := time.Time{}
		s.locked(func(now time.Time) { next = s.turn(now) })
		timer.Reset(time.Until(next))
	}
}

// locked runs f with mu held. Afterwards it tells what f has found lost, and
// closes the listeners that f has no more use for: Close waits for the goroutine
// that reads, and that one may be waiting for mu.
func (s *Speaker) locked(f func(now time.Time)) {
	s.mu.Lock()
	f(time.Now())
	lost, unused := s.lost, s.unused
	s.lost, s.unused = nil, nil
	s.mu.Unlock()
	for _, l := range lost {
		s.hooks.Down(l.peer, l.why)
	}
	for _, l := range unused {
		_ = l.conn.Close() // nothing was written through it
	}
}

// turn does what is due, and returns when the next thing is.
func (s *Speaker) turn(now time.Time) time.Time {
	s.reopen(now)
	if slices.ContainsFunc(s.entries, func(e *entry) bool { return e.expired(now) }) {
		s.drain(now) // who has been heard is not silent
	}
	alive := s.hooks.Alive()
	next := now.Add(idle)
	for _, e := range s.entries {
		s.step(e, now, func() { e.expire(now) })
		if alive {
			s.pump(e, now)
		}
		if due := e.due(); !due.IsZero() && due.Before(next) {
			next = due
		}
	}
	s.forget(now)
	if !s.openAt.IsZero() && s.openAt.Before(next) {
		next = s.openAt
	}
	if !alive && next.Before(now.Add(aliveAgain)) {
		next = now.Add(aliveAgain)
	}
	return next
}

// pump sends all that is due of e.
func (s *Speaker) pump(e *entry, now time.Time) {
	e.bidFarewell(now)
	for b := e.transmit(now); b != nil; b = e.transmit(now) {
		if e.sender == nil {
			continue // in the status already, and opened again by and by
		}
		to := netip.AddrPortFrom(e.peer.Address, s.ports.dial[e.hops])
		e.sendErr = e.sender.send(b, to)
	}
}

// step runs f, which may change the state of e, and notes if it did.
func (s *Speaker) step(e *entry, now time.Time, f func()) {
	was := e.state
	f()
	if e.state == was {
		return
	}
	if e.ending && was == Up && !e.leaving {
		e.leave(now)
	}
	e.since = now
	signal(s.changes)
	level := slog.LevelInfo
	if was == Up && !e.planned() {
		level = slog.LevelWarn
		e.flaps++
		s.lost = append(s.lost, loss{peer: e.peer.Address, why: e.why()})
	}
	if e.state == Up || was == Up {
		s.log.Log(context.Background(), level, "bfd session", "neighbour", e.peer.Address.String(), "name", e.peer.Name,
			"state", e.state.String(), "reason", e.why())
	}
}

// drain reads all that has come in.
func (s *Speaker) drain(now time.Time) {
	for _, l := range s.listeners {
		for d, ok := l.next(); ok; d, ok = l.next() {
			s.deliver(now, d)
		}
	}
}

// deliver gives a packet to its session.
func (s *Speaker) deliver(now time.Time, d datagram) {
	p, raw, err := parse(d.body)
	e := s.find(p, d)
	switch {
	case err != nil || e == nil: // a stranger's, or noise
		return
	case d.ttl < e.peer.leastTTL(d.hops):
		err = fmt.Errorf("TTL %d below %d: not from where the peer is", d.ttl, e.peer.leastTTL(d.hops))
	default:
		s.step(e, now, func() { err = e.accept(now, p, raw, d.hops) })
	}
	e.rejectAs = err
	if err != nil {
		e.rejected++
		s.log.Debug("bfd packet refused", "from", d.from.String(), "error", err)
		return
	}
	if s.hooks.Alive() {
		s.pump(e, now)
	}
}

// find demultiplexes: by the discriminator rhid has given, or else by address.
func (s *Speaker) find(p packet, d datagram) *entry {
	for _, e := range s.entries {
		mine := p.your == e.local || p.your == 0 && !e.leaving
		if mine && e.peer.Address == d.from && e.peer.takes(d.hops) {
			return e
		}
	}
	return nil
}

// reopen opens the sockets that the sessions need and do not have.
func (s *Speaker) reopen(now time.Time) {
	if s.openAt.IsZero() || now.Before(s.openAt) {
		return
	}
	s.openAt = time.Time{}
	need := map[listenKey]bool{}
	for _, e := range s.entries {
		e.open()
		for _, h := range []Hops{HopsSingle, HopsMulti} {
			if e.peer.takes(h) {
				need[listenKey{e.peer.Address.Is6(), h}] = true
			}
		}
		if e.openErr != nil {
			s.openAt = now.Add(openAgain)
		}
	}
	for k := range need {
		if s.listeners[k] == nil {
			s.listen(k, now)
		}
	}
	for k, l := range s.listeners {
		if !need[k] {
			s.unused = append(s.unused, l)
			delete(s.listeners, k)
		}
	}
}

func (s *Speaker) listen(k listenKey, now time.Time) {
	l, err := listen(k, s.ports.listen[k.hops])
	if err != nil {
		if s.listenErr[k] == nil {
			s.log.Error("cannot listen for bfd", "network", k.network(), "hops", k.hops.String(), "error", err)
		}
		s.listenErr[k], s.openAt = err, now.Add(openAgain)
		return
	}
	delete(s.listenErr, k)
	s.listeners[k] = l
	s.tasks.Go(func() {
		_ = l.serve(func() { // the error is that the socket was closed
			s.locked(func(now time.Time) {
				for d, ok := l.next(); ok; d, ok = l.next() {
					s.deliver(now, d)
				}
			})
			signal(s.wake)
		})
	})
}

// forget drops the sessions whose peers know of the end.
func (s *Speaker) forget(now time.Time) {
	n := len(s.entries)
	s.entries = slices.DeleteFunc(s.entries, func(e *entry) bool {
		if !e.left(now) {
			return false
		}
		e.close()
		return true
	})
	if len(s.entries) != n {
		s.openAt = now // a listener may not be needed any more
		signal(s.gone)
	}
}

// newEntry begins a session with a discriminator that no other has.
func (s *Speaker) newEntry(p Peer, now time.Time) *entry {
	taken := func(d uint32) bool {
		return d == 0 || slices.ContainsFunc(s.entries, func(e *entry) bool { return e.local == d })
	}
	local := unguessable()
	for taken(local) {
		local = unguessable()
	}
	return &entry{session: newSession(p, local, unguessable(), now, mrand.Float64), since: now}
}

func unguessable() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:])
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
