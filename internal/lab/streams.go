package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	streamEvery = 10 * time.Millisecond // between two lines of a stream
	streamLimit = 30 * time.Second      // without an answer: broken
	streamOpen  = 10 * time.Second      // for a stream to be opened
)

// Break is how a long stream ended.
type Break struct {
	At    time.Time
	Kind  ConnError
	Who   string        // the server at the other end
	After time.Duration // how long it had lasted
}

// Streams are long TCP connections on which data flows all the time.
type Streams struct {
	node    *Node
	running sync.WaitGroup

	mu     sync.Mutex
	files  []*os.File
	closed bool
	breaks []Break
	stall  time.Duration
}

// LongStreams opens n connections to an echo server (see Serve) and sends and
// receives a line on each every 10 ms until Close. It returns when all are
// open; that one cannot be opened fails the test.
func (n *Node) LongStreams(addr string, count int) *Streams {
	n.lab.tb.Helper()
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		n.lab.tb.Fatalf("%s: streams to %q: %v", n.Name, addr, err)
	}
	s := &Streams{node: n}
	context.AfterFunc(n.lab.ctx, func() { s.Close() })
	for range count {
		f, err := n.connect(ap, time.Now().Add(streamOpen))
		if err != nil {
			n.lab.tb.Fatalf("opening a stream: %v", err)
		}
		r := bufio.NewReader(f)
		who, err := greeting(f, r)
		if err != nil {
			n.lab.tb.Fatalf("%s: opening a stream to %s: %v", n.Name, addr, err)
		}
		s.mu.Lock()
		s.files = append(s.files, f)
		s.mu.Unlock()
		s.running.Add(1)
		go s.run(f, r, who, time.Now())
	}
	return s
}

func greeting(f *os.File, r *bufio.Reader) (string, error) {
	if err := f.SetReadDeadline(time.Now().Add(streamOpen)); err != nil {
		return "", err
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	return line[:len(line)-1], nil
}

// run keeps one stream, open since began, going until it breaks or is closed.
func (s *Streams) run(f *os.File, r *bufio.Reader, who string, began time.Time) {
	defer s.running.Done()
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		sent := time.Now()
		err := exchange(f, r, fmt.Sprintf("%d\n", i))
		s.mu.Lock()
		s.stall = max(s.stall, time.Since(sent))
		if err != nil {
			if !s.closed {
				s.breaks = append(s.breaks, Break{At: time.Now(), Kind: connError(err), Who: who, After: time.Since(began)})
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		<-tick.C
	}
}

// exchange sends a line and expects it back.
func exchange(f *os.File, r *bufio.Reader, line string) error {
	if err := f.SetDeadline(time.Now().Add(streamLimit)); err != nil {
		return err
	}
	if _, err := io.WriteString(f, line); err != nil {
		return err
	}
	got, err := r.ReadString('\n')
	if err == nil && got != line {
		err = fmt.Errorf("sent %q, got back %q", line, got)
	}
	return err
}

// Breaks returns the streams that broke, in the order they did.
func (s *Streams) Breaks() []Break {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.breaks)
}

// LongestStall returns the longest time between a line and its return.
func (s *Streams) LongestStall() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stall
}

// Close ends the streams and returns those that had broken before.
func (s *Streams) Close() []Break {
	s.node.lab.tb.Helper()
	s.mu.Lock()
	s.closed = true
	files := s.files
	s.files = nil
	s.mu.Unlock()
	for _, f := range files {
		if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			s.node.lab.tb.Errorf("closing a stream: %v", err)
		}
	}
	s.running.Wait()
	return s.Breaks()
}
