package checks

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strings"

	"rhid/checks/capture"
)

// CaptureOptions are the settings of a capture check.
type CaptureOptions struct {
	Device     string `yaml:"device" required:"true" doc:"interface where the packets to the server pass"`
	Count      string `yaml:"count" default:"connections" enum:"connections,requests,segments,windows" doc:"what is counted as good or bad: connections (bad: unanswered, refused, reset before an answer), plain HTTP/1 requests (bad: those and statuses 5xx and no answer), segments (bad: sent again), or the server's windows (bad: closed)"`
	Sample     int    `yaml:"sample" default:"1" doc:"look at one connection of so many, a power of two up to 1024"`
	MaxPackets int    `yaml:"max_packets" default:"5000" doc:"packets a second, above which fewer connections are looked at"`
}

// captureCounts are what can be counted.
const (
	countConnections = "connections"
	countRequests    = "requests"
	countSegments    = "segments"
	countWindows     = "windows"
)

// NeedsTarget implements Options.
func (*CaptureOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *CaptureOptions) Problems() []Problem {
	var ps []Problem
	add := func(key, format string, args ...any) {
		ps = append(ps, Problem{key, fmt.Sprintf(format, args...)})
	}
	switch {
	case o.Device == "":
		add("device", "is missing: name the interface where the packets pass, lo for servers on this host")
	case len(o.Device) > 15 || strings.ContainsAny(o.Device, "/ :"):
		add("device", "%q is not the name of an interface", o.Device)
	}
	switch o.Count {
	case "", countConnections, countRequests, countSegments, countWindows:
	default:
		add("count", "%q is none of connections, requests, segments and windows", o.Count)
	}
	if o.Sample < 0 || o.Sample > capture.MaxSample || o.Sample > 0 && bits.OnesCount(uint(o.Sample)) != 1 {
		add("sample", "%d is not a power of two from 1 to %d", o.Sample, capture.MaxSample)
	}
	if o.MaxPackets < 0 || o.MaxPackets > 1_000_000 || o.MaxPackets > 0 && o.MaxPackets < 100 {
		add("max_packets", "%d is not between 100 and 1000000", o.MaxPackets)
	}
	return ps
}

// captureReading is what was captured up to one time.
type captureReading struct {
	totals capture.Totals
	sample int
}

// Prober implements Options. What it returns is a Holder.
func (o *CaptureOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("capture check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("capture check: %w", err)
	}
	set := capture.Settings{
		Interface: o.Device, Sample: max(o.Sample, 1), MaxPackets: o.MaxPackets, HTTP: o.Count == countRequests,
	}
	what := orDefault(o.Count, countConnections)
	return &watchProbe[*capture.Capture, captureReading]{
		aim:  a,
		keep: &keeper[*capture.Capture, captureReading]{},
		open: func(to netip.AddrPort) (*capture.Capture, error) {
			set := set
			set.Server = to
			return capture.Open(set)
		},
		read: func(c *capture.Capture) (r captureReading, err error) {
			r.totals, r.sample, err = c.Read()
			return r, err
		},
		count: func(was, is captureReading) Counts { return is.counts(was.totals, what) },
	}, nil
}

// counts compares a reading with the totals of the one before.
func (r captureReading) counts(was capture.Totals, what string) Counts {
	d := r.totals.Since(was)
	var c Counts
	bad := d.Unanswered + d.Refused + d.Reset
	switch what {
	case countRequests:
		c.Fail = d.Status[5] + d.NoAnswer + bad
		for class, n := range d.Status {
			if class != 5 {
				c.OK += n
			}
		}
		c.Latency = d.FirstByte.Mean()
	case countSegments:
		c.Fail = min(d.Retransmits, d.Segments)
		c.OK = d.Segments - c.Fail
	case countWindows:
		c.Fail, c.OK = d.ZeroWindows, d.Answers-d.ZeroWindows
	default:
		c.Fail, c.OK, c.Latency = bad, d.Good, d.Handshake.Mean()
	}
	if d.Packets > 0 || d.Missed > 0 || bad > 0 {
		c.Detail = r.sentence(d, what)
	}
	return c
}

// sentence says what was captured since the reading before.
func (r captureReading) sentence(d capture.Totals, what string) string {
	var said []string
	add := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	if n := d.Judged(); n > 0 {
		add("%s", connectionsText(n, d.Unanswered, d.Refused, d.Reset))
	}
	if what == countRequests {
		add("HTTP status 2xx %d, 3xx %d, 4xx %d, 5xx %d, no answer %d, first byte after %s",
			d.Status[2], d.Status[3], d.Status[4], d.Status[5], d.NoAnswer, millis(d.FirstByte.Mean()))
	}
	if d.Segments > 0 || d.Retransmits > 0 {
		add("%d segments, %d sent again", d.Segments, d.Retransmits)
	}
	if d.ZeroWindows > 0 {
		add("%d of %d segments of the server closed the window", d.ZeroWindows, d.Answers)
	}
	if d.Missed > 0 {
		add("%d packets were missed", d.Missed)
	}
	if r.sample != 1 {
		add("one connection in %d is looked at", r.sample)
	}
	return strings.Join(said, "; ")
}
