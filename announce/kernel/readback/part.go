package readback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	patience  = time.Second            // after which a process without an answer is silent
	hotGap    = 30 * time.Millisecond  // between two questions just after a change
	hotFor    = 2 * time.Second        // how long that is
	warmGap   = 250 * time.Millisecond // while something is other than expected
	workShare = 10                     // a question takes at most one part in so many, where it takes no longer than patience
	redial    = time.Second            // between two attempts to connect
	maxAnswer = 64 << 20               // bytes
)

// errTooLong is for an answer that nobody would give.
var errTooLong = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)

// answer is what a process said.
type answer struct {
	has     map[netip.Prefix]bool // in its database, as its own
	clients map[string]bool       // zebra's
}

// part is one process that is asked.
type part struct {
	name      string // as people know it
	dial      func(context.Context) (net.Conn, error)
	four, six bool // address families it has the database of
	ask       func(*conn) (answer, error)
	client    string // as zebra knows it, "" where it is no client of zebra's

	log      *slog.Logger
	interval time.Duration
	changes  chan<- struct{}
	wake     chan struct{}

	mu       sync.Mutex
	answer                         // the last one
	asked    time.Time             // when that was asked
	took     time.Duration         // to answer it
	silent   time.Time             // since when it has not answered, zero when it does
	refused  error                 // why there is no connection
	expected map[netip.Prefix]bool // what shall be there, and what shall not until it is not
	hotUntil time.Time
	poked    time.Time // when expected changed last
}

func (p *part) minds(prefix netip.Prefix) bool {
	return p.four && prefix.Addr().Is4() || p.six && prefix.Addr().Is6()
}

func (p *part) expect(prefix netip.Prefix, there bool) {
	p.mu.Lock()
	p.expected[prefix] = there
	p.poked = time.Now()
	p.hotUntil = p.poked.Add(hotFor)
	p.mu.Unlock()
	signal(p.wake)
}

func (p *part) about(prefix netip.Prefix) Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Answer{Has: p.has[prefix], Asked: p.asked, Fault: p.faultLocked(), Gone: p.refused != nil}
}

// help says why p, a zebra, does not work for another process, "" when it does.
func (p *part) help(other *part) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fault := p.faultLocked(); fault != "" || p.asked.IsZero() || p.clients[other.client] {
		return fault
	}
	return other.name + " is not connected to " + p.name
}

func (p *part) faultLocked() string {
	switch {
	case p.refused != nil:
		return fmt.Sprintf("%s cannot be asked since %s: %v", p.name, clock(p.silent), p.refused)
	case !p.silent.IsZero():
		return fmt.Sprintf("%s does not answer since %s", p.name, clock(p.silent))
	}
	return ""
}

// clock is a time for people. The text of a lasting fault does not change.
func clock(t time.Time) string { return t.Format("15:04:05 MST") }

func (p *part) own() []netip.Prefix {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.has))
}

// run connects, asks, and connects again, until ctx ends.
func (p *part) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := p.session(ctx); ctx.Err() == nil {
			p.lost(err)
			wait(ctx, nil, redial)
		}
	}
}

// session asks over one connection until that fails.
func (p *part) session(ctx context.Context) error {
	dctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := p.dial(dctx)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	talk := &conn{Conn: c}
	for ctx.Err() == nil {
		began := time.Now()
		talk.late = func() { p.late(began) }
		said, err := p.ask(talk)
		if err != nil {
			return err
		}
		p.learn(said, began)
		wait(ctx, p.wake, p.pause())
	}
	return nil
}

// late notes that a question has been under way for too long.
func (p *part) late(since time.Time) {
	p.mu.Lock()
	news := p.silent.IsZero() || p.refused != nil
	if p.silent.IsZero() {
		p.silent = since
	}
	p.refused = nil
	p.mu.Unlock()
	if news {
		p.log.Warn("the routing daemon does not answer")
		signal(p.changes)
	}
}

// lost notes that there is no connection. A full backlog is a process that does
// not accept, and so one that is silent.
func (p *part) lost(err error) {
	if errors.Is(err, syscall.EAGAIN) {
		p.late(time.Now())
		return
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	p.mu.Lock()
	news := p.refused == nil || p.refused.Error() != err.Error()
	p.refused = err
	if p.silent.IsZero() {
		p.silent = time.Now()
	}
	p.mu.Unlock()
	if news {
		p.log.Warn("the routing daemon cannot be asked", "error", err)
		signal(p.changes)
	}
}

// learn takes an answer over.
func (p *part) learn(said answer, asked time.Time) {
	p.mu.Lock()
	back := !p.silent.IsZero()
	// The first answer after a change is news even if it is the same: until
	// then, the one before it said nothing of the change.
	news := back || !p.asked.After(p.poked) || !maps.Equal(p.has, said.has) || !maps.Equal(p.clients, said.clients)
	p.answer, p.asked, p.took = said, asked, min(time.Since(asked), patience) // the rest was silence and no work
	p.silent, p.refused = time.Time{}, nil
	p.mu.Unlock()
	if back {
		p.log.Info("the routing daemon answers")
	}
	if news {
		signal(p.changes)
	}
}

// pause is how long to wait before the next question.
func (p *part) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	gap := p.interval
	switch {
	case p.poked.After(p.asked):
		gap = 0
	case p.unmet() && time.Now().Before(p.hotUntil):
		gap = hotGap
	case p.unmet():
		gap = min(warmGap, p.interval)
	}
	return max(gap, workShare*p.took)
}

// unmet says whether something is other than expected.
func (p *part) unmet() bool {
	for prefix, there := range p.expected {
		if p.has[prefix] != there {
			return true
		}
		if !there {
			delete(p.expected, prefix)
		}
	}
	return false
}

// wait returns after d, or when wake receives, or when ctx ends.
func wait(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// conn is a connection on which an answer may take any time. Each time patience
// passes without a byte, late is called.
type conn struct {
	net.Conn
	late func()
	buf  []byte // received, and not part of an answer yet

	greeted bool // BIRD has said who it is
}

// until receives until end finds the end of an answer, and returns what is
// before it. end returns the number of bytes up to and with the end, 0 if there
// is none yet.
func (c *conn) until(end func([]byte) int) ([]byte, error) {
	for {
		if n := end(c.buf); n > 0 {
			answer := slices.Clone(c.buf[:n])
			c.buf = slices.Delete(c.buf, 0, n)
			return answer, nil
		}
		if len(c.buf) > maxAnswer {
			return nil, errTooLong
		}
		if err := c.more(); err != nil {
			return nil, err
		}
	}
}

// more receives at least one byte.
func (c *conn) more() error {
	chunk := make([]byte, 64<<10)
	for {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		n, err := c.Read(chunk)
		c.buf = append(c.buf, chunk[:n]...)
		switch {
		case n > 0:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.late()
		case errors.Is(err, io.EOF):
			return errors.New("it closed the connection")
		case err != nil:
			return err
		}
	}
}

// say sends a question. A process that does not read cannot hold it up for
// long: a question is short.
func (c *conn) say(text string) error {
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.WriteString(c, text)
	return err
}
