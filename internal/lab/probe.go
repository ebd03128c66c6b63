package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// probeLimit is how long one attempt of a Prober may take. It is longer than
// TCP's first repetition of a lost SYN, 1 s.
const probeLimit = 1500 * time.Millisecond

// Attempt is one connection that a Prober tried.
type Attempt struct {
	Start  time.Time
	Took   time.Duration
	Local  netip.AddrPort // its own end; zero when it was not connected
	Resent int            // packets that the kernel sent again, its SYN among them, while it was connected
	Who    string         // what the server called itself, "" on failure
	Error  ConnError      // "" on success
}

// Prober connects again and again from a node, each time anew.
type Prober struct {
	node    *Node
	addr    netip.AddrPort
	request string
	most    int32 // attempts under way at once; 0 is any number
	under   atomic.Int32
	stop    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	stopped  bool
	attempts []Attempt
}

// ProbeResult is what a Prober has found.
type ProbeResult struct {
	OK, Failed int
	Who        map[string]int    // how often each server answered
	Errors     map[ConnError]int // how often each failure happened
	// LongestOutage is the longest time during which every attempt failed: from
	// the start of the first to the start of the next that succeeded (or the
	// end of the last). OutageFrom is when it began.
	LongestOutage time.Duration
	OutageFrom    time.Time
}

// Probe connects from the node to a TCP server every so often, until Stop: an
// attempt is good when the server sends a line, its name (see Serve).
func (n *Node) Probe(addr string, every time.Duration) *Prober {
	n.lab.tb.Helper()
	return n.probe(addr, every, "", 0)
}

// ProbeAtMost is Probe with at most so many attempts under way at once: no more
// than a busy machine has the time for. Those that hang keep others from
// beginning, so how long an outage lasts is for Probe.
func (n *Node) ProbeAtMost(addr string, every time.Duration, most int32) *Prober {
	n.lab.tb.Helper()
	return n.probe(addr, every, "", most)
}

// ProbeHTTP is Probe of an HTTP server whose body is its name.
func (n *Node) ProbeHTTP(addr string, every time.Duration) *Prober {
	n.lab.tb.Helper()
	return n.probe(addr, every, "GET / HTTP/1.0\r\n\r\n", 0)
}

func (n *Node) probe(addr string, every time.Duration, request string, most int32) *Prober {
	n.lab.tb.Helper()
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		n.lab.tb.Fatalf("%s: probing %q: %v", n.Name, addr, err)
	}
	p := &Prober{node: n, addr: ap, request: request, most: most, stop: make(chan struct{})}
	p.running.Add(1)
	go func() {
		defer p.running.Done()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if p.most == 0 || p.under.Load() < p.most {
				p.running.Add(1)
				p.under.Add(1)
				go p.attempt()
			}
			select {
			case <-tick.C:
			case <-p.stop:
				return
			case <-n.lab.ctx.Done():
				return
			}
		}
	}()
	return p
}

// attempt makes one connection and notes what came of it.
func (p *Prober) attempt() {
	defer p.running.Done()
	defer p.under.Add(-1)
	a := Attempt{Start: time.Now()}
	who, err := p.ask(&a)
	a.Took = time.Since(a.Start)
	if errors.Is(err, errClosed) {
		return
	}
	if err != nil {
		a.Error = connError(err)
	} else {
		a.Who = who
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts = append(p.attempts, a)
}

// ask connects, notes in a what it saw of the connection, asks, and returns what
// the server calls itself.
func (p *Prober) ask(a *Attempt) (who string, err error) {
	deadline := time.Now().Add(probeLimit)
	f, err := p.node.connect(p.addr, deadline)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if a.Local, err = localEnd(f); err != nil {
		return "", err
	}
	if err := f.SetDeadline(deadline); err != nil {
		return "", err
	}
	who, err = p.answer(f)
	resent, rerr := resentBy(f)
	a.Resent = resent
	return who, errors.Join(err, rerr)
}

// answer sends the request if there is one, and returns the last line of the
// answer.
func (p *Prober) answer(f *os.File) (string, error) {
	if p.request == "" {
		return readName(f)
	}
	if _, err := io.WriteString(f, p.request); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return "", err
	}
	status, _, _ := strings.Cut(string(answer), "\n")
	if !strings.Contains(status, " 200 ") {
		return "", fmt.Errorf("answered %q: %w", status, io.EOF)
	}
	lines := strings.Split(strings.TrimSpace(string(answer)), "\n")
	return lines[len(lines)-1], nil
}

// readName reads the line with which a server greets.
func readName(f *os.File) (string, error) {
	line, err := bufio.NewReaderSize(f, 128).ReadString('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// Stop ends the probing, waits for what is under way and returns the result.
func (p *Prober) Stop() ProbeResult {
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.stop)
	}
	p.mu.Unlock()
	p.running.Wait()
	return p.Result()
}

// Attempts returns what was tried and has ended, by start.
func (p *Prober) Attempts() []Attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	attempts := slices.Clone(p.attempts)
	slices.SortFunc(attempts, func(a, b Attempt) int { return a.Start.Compare(b.Start) })
	return attempts
}

// Result returns what was found so far.
func (p *Prober) Result() ProbeResult { return summarise(p.Attempts()) }

// Reset forgets what was found.
func (p *Prober) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts = nil
}

// summarise counts attempts, which are sorted by start.
func summarise(attempts []Attempt) ProbeResult {
	r := ProbeResult{Who: map[string]int{}, Errors: map[ConnError]int{}}
	var down time.Time // start of the first of the failures in a row
	outage := func(until time.Time) {
		if d := until.Sub(down); !down.IsZero() && d > r.LongestOutage {
			r.LongestOutage, r.OutageFrom = d, down
		}
	}
	for _, a := range attempts {
		if a.Error == "" {
			r.OK++
			r.Who[a.Who]++
			outage(a.Start)
			down = time.Time{}
			continue
		}
		r.Failed++
		r.Errors[a.Error]++
		if down.IsZero() {
			down = a.Start
		}
	}
	if n := len(attempts); n > 0 {
		outage(attempts[n-1].Start.Add(attempts[n-1].Took))
	}
	return r
}
