package readback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Names of the routing daemons.
const (
	FRR  = "frr"
	BIRD = "bird"
)

// Settings say whom to ask.
type Settings struct {
	From         []string      // FRR, BIRD or both; none switches read-back off
	Interval     time.Duration // between two questions while all is as expected
	FRRDirectory string        // of FRR's vty sockets
	BIRDSocket   string        // BIRD's control socket
}

// Validate returns what makes s unusable.
func (s Settings) Validate() error {
	var errs []error
	for _, name := range s.From {
		if name != FRR && name != BIRD {
			errs = append(errs, fmt.Errorf("nobody reads back from %q", name))
		}
	}
	if len(s.From) > 0 && s.Interval <= 0 {
		errs = append(errs, fmt.Errorf("read-back interval %v is not positive", s.Interval))
	}
	return errors.Join(errs...)
}

// Equal says whether both ask the same.
func (s Settings) Equal(o Settings) bool {
	return slices.Equal(s.From, o.From) && s.Interval == o.Interval &&
		s.FRRDirectory == o.FRRDirectory && s.BIRDSocket == o.BIRDSocket
}

// Answer is what a routing daemon is known to make of one prefix.
type Answer struct {
	Has   bool      // in its OSPF database, as its own, when it answered last
	Asked time.Time // when it was asked what it answered last; zero before the first answer
	// Fault says why it does not answer now, "" when it does.
	Fault string
	// Gone says that Fault is not silence: nobody listens there.
	Gone bool
	// Helper says that a process which the daemon depends on does not answer, or
	// does not work for it.
	Helper string
}

// Daemon is one routing daemon.
type Daemon struct {
	Name  string        // FRR or BIRD
	Title string        // as people write it
	Slow  time.Duration // how long it may keep a change to itself when all is well
	parts []*part
}

// Readback asks all routing daemons that are configured.
type Readback struct {
	Daemons []*Daemon // sorted by name
	changes chan struct{}
}

// birdSlow is BIRD's MinLSInterval of 5 s, which it does not let one change,
// and its tick of 1 s, at which it looks.
const (
	birdSlow = 6 * time.Second
	frrSlow  = time.Second
)

// New returns a Readback that asks nobody until Run.
func New(s Settings, log *slog.Logger) *Readback {
	r := &Readback{changes: make(chan struct{}, 1)}
	add := func(d *Daemon, parts ...*part) {
		for _, p := range parts {
			p.log, p.interval, p.changes = log.With("routing_daemon", p.name), s.Interval, r.changes
			p.wake = make(chan struct{}, 1)
			p.expected = map[netip.Prefix]bool{}
		}
		d.parts = parts
		r.Daemons = append(r.Daemons, d)
	}
	if slices.Contains(s.From, BIRD) {
		add(&Daemon{Name: BIRD, Title: "BIRD", Slow: birdSlow},
			&part{name: "BIRD", dial: dialer(s.BIRDSocket), four: true, six: true, ask: askBIRD})
	}
	if slices.Contains(s.From, FRR) {
		add(&Daemon{Name: FRR, Title: "FRR", Slow: frrSlow},
			&part{name: "ospfd", dial: dialer(filepath.Join(s.FRRDirectory, "ospfd.vty")), four: true, client: "ospf", ask: askOspfd},
			&part{name: "ospf6d", dial: dialer(filepath.Join(s.FRRDirectory, "ospf6d.vty")), six: true, client: "ospf6", ask: askOspf6d},
			&part{name: "zebra", dial: dialer(filepath.Join(s.FRRDirectory, "zebra.vty")), ask: askZebra})
	}
	return r
}

// dialer connects to a unix socket.
func dialer(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}

// Run asks until ctx ends. It returns nil.
func (r *Readback) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, d := range r.Daemons {
		for _, p := range d.parts {
			g.Go(func() error { p.run(ctx); return nil })
		}
	}
	return g.Wait()
}

// Changes receives a value, never more than one at a time, when an Answer may
// have changed.
func (r *Readback) Changes() <-chan struct{} { return r.changes }

// Expect says what shall be in the databases from now on: it is asked for soon,
// and often until it is so.
func (r *Readback) Expect(p netip.Prefix, there bool) {
	for _, d := range r.Daemons {
		for _, part := range d.parts {
			if part.minds(p) {
				part.expect(p, there)
			}
		}
	}
}

// Answer returns what d is known to make of p.
func (d *Daemon) Answer(p netip.Prefix) Answer {
	var a Answer
	var client *part
	for _, part := range d.parts {
		if part.minds(p) {
			a, client = part.about(p), part
		}
	}
	for _, part := range d.parts {
		if client != nil && !part.four && !part.six {
			a.Helper = part.help(client)
		}
	}
	return a
}

// Own returns the prefixes that d had as its own when it answered last.
func (d *Daemon) Own() []netip.Prefix {
	var out []netip.Prefix
	for _, part := range d.parts {
		out = append(out, part.own()...)
	}
	return out
}
