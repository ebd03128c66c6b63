// Package sockdiag watches what becomes of this host's TCP connections to a
// server, with the kernel's own knowledge of them (sock_diag(7)), and without
// touching one packet: connections that get no answer, are refused or are
// reset, segments that had to be sent again, and the round trip time.
//
// The kernel is asked in two ways. A dump lists the live connections to the
// server. A multicast group reports each connection as it ends, with the last
// state of its counters; so short ones that live between two dumps count as
// well. A filter in the kernel keeps all other connections out of both.
//
// It is a sample. The kernel forgets the counters of a connection that its own
// program breaks off (SO_LINGER of 0, as HAProxy does to spare ports) and of one
// whose failure connect(2), called once more, has told; these count only when a
// dump finds them alive. What is counted is right; not all is counted.
//
// The host's end of a connection is what is looked at. On the host where the
// server itself runs the server's own sockets are not counted.
package sockdiag

import (
	"errors"
	"net/netip"
	"slices"
	"time"
)

// maxKnown bounds how many live connections are remembered (56 bytes each).
// Further ones are left out until others end.
const maxKnown = 32 << 10

// forgetAfter is how long a connection is remembered that is in no dump any
// more and was not reported as ended: its application has not closed it yet.
const forgetAfter = 10 * time.Minute

// synPatience is how long the answer to a SYN may take: many times a round trip
// within or between data centres, and less than any sensible connect timeout.
const synPatience = 250 * time.Millisecond

// Totals only grow. Each connection is counted once, in one of the first four.
type Totals struct {
	Good       uint64 // answered: something was received, or it ended in order
	Unanswered uint64 // no answer to the SYN within a quarter of a second, or before it was given up
	Refused    uint64 // the SYN was answered with a reset
	Reset      uint64 // connected, and broken off before anything was received

	Segments    uint64 // with data, sent to the server
	Retransmits uint64 // of them and of SYNs, sent again
	Lost        uint64 // times the kernel had more to report than was read
}

// Judged returns how many connections were counted.
func (t Totals) Judged() uint64 { return t.Good + t.Unanswered + t.Refused + t.Reset }

// Since returns what was added after o.
func (t Totals) Since(o Totals) Totals {
	return Totals{
		Good: t.Good - o.Good, Unanswered: t.Unanswered - o.Unanswered, Refused: t.Refused - o.Refused, Reset: t.Reset - o.Reset,
		Segments: t.Segments - o.Segments, Retransmits: t.Retransmits - o.Retransmits, Lost: t.Lost - o.Lost,
	}
}

// Live is the state of the connections at one time.
type Live struct {
	Open       int           // connected
	Connecting int           // waiting for the answer to their SYN
	RTT        time.Duration // median of their smoothed round trip times; 0 with none
}

// Watcher watches the connections to one server. It is not for several
// goroutines at once.
type Watcher struct {
	target netip.AddrPort
	live   *socket
	ended  *socket
	known  map[uint64]known
	totals Totals
	begun  bool
	rtts   []time.Duration
}

// known is a connection that was seen alive.
type known struct {
	counted     bool // in Good, Unanswered, Refused or Reset
	retransmits uint32
	dataOut     uint32
	at          time.Time // of the last dump that had it
}

// Open begins to watch, in the network namespace of the calling thread, and
// takes note of the connections that are there: those it does not judge. It
// needs no capability; with CAP_NET_ADMIN it copes with more connections that
// end between two reads.
func Open(target netip.AddrPort, now time.Time) (*Watcher, error) {
	target = netip.AddrPortFrom(target.Addr().Unmap().WithZone(""), target.Port())
	group := destroyTCP6
	if target.Addr().Is4() {
		group = destroyTCP4
	}
	live, err := openSocket()
	if err != nil {
		return nil, err
	}
	ended, err := openSocket(group)
	if err != nil {
		return nil, errors.Join(err, live.close())
	}
	w := &Watcher{target: target, live: live, ended: ended, known: map[uint64]known{}}
	if err := ended.limitTo(target); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if _, _, err := w.Read(now); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.begun, w.totals = true, Totals{}
	return w, nil
}

