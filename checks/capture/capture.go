// Package capture watches TCP connections to a server by the packets that pass
// an interface of this host: SYNs without an answer, resets, segments sent
// again, closed windows, and of plain HTTP/1 the status classes and the time to
// the first byte. It sees what the kernel's socket diagnostics cannot:
// connections of other programs' network namespaces and of forwarded traffic,
// and what is inside.
//
// It is made to cost little. A program in the kernel lets through only segments
// of the server, of one in so many connections, and only their beginning; and
// when more come than MaxPackets a second, it halves the number of connections
// it looks at, until fewer come; should one of them alone send as much, it rests
// for the remainder of a second. Whenever a packet was missed, what was known of
// the connections is dropped rather than judged by half the truth.
package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pause       = 25 * time.Millisecond  // between two looks for packets: being woken for each costs more than reading it
	beat        = 250 * time.Millisecond // between two looks at what time alone changes
	buffer      = 2 << 20                // bytes of the kernel's memory for packets not read yet; the kernel doubles it
	calmPeriods = 30                     // seconds with few packets after which more connections are looked at
)

// Settings say what is captured.
type Settings struct {
	Server     netip.AddrPort
	Interface  string // where its packets pass
	Sample     int    // one connection of so many, a power of two up to MaxSample; 0 is 1
	MaxPackets int    // a second, above which fewer connections are looked at; 0 is 5,000
	HTTP       bool   // look for HTTP/1 in the data
}

// Capture is a capture under way.
type Capture struct {
	set      Settings
	fd       int
	loopback bool
	stop     chan struct{}
	done     chan struct{}

	mu      sync.Mutex
	tracker *tracker
	sample  int // now
	err     error
}

// Open begins to capture, in the network namespace of the calling thread. It
// needs CAP_NET_RAW.
func Open(set Settings) (*Capture, error) {
	if set.Sample == 0 {
		set.Sample = 1
	}
	if set.MaxPackets == 0 {
		set.MaxPackets = 5000
	}
	if set.Sample < 1 || set.Sample > MaxSample || bits.OnesCount(uint(set.Sample)) != 1 {
		return nil, fmt.Errorf("a sample of one in %d is no power of two up to %d", set.Sample, MaxSample)
	}
	set.Server = netip.AddrPortFrom(set.Server.Addr().Unmap().WithZone(""), set.Server.Port())
	ifi, err := net.InterfaceByName(set.Interface)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", set.Interface, bare(err))
	}
	c := &Capture{
		set: set, sample: set.Sample, stop: make(chan struct{}), done: make(chan struct{}), loopback: ifi.Flags&net.FlagLoopback != 0,
		tracker: newTracker(set.Server, set.HTTP),
	}
	if err := c.open(ifi.Index); err != nil {
		return nil, err
	}
	go c.run()
	return c, nil
}

// bare drops what package net puts before the reason.
func bare(err error) error {
	var oe *net.OpError
	if errors.As(err, &oe) {
		return oe.Err
	}
	return err
}

func (c *Capture) open(index int) error {
	// Protocol 0: nothing comes in before the filter is set and it is bound.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("opening a packet socket, which needs CAP_NET_RAW: %w", os.NewSyscallError("socket", err))
	}
	c.fd = fd
	prog, err := filter(c.set.Server, c.sample, c.loopback)
	if err == nil {
		err = attach(fd, prog)
	}
	// Without CAP_NET_ADMIN the buffer stays within the system's limit, and more
	// is missed on a busy host.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		err = errors.Join(err, os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)))
	}
	const all = uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00) // in network order
	err = errors.Join(err,
		os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)),
		os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index})))
	if err != nil {
		return errors.Join(fmt.Errorf("setting up a packet socket: %w", err), unix.Close(fd))
	}
	return nil
}

// Close ends the capture. It is called once.
func (c *Capture) Close() error {
	close(c.stop)
	<-c.done
	return os.NewSyscallError("close", unix.Close(c.fd))
}

