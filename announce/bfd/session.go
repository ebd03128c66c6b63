package bfd

import (
	"errors"
	"fmt"
	"time"
)

// slow is the least interval of a session that is not up (RFC 5880, 6.8.3).
const slow = time.Second

var errStray = errors.New("not of this session")

// session is the state machine of RFC 5880, 6.8. It has no clock and no socket:
// whoever owns it passes the time in, and sends what transmit returns.
type session struct {
	peer   Peer
	hops   Hops           // in use: single or multi
	local  uint32         // bfd.LocalDiscr
	random func() float64 // in [0,1), for the jitter

	state       State
	diag        Diag
	remote      uint32 // bfd.RemoteDiscr; 0 is unknown
	remoteState State
	remoteDiag  Diag

	// Timers, each as it is sent and as it is in force. They differ while a
	// poll sequence has not ended (6.8.3).
	desiredTx, activeTx  time.Duration
	requiredRx, activeRx time.Duration
	remoteTx, remoteRx   time.Duration
	remoteMult           uint8
	remoteDemand         bool
	poll                 bool
	pollAgain            bool // timers changed while polling: its end says nothing of them
	final                bool // to be answered

	sent   packet // last one, without poll and final
	lastTx time.Time
	nextTx time.Time
	paced  time.Duration // the interval that nextTx was worked out with
	heard  time.Time     // last valid packet; zero: none within the detection time

	seq        uint32 // bfd.XmitAuthSeq
	rcvSeq     uint32 // bfd.RcvAuthSeq, where rcvSeqAt is not zero
	rcvSeqAt   time.Time
	rcvSeqLife time.Duration
}

// newSession begins in Down, and sends at once.
func newSession(p Peer, local, seq uint32, now time.Time, random func() float64) *session {
	s := &session{
		peer: p, hops: p.begin(), local: local, random: random, seq: seq,
		state: Down, remoteState: Down, remoteRx: time.Microsecond,
		requiredRx: p.Interval, activeRx: p.Interval, nextTx: now,
	}
	s.desiredTx = s.wantedTx()
	s.activeTx = s.desiredTx
	s.paced = s.interval()
	return s
}

// wantedTx is bfd.DesiredMinTxInterval as it should be.
func (s *session) wantedTx() time.Duration {
	if s.state == Up {
		return s.peer.Interval
	}
	return max(s.peer.Interval, slow)
}

// accept decides whether a packet that was demultiplexed to s is one of it, and
// takes it in. raw is the packet with its authentication section.
func (s *session) accept(now time.Time, p packet, raw []byte, hops Hops) error {
	if s.state == Up && hops != s.hops {
		return fmt.Errorf("%w: it runs on the other port", errStray)
	}
	if p.auth != (s.peer.Auth.Type != AuthNone) {
		return fmt.Errorf("%w: one side has it, the other not", errAuth)
	}
	if p.auth {
		if err := s.authenticate(now, raw); err != nil {
			return err
		}
	}
	s.hops = hops
	s.receive(now, p)
	return nil
}

// authenticate checks digest and sequence number.
func (s *session) authenticate(now time.Time, raw []byte) error {
	seq, err := s.peer.Auth.verify(raw)
	if err != nil {
		return err
	}
	known := !s.rcvSeqAt.IsZero() && now.Sub(s.rcvSeqAt) < s.rcvSeqLife
	if known && !s.peer.Auth.inWindow(s.rcvSeq, seq, s.peer.Multiplier) {
		return fmt.Errorf("%w: sequence number %d after %d: a replay", errAuth, seq, s.rcvSeq)
	}
	s.rcvSeq, s.rcvSeqAt = seq, now
	return nil
}

// receive takes in a valid packet (6.8.6).
func (s *session) receive(now time.Time, p packet) {
	s.heard = now
	s.remote, s.remoteState, s.remoteDiag = p.my, p.state, p.diag
	s.remoteTx, s.remoteRx, s.remoteMult, s.remoteDemand = p.minTx, p.minRx, p.mult, p.demand
	s.rcvSeqLife = 2 * s.detection()
	if p.final && s.poll {
		s.endPoll()
	}
	switch {
	case s.state == AdminDown:
	case p.state == AdminDown:
		if s.state != Down {
			s.enter(Down, DiagNeighbour)
		}
	case s.state == Down && p.state == Down:
		s.enter(Init, s.diag)
	case s.state == Down && p.state == Init, s.state == Init && p.state >= Init:
		s.enter(Up, DiagNone)
	case s.state == Up && p.state == Down:
		s.enter(Down, DiagNeighbour)
	}
	s.final = s.final || p.poll
	s.pace(now)
}

