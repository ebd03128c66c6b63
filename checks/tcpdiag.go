package checks

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"rhid/checks/sockdiag"
)

// TCPDiagOptions are the settings of a tcp-diag check.
type TCPDiagOptions struct {
	Count string `yaml:"count" default:"connections" enum:"connections,segments" doc:"what is counted as good or bad: connections, bad ones are unanswered, refused or reset before an answer; or segments sent to the server, bad ones were sent again"`
}

// NeedsTarget implements Options.
func (*TCPDiagOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *TCPDiagOptions) Problems() []Problem {
	switch o.Count {
	case "", "connections", "segments":
		return nil
	default:
		return []Problem{{"count", fmt.Sprintf("%q is neither connections nor segments", o.Count)}}
	}
}

// diagReading is what the kernel knows at one time.
type diagReading struct {
	totals sockdiag.Totals
	live   sockdiag.Live
}

// Prober implements Options. What it returns is a Holder.
func (o *TCPDiagOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("tcp-diag check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("tcp-diag check: %w", err)
	}
	segments := o.Count == "segments"
	return &watchProbe[*sockdiag.Watcher, diagReading]{
		aim:  a,
		keep: &keeper[*sockdiag.Watcher, diagReading]{},
		open: func(to netip.AddrPort) (*sockdiag.Watcher, error) { return sockdiag.Open(to, time.Now()) },
		read: func(w *sockdiag.Watcher) (r diagReading, err error) {
			r.totals, r.live, err = w.Read(time.Now())
			return r, err
		},
		count: func(was, is diagReading) Counts { return is.counts(was.totals, segments) },
	}, nil
}

// counts compares a reading with the totals of the one before. The round trip
// time of the live connections stands for the latency.
func (r diagReading) counts(was sockdiag.Totals, segments bool) Counts {
	d := r.totals.Since(was)
	bad := d.Unanswered + d.Refused + d.Reset
	c := Counts{OK: d.Good, Fail: bad, Latency: r.live.RTT}
	if segments {
		c.Fail = min(d.Retransmits, d.Segments)
		c.OK = d.Segments - c.Fail
	}
	if d == (sockdiag.Totals{}) {
		return c // nothing to say but that there was nothing
	}
	var said []string
	if n := d.Judged(); n > 0 {
		said = append(said, connectionsText(n, d.Unanswered, d.Refused, d.Reset))
	}
	if d.Segments > 0 || d.Retransmits > 0 {
		said = append(said, fmt.Sprintf("%d segments sent, %d sent again", d.Segments, d.Retransmits))
	}
	if d.Lost > 0 {
		said = append(said, "more connections ended than could be read")
	}
	text := fmt.Sprintf("%d open", r.live.Open)
	if r.live.RTT > 0 {
		text += ", round trip time " + millis(r.live.RTT)
	}
	c.Detail = strings.Join(append(said, text), "; ")
	return c
}

// connectionsText says what became of n connections.
func connectionsText(n, unanswered, refused, reset uint64) string {
	if unanswered+refused+reset == 0 {
		return fmt.Sprintf("%d connections, all answered", n)
	}
	text := fmt.Sprintf("of %d connections", n)
	for _, part := range []struct {
		n    uint64
		what string
	}{{unanswered, "got no answer to their SYN"}, {refused, "were refused"}, {reset, "were reset before an answer"}} {
		if part.n > 0 {
			text += fmt.Sprintf(" %d %s,", part.n, part.what)
		}
	}
	return strings.TrimSuffix(text, ",")
}
