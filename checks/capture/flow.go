package capture

import (
	"net/netip"
	"time"
)

const (
	maxFlows   = 4096                 // connections followed at once, 128 bytes each
	synWait    = time.Second          // after which a SYN counts as unanswered: the kernel sends it again then
	idle       = 5 * time.Minute      // after which a silent connection is forgotten
	idleReset  = time.Second          // the same after a reset, which segments under way may follow
	idleSYN    = 20 * time.Second     // the same where the SYN has no answer; a fifth SYN would come 16 s after the fourth
	reordering = 3 * time.Millisecond // a gap that is filled within it was never a loss
)

// flow is one connection to the server.
type flow struct {
	last    time.Time // when it was last heard of
	synAt   time.Time // zero where the beginning was not seen
	reqAt   time.Time // of a request that waits for its answer, zero with none
	synSeq  uint32
	counted bool // among the connections
	opened  bool // the SYN was answered
	reset   bool // it is over
	up      stream
	down    stream
}

// stream is one direction of a connection.
type stream struct {
	next  uint32 // the sequence number after the last that was seen
	known bool
	fin   bool
	gap   uint32    // where a gap begins that was not filled yet
	gapAt time.Time // when it was noticed, zero with none
}

// tracker follows the connections to one server. It is a pure state machine.
type tracker struct {
	server netip.AddrPort
	http   bool
	flows  map[netip.AddrPort]*flow // by the client's address
	totals Totals
}

func newTracker(server netip.AddrPort, http bool) *tracker {
	return &tracker{server: server, http: http, flows: map[netip.AddrPort]*flow{}}
}

// reset forgets the connections, not the totals: something was missed, and what
// follows from a packet that was not seen is not known any more.
func (t *tracker) reset() { clear(t.flows) }

// packet takes in one segment of time now.
func (t *tracker) packet(s *segment, now time.Time) {
	t.totals.Packets++
	switch {
	case s.dst == t.server && s.flags&(flagSYN|flagACK) == flagSYN:
		t.open(s, now)
	case s.dst == t.server:
		if f := t.flow(s.src, s, now); f != nil {
			t.fromClient(f, s, now)
		}
	case s.src == t.server:
		if s.flags&(flagSYN|flagRST) == 0 {
			t.totals.Answers++
			if s.window == 0 {
				t.totals.ZeroWindows++
			}
		}
		if f := t.flow(s.dst, s, now); f != nil {
			t.fromServer(f, s, now)
		}
	}
}

// flow finds a connection, or begins to follow it in the middle. What has no
// data may be the end of one that is forgotten already.
func (t *tracker) flow(client netip.AddrPort, s *segment, now time.Time) *flow {
	f := t.flows[client]
	if f == nil {
		if s.length == 0 {
			return nil
		}
		if f = t.room(client); f == nil {
			return nil
		}
		f.counted, f.opened = true, true
	}
	if f.reset {
		return nil
	}
	f.last = now
	return f
}

func (t *tracker) room(client netip.AddrPort) *flow {
	if len(t.flows) >= maxFlows {
		t.totals.Skipped++
		return nil
	}
	f := &flow{}
	t.flows[client] = f
	return f
}

// open takes in a SYN: a new connection, or the same attempt again.
func (t *tracker) open(s *segment, now time.Time) {
	f := t.flows[s.src]
	if f != nil && !f.opened && !f.reset && f.synSeq == s.seq {
		f.last = now
		t.totals.Retransmits++
		t.unanswered(f)
		return
	}
	if f = t.room(s.src); f == nil {
		return
	}
	f.last, f.synAt, f.synSeq = now, now, s.seq
	f.up = stream{next: s.seq + 1, known: true}
}

func (t *tracker) unanswered(f *flow) {
	if !f.counted {
		f.counted = true
		t.totals.Unanswered++
	}
}

func (t *tracker) fromClient(f *flow, s *segment, now time.Time) {
	if s.flags&flagRST != 0 {
		f.reset = true // the client's own decision, whatever its reason
		return
	}
	again := t.advance(&f.up, s, now)
	if t.http && !again && f.reqAt.IsZero() && isRequest(s.data) {
		f.reqAt = now
	}
	t.close(&f.up, f, s, s.src)
}

func (t *tracker) fromServer(f *flow, s *segment, now time.Time) {
	switch {
	case s.flags&flagRST != 0:
		t.broken(f)
		f.reset = true
		return
	case s.flags&flagSYN != 0:
		if !f.opened {
			f.opened = true
			t.totals.Handshake.add(now.Sub(f.synAt))
		}
		f.down = stream{next: s.seq + 1, known: true}
		return
	}
	again := t.advance(&f.down, s, now)
	if s.length > 0 && !f.counted {
		f.counted = true
		t.totals.Good++
	}
	if !again && !f.reqAt.IsZero() {
		t.answer(f, s.data, now)
	}
	t.close(&f.down, f, s, s.dst)
}

// broken takes in a reset by the server.
func (t *tracker) broken(f *flow) {
	switch {
	case f.counted:
		if !f.reqAt.IsZero() {
			t.totals.NoAnswer++
		}
	case f.opened:
		t.totals.Reset++
	default:
		t.totals.Refused++
	}
}

// answer looks whether data begins the answer to the request that waits.
func (t *tracker) answer(f *flow, data []byte, now time.Time) {
	code := statusOf(data)
	class := code / 100
	if code == 0 || class == 1 {
		return
	}
	if class > 5 {
		class = 0
	}
	t.totals.Status[class]++
	t.totals.FirstByte.add(now.Sub(f.reqAt))
	f.reqAt = time.Time{}
}

// advance notes what was sent, and says whether it was sent before.
func (t *tracker) advance(st *stream, s *segment, now time.Time) (again bool) {
	if s.length == 0 {
		return false
	}
	end := s.seq + s.length
	if !st.known {
		st.known, st.next = true, s.seq
	}
	ahead := int32(s.seq - st.next) //nolint:gosec // the distance of sequence numbers is signed (RFC 9293, 3.4)
	if ahead == -1 && s.length == 1 {
		return true // a keepalive probe
	}
	t.totals.Segments++
	switch {
	case ahead > 0:
		st.gap, st.gapAt = st.next, now
	case ahead < 0:
		late := !st.gapAt.IsZero() && int32(s.seq-st.gap) >= 0 && now.Sub(st.gapAt) <= reordering //nolint:gosec // as above
		if !late {
			t.totals.Retransmits++
			again = true
		}
	}
	if int32(end-st.next) > 0 { //nolint:gosec // as above
		st.next = end
	}
	return again
}

// close takes in a FIN. The connection is done once both sides have sent one.
func (t *tracker) close(st *stream, f *flow, s *segment, client netip.AddrPort) {
	if s.flags&flagFIN == 0 {
		return
	}
	st.fin = true
	if st == &f.down {
		if !f.counted {
			f.counted = true
			t.totals.Good++
		}
		if !f.reqAt.IsZero() {
			f.reqAt = time.Time{}
			t.totals.NoAnswer++
		}
	}
	if f.up.fin && f.down.fin {
		delete(t.flows, client)
	}
}

// expire looks for SYNs that got no answer, and for connections that fell
// silent.
func (t *tracker) expire(now time.Time) {
	for client, f := range t.flows {
		limit := idle
		switch {
		case f.reset:
			limit = idleReset
		case !f.opened:
			limit = idleSYN
			if now.Sub(f.synAt) >= synWait {
				t.unanswered(f)
			}
		}
		if now.Sub(f.last) >= limit {
			delete(t.flows, client)
		}
	}
}