// expire ends a detection time that is over, and says whether one was (6.8.4).
func (s *session) expire(now time.Time) bool {
	if end := s.detectAt(); end.IsZero() || now.Before(end) {
		return false
	}
	s.heard = time.Time{}
	s.remote, s.remoteState, s.remoteRx, s.remoteDemand = 0, Down, time.Microsecond, false
	if s.state == Init || s.state == Up {
		s.enter(Down, DiagExpired)
	}
	s.pace(now)
	return true
}

// enter changes the state, and with it the interval to send at.
func (s *session) enter(to State, diag Diag) {
	s.state, s.diag = to, diag
	s.setTimers(s.wantedTx(), s.requiredRx)
}

// setTimers changes what is sent of the timers. A longer interval to send at
// and a shorter one to hear at come into force when the peer has confirmed them.
func (s *session) setTimers(tx, rx time.Duration) {
	if tx == s.desiredTx && rx == s.requiredRx {
		return
	}
	s.desiredTx, s.requiredRx = tx, rx
	if s.state != Up || tx < s.activeTx {
		s.activeTx = tx
	}
	if s.state != Up || rx > s.activeRx {
		s.activeRx = rx
	}
	s.pollAgain = s.poll
	s.poll = true
}

// endPoll is the peer's answer to a poll sequence.
func (s *session) endPoll() {
	if s.pollAgain {
		s.pollAgain = false
		return
	}
	s.poll = false
	s.activeTx, s.activeRx = s.desiredTx, s.requiredRx
}

// configure changes name, timers and multiplier of a running session.
func (s *session) configure(now time.Time, p Peer) {
	s.peer = p
	s.setTimers(s.wantedTx(), p.Interval)
	s.pace(now)
}

// adminDown ends the session on purpose (6.8.16).
func (s *session) adminDown(now time.Time) {
	s.enter(AdminDown, DiagAdmin)
	s.pace(now)
}

// interval is the time between two packets; 0 sends none (6.8.7).
func (s *session) interval() time.Duration {
	quiet := s.remoteDemand && s.state == Up && s.remoteState == Up && !s.poll
	if s.remoteRx == 0 || quiet {
		return 0
	}
	return max(s.activeTx, s.remoteRx)
}

// pace works out when to send next, at once when the peer should know something
// new.
func (s *session) pace(now time.Time) {
	i := s.interval()
	switch {
	case i == 0:
		s.nextTx = time.Time{}
	case s.lastTx.IsZero() || s.build() != s.sent:
		s.nextTx = now
	case i != s.paced || s.nextTx.IsZero():
		s.nextTx = s.lastTx.Add(s.jittered(i))
	}
	s.paced = i
}

// jittered shortens an interval by up to a quarter, and by a tenth at least
// where one lost packet is one too many (6.8.7).
func (s *session) jittered(i time.Duration) time.Duration {
	from, width := 0.75, 0.25
	if s.peer.Multiplier == 1 {
		width = 0.15
	}
	return time.Duration(float64(i) * (from + width*s.random()))
}

// detection is the detection time; 0 before the peer was heard.
func (s *session) detection() time.Duration {
	return time.Duration(s.remoteMult) * max(s.activeRx, s.remoteTx)
}

// detectAt is when the peer counts as silent; zero when it does already.
func (s *session) detectAt() time.Time {
	if s.heard.IsZero() {
		return time.Time{}
	}
	return s.heard.Add(s.detection())
}

// transmit returns the packet that is due, with whatever authentication it
// needs, or nil.
func (s *session) transmit(now time.Time) []byte {
	p := s.build()
	switch {
	case s.final:
		p.final, s.final = true, false // whatever the timer says, and without moving it
	case !s.nextTx.IsZero() && !now.Before(s.nextTx):
		s.lastTx, s.nextTx = now, now.Add(s.jittered(s.paced))
		s.sent = p
		p.poll = s.poll
	default:
		return nil
	}
	b := p.append(make([]byte, 0, headerLen+authLen))
	if a := s.peer.Auth; a.Type != AuthNone {
		b = a.sign(b, s.seq)
		s.seq++
	}
	return b
}

// build is the packet to send, without poll and final.
func (s *session) build() packet {
	return packet{
		state: s.state, diag: s.diag, mult: s.peer.Multiplier, my: s.local, your: s.remote,
		minTx: s.desiredTx, minRx: s.requiredRx,
	}
}

// due is when something is to be done next; zero is never.
func (s *session) due() time.Time {
	next := s.nextTx
	if end := s.detectAt(); next.IsZero() || !end.IsZero() && end.Before(next) {
		next = end
	}
	return next
}
