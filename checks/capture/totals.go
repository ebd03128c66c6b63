package capture

import "time"

// Totals only grow.
type Totals struct {
	// Connections whose beginning was seen, each counted once.
	Good       uint64 // the server sent data, or ended it in order
	Unanswered uint64 // no answer to the SYN within a second
	Refused    uint64 // the SYN was answered with a reset
	Reset      uint64 // reset by the server before it had sent data
	Handshake  Delay  // from SYN to its answer

	Segments    uint64 // with data, both ways
	Retransmits uint64 // of them and of SYNs, sent again
	Answers     uint64 // segments of the server besides the handshake
	ZeroWindows uint64 // of them those that told the client to stop sending

	// HTTP/1, where it is looked for.
	Status    [6]uint64 // final answers by class; [0] is any other
	NoAnswer  uint64    // requests that the server ended the connection on in the place of an answer
	FirstByte Delay     // from the request's first segment to the answer's

	Packets uint64 // looked at
	Missed  uint64 // by the kernel's count, for lack of time or room
	Skipped uint64 // connections left out because too many were followed already
}

// Judged returns how many connections were counted.
func (t Totals) Judged() uint64 { return t.Good + t.Unanswered + t.Refused + t.Reset }

// Since returns what was added after o.
func (t Totals) Since(o Totals) Totals {
	d := Totals{
		Good: t.Good - o.Good, Unanswered: t.Unanswered - o.Unanswered, Refused: t.Refused - o.Refused, Reset: t.Reset - o.Reset,
		Handshake: t.Handshake.since(o.Handshake),
		Segments:  t.Segments - o.Segments, Retransmits: t.Retransmits - o.Retransmits,
		Answers: t.Answers - o.Answers, ZeroWindows: t.ZeroWindows - o.ZeroWindows,
		NoAnswer: t.NoAnswer - o.NoAnswer, FirstByte: t.FirstByte.since(o.FirstByte),
		Packets: t.Packets - o.Packets, Missed: t.Missed - o.Missed, Skipped: t.Skipped - o.Skipped,
	}
	for class := range d.Status {
		d.Status[class] = t.Status[class] - o.Status[class]
	}
	return d
}

// Delay is a number of delays and their sum.
type Delay struct {
	N   uint64
	Sum time.Duration
}

func (d *Delay) add(t time.Duration) {
	d.N++
	d.Sum += t
}

// Mean returns the mean delay, 0 of none.
func (d Delay) Mean() time.Duration {
	if d.N == 0 {
		return 0
	}
	return d.Sum / time.Duration(d.N) //nolint:gosec // far below
}

func (d Delay) since(o Delay) Delay { return Delay{d.N - o.N, d.Sum - o.Sum} }