// Close ends the watch.
func (w *Watcher) Close() error { return errors.Join(w.live.close(), w.ended.close()) }

// Read returns what happened since Open.
func (w *Watcher) Read(now time.Time) (Totals, Live, error) {
	lost, err := w.ended.drain(w.end)
	if lost {
		w.totals.Lost++
	}
	if err != nil {
		return w.totals, Live{}, err
	}
	var l Live
	w.rtts = w.rtts[:0]
	err = w.live.dump(w.target, func(s Socket) {
		if s.State == stateSynSent {
			l.Connecting++
		} else {
			l.Open++
			w.rtts = append(w.rtts, s.RTT)
		}
		w.see(s, now)
	})
	if err != nil {
		return w.totals, l, err
	}
	w.sweep(now)
	if n := len(w.rtts); n > 0 {
		slices.Sort(w.rtts)
		l.RTT = w.rtts[n/2]
	}
	return w.totals, l, nil
}

// see takes in a live connection.
func (w *Watcher) see(s Socket, now time.Time) {
	k, ok := w.known[s.Cookie]
	switch {
	case !ok && len(w.known) >= maxKnown:
		return
	case !ok && !w.begun && s.State != stateSynSent:
		k = known{counted: true, retransmits: s.Retransmits, dataOut: s.DataOut} // of before our time
	}
	k.at = now
	w.progress(&k, &s)
	if !k.counted {
		switch {
		case s.State == stateSynSent:
			if s.Timeouts > 0 || s.Waits >= synPatience {
				w.totals.Unanswered++
				k.counted = true
			}
		case s.Received > 0:
			w.totals.Good++
			k.counted = true
		}
	}
	w.known[s.Cookie] = k
}

// progress adds what was sent since the connection was last looked at.
func (w *Watcher) progress(k *known, s *Socket) {
	if s.DataOut >= k.dataOut {
		w.totals.Segments += uint64(s.DataOut - k.dataOut)
	}
	if s.Retransmits >= k.retransmits {
		w.totals.Retransmits += uint64(s.Retransmits - k.retransmits)
	}
	k.dataOut, k.retransmits = s.DataOut, s.Retransmits
}

// end takes in a connection that ended.
func (w *Watcher) end(s Socket) {
	k := w.known[s.Cookie]
	delete(w.known, s.Cookie)
	w.progress(&k, &s)
	if k.counted {
		return
	}
	switch outcomeOf(&s) {
	case outcomeGood:
		w.totals.Good++
	case outcomeUnanswered:
		w.totals.Unanswered++
	case outcomeRefused:
		w.totals.Refused++
	case outcomeReset:
		w.totals.Reset++
	case outcomeNone:
	}
}

// sweep forgets connections that were in no dump for long.
func (w *Watcher) sweep(now time.Time) {
	for c, k := range w.known {
		if now.Sub(k.at) > forgetAfter {
			delete(w.known, c)
		}
	}
}

// outcome is what a connection turned out to be.
type outcome uint8

const (
	outcomeNone outcome = iota // it says nothing of the server
	outcomeGood
	outcomeUnanswered
	outcomeRefused
	outcomeReset
)

// outcomeOf judges a connection by its last counters. The acknowledged bytes
// count the SYN as one and the FIN as one; so who is one short of what was
// sent was broken off. A connection on which this host sent nothing and
// received one segment, the SYN's answer, was broken off by this host: that is
// how HAProxy ends its own checks.
func outcomeOf(s *Socket) outcome {
	switch {
	case s.Acked == 0 && s.SegsIn == 0:
		return outcomeUnanswered
	case s.Acked == 0:
		return outcomeRefused
	case s.Received > 0, s.Acked >= s.Sent+2:
		return outcomeGood
	case s.Sent == 0 && s.SegsIn <= 1:
		return outcomeNone
	default:
		return outcomeReset
	}
}
