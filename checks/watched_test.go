package checks

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rhid/checks/capture"
	"rhid/checks/sockdiag"
)

// counter is a source that counts how often it was read.
type counter struct {
	n      uint64
	closed chan struct{}
}

func (c *counter) Close() error {
	close(c.closed)
	return nil
}

// watching is a watchProbe of counters, which it appends to opened.
func watching(t *testing.T, opened *[]*counter, broken *error) *watchProbe[*counter, uint64] {
	t.Helper()
	a, err := newAim(Target{Host: "127.0.0.1", Port: 80, Limit: probeLimit}, TargetPort)
	if err != nil {
		t.Fatal(err)
	}
	return &watchProbe[*counter, uint64]{
		aim:  a,
		keep: &keeper[*counter, uint64]{},
		open: func(netip.AddrPort) (*counter, error) {
			c := &counter{closed: make(chan struct{})}
			*opened = append(*opened, c)
			return c, nil
		},
		read: func(c *counter) (uint64, error) {
			c.n += 10
			return c.n, *broken
		},
		count: func(was, is uint64) Counts { return Counts{OK: is - was} },
	}
}

// A watch goes on over a reload, begins anew after an error, and ends when it
// is let go, for good.
func TestWatchProbe(t *testing.T) {
	var opened []*counter
	var broken error
	p := watching(t, &opened, &broken)
	probe := func(p Prober) Result {
		res := p.Probe(context.Background())
		res.Start, res.Took = res.Start.Truncate(0), 0
		return res
	}
	counts := func(p Prober) Counts {
		t.Helper()
		res := probe(p)
		if !res.OK || res.Counts == nil {
			t.Fatalf("%+v", res)
		}
		return *res.Counts
	}
	if d := cmp.Diff(Counts{Detail: "has begun to watch"}, counts(p)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Counts{OK: 10}, counts(p)); d != "" {
		t.Error(d)
	}
	next := watching(t, &opened, &broken)
	next.Inherit(p)
	if d := cmp.Diff(Counts{OK: 10}, counts(next)); d != "" || len(opened) != 1 {
		t.Errorf("after a reload: %s, opened %d times", d, len(opened))
	}
	broken = errors.New("the kernel is out of sorts")
	if res := probe(next); res.OK || res.Cause != CauseInternal || res.Detail != "the kernel is out of sorts" {
		t.Errorf("%+v", res)
	}
	<-opened[0].closed
	broken = nil
	if d := cmp.Diff(Counts{Detail: "has begun to watch"}, counts(next)); d != "" {
		t.Error(d)
	}
	next.Release()
	<-opened[1].closed
	if res := probe(next); res.OK || len(opened) != 2 {
		t.Errorf("after it was let go: %+v, opened %d times", res, len(opened))
	}
}

func TestDiagCounts(t *testing.T) {
	r := diagReading{
		totals: sockdiag.Totals{Good: 10, Unanswered: 3, Refused: 2, Reset: 1, Segments: 200, Retransmits: 30},
		live:   sockdiag.Live{Open: 4, RTT: 1500000},
	}
	was := sockdiag.Totals{Good: 4, Unanswered: 1, Segments: 100, Retransmits: 10}
	const detail = "of 11 connections 2 got no answer to their SYN, 2 were refused, 1 were reset before an answer; 100 segments sent, 20 sent again; 4 open, round trip time 1.5ms"
	if d := cmp.Diff(Counts{OK: 6, Fail: 5, Latency: 1500000, Detail: detail}, r.counts(was, false)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Counts{OK: 80, Fail: 20, Latency: 1500000, Detail: detail}, r.counts(was, true)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Counts{Latency: 1500000}, r.counts(r.totals, false)); d != "" {
		t.Errorf("without traffic: %s", d)
	}
}

func TestCaptureCounts(t *testing.T) {
	r := captureReading{sample: 8, totals: capture.Totals{
		Good: 10, Unanswered: 1, Refused: 2, Reset: 3, Handshake: capture.Delay{N: 4, Sum: 400000},
		Segments: 100, Retransmits: 7, Answers: 50, ZeroWindows: 5,
		Status: [6]uint64{0, 0, 20, 3, 4, 6}, NoAnswer: 2, FirstByte: capture.Delay{N: 10, Sum: 50000000}, Packets: 500,
	}}
	for what, want := range map[string]Counts{
		countConnections: {OK: 10, Fail: 6, Latency: 100000, Detail: "of 16 connections 1 got no answer to their SYN, 2 were refused, 3 were reset before an answer; 100 segments, 7 sent again; 5 of 50 segments of the server closed the window; one connection in 8 is looked at"},
		countRequests:    {OK: 27, Fail: 14, Latency: 5000000, Detail: "of 16 connections 1 got no answer to their SYN, 2 were refused, 3 were reset before an answer; HTTP status 2xx 20, 3xx 3, 4xx 4, 5xx 6, no answer 2, first byte after 5ms; 100 segments, 7 sent again; 5 of 50 segments of the server closed the window; one connection in 8 is looked at"},
		countSegments:    {OK: 93, Fail: 7, Detail: "of 16 connections 1 got no answer to their SYN, 2 were refused, 3 were reset before an answer; 100 segments, 7 sent again; 5 of 50 segments of the server closed the window; one connection in 8 is looked at"},
		countWindows:     {OK: 45, Fail: 5, Detail: "of 16 connections 1 got no answer to their SYN, 2 were refused, 3 were reset before an answer; 100 segments, 7 sent again; 5 of 50 segments of the server closed the window; one connection in 8 is looked at"},
	} {
		if d := cmp.Diff(want, r.counts(capture.Totals{}, what)); d != "" {
			t.Errorf("%s: %s", what, d)
		}
		if d := cmp.Diff(Counts{}, r.counts(r.totals, what)); d != "" {
			t.Errorf("%s, without traffic: %s", what, d)
		}
	}
}