// Read returns what was seen since Open, and of how many connections one is
// looked at now, 0 while it rests. After an error the capture has ended.
func (c *Capture) Read() (Totals, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tracker.totals, c.sample, c.err
}

// run reads until it is stopped.
func (c *Capture) run() {
	defer close(c.done)
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	p := pacer{limit: c.set.MaxPackets, floor: c.set.Sample, since: time.Now()}
	next := time.Now().Add(beat)
	for {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
		}
		err := c.drain(&p)
		if now := time.Now(); err == nil && (!now.Before(next) || p.packets > p.limit) {
			next = now.Add(beat)
			err = c.turn(&p, now)
		}
		if err != nil {
			c.mu.Lock()
			c.err = fmt.Errorf("capturing on %s: %w", c.set.Interface, err)
			c.mu.Unlock()
			return
		}
	}
}

// drain takes in the packets that have come, up to the pacer's limit.
func (c *Capture) drain(p *pacer) error {
	var buf [snap]byte
	var oob [64]byte
	for p.packets <= p.limit {
		n, oobn, _, _, err := unix.Recvmsg(c.fd, buf[:], oob[:], unix.MSG_DONTWAIT)
		switch {
		case err == nil:
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENETDOWN): // the interface may come back
			return nil
		default:
			return os.NewSyscallError("recvmsg", err)
		}
		p.packets++
		c.packet(buf[:n], packetTime(oob[:oobn], time.Now()))
	}
	return nil
}

// discard drops the packets that have come, which an earlier filter let through.
func (c *Capture) discard() {
	var b [1]byte
	for {
		if _, err := unix.Read(c.fd, b[:]); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// packetTime returns the kernel's time of a packet that was read at time now,
// with a monotonic reading: several may have waited to be read.
func packetTime(oob []byte, now time.Time) time.Time {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return now
	}
	for _, m := range msgs {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_TIMESTAMPNS || len(m.Data) < 16 {
			continue
		}
		at := time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:]))) //nolint:gosec // signed
		if age := now.Round(0).Sub(at); age > 0 && age < beat {
			return now.Add(-age)
		}
	}
	return now
}

// packet takes in one packet.
func (c *Capture) packet(b []byte, at time.Time) {
	s, ok := parse(b)
	if !ok {
		return
	}
	c.mu.Lock()
	c.tracker.packet(&s, at)
	c.mu.Unlock()
}

// turn does what is due at each beat.
func (c *Capture) turn(p *pacer, now time.Time) error {
	st, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return os.NewSyscallError("getsockopt PACKET_STATISTICS", err)
	}
	sample := p.next(c.sample, now)
	if sample != c.sample {
		prog, err := filter(c.set.Server, sample, c.loopback)
		if err == nil {
			err = attach(c.fd, prog)
		}
		if err != nil {
			return err
		}
		c.discard()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tracker.totals.Missed += uint64(st.Drops)
	if st.Drops > 0 || sample != c.sample {
		c.tracker.reset()
	}
	c.sample = sample
	c.tracker.expire(now)
	return nil
}

// pacer chooses how many connections are looked at by how many packets come.
type pacer struct {
	limit   int // packets a second
	floor   int // the sample that was asked for
	packets int // in this second
	since   time.Time
	calm    int // seconds in a row with few packets
}

// next returns the sample to use from now on, 0 for no packet at all.
func (p *pacer) next(sample int, now time.Time) int {
	if p.packets > p.limit {
		p.packets, p.since, p.calm = 0, now, 0
		if sample == MaxSample {
			return 0
		}
		return 2 * sample
	}
	switch {
	case now.Sub(p.since) < time.Second:
		return sample
	case sample == 0:
		return MaxSample
	}
	if p.packets*4 < p.limit {
		p.calm++
	} else {
		p.calm = 0
	}
	p.packets, p.since = 0, now
	if p.calm >= calmPeriods && sample > p.floor {
		p.calm = 0
		return sample / 2
	}
	return sample
}
