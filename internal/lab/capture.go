package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// EventKind is what a captured packet was.
type EventKind string

// The kinds of Event.
const (
	BGPUpdate       EventKind = "bgp update" // one for each UPDATE message, several may share a packet
	BGPOpen         EventKind = "bgp open"
	BGPNotification EventKind = "bgp notification"
	OSPFUpdate      EventKind = "ospf update" // Link State Update, OSPFv2 and OSPFv3
	TCPReset        EventKind = "tcp reset"
	Unreachable     EventKind = "icmp unreachable" // ICMP and ICMPv6 destination unreachable
)

// Event is one thing seen on a node's interface.
type Event struct {
	At        time.Time // the kernel's time of the packet
	Kind      EventKind
	Sent      bool // by the node; else received
	Iface     string
	Src, Dst  netip.AddrPort // without ports where it is not TCP
	Announced []netip.Prefix // by a BGP UPDATE, or external LSAs
	Withdrawn []netip.Prefix // by a BGP UPDATE, or external LSAs of age MaxAge
}

// Announces says whether the event announces a prefix, "10.255.0.10/32".
func (e Event) Announces(prefix string) bool { return hasPrefix(e.Announced, prefix) }

// Withdraws says whether the event withdraws a prefix.
func (e Event) Withdraws(prefix string) bool { return hasPrefix(e.Withdrawn, prefix) }

func hasPrefix(list []netip.Prefix, prefix string) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.String() == prefix })
}

// Capture collects what routing protocols and the kernel's refusals put on the
// wire at a node: BGP on port 179, OSPF, TCP resets, ICMP unreachables.
type Capture struct {
	node  *Node
	file  *os.File
	done  chan struct{}
	flows map[flow]*stream // of the reading goroutine

	mu     sync.Mutex
	events []Event
	err    error
	wake   chan struct{}
}

// Capture collects events at one interface of the node, or at all of them (""),
// until Close or the end of the lab. BGP messages are read from the TCP stream;
// one whose beginning was not seen is left out.
func (n *Node) Capture(iface string) *Capture {
	n.lab.tb.Helper()
	c := &Capture{node: n, done: make(chan struct{}), flows: map[flow]*stream{}, wake: make(chan struct{})}
	var err error
	derr := n.net.do(func() { c.file, err = n.packetSocket(iface) })
	if err = errors.Join(derr, err); err != nil {
		n.lab.tb.Fatalf("%s: capturing at %q: %v", n.Name, iface, err)
	}
	go c.read()
	context.AfterFunc(n.lab.ctx, c.Close)
	return c
}

// packetSocket must run in the node's network namespace.
func (n *Node) packetSocket(iface string) (*os.File, error) {
	all := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00) // in network order
	// protocol 0: nothing comes in before the filter is set and it is bound
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	index := 0
	if iface != "" {
		link, lerr := n.nl.LinkByName(iface)
		if lerr != nil {
			return nil, errors.Join(lerr, unix.Close(fd))
		}
		index = link.Attrs().Index
	}
	filter, err := captureFilter()
	if err == nil {
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, filter)
	}
	err = errors.Join(err,
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting up a packet socket: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "capture"), nil
}

// read collects until the socket is closed.
func (c *Capture) read() {
	defer close(c.done)
	conn, err := c.file.SyscallConn()
	if err != nil {
		c.fail(err)
		return
	}
	buf, oob := make([]byte, 1<<18), make([]byte, 128)
	for {
		var n, oobn int
		var from unix.Sockaddr
		var rerr error
		err := conn.Read(func(fd uintptr) bool {
			n, oobn, _, from, rerr = unix.Recvmsg(int(fd), buf, oob, 0)
			return rerr != unix.EAGAIN
		})
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil || rerr != nil:
			if !errors.Is(rerr, unix.ENETDOWN) { // the interface went down; it may come back
				c.fail(errors.Join(err, rerr))
				return
			}
			continue
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok {
			continue
		}
		e := Event{At: packetTime(oob[:oobn]), Sent: ll.Pkttype == unix.PACKET_OUTGOING, Iface: c.node.linkName(ll.Ifindex)}
		c.add(parsePacket(buf[:n], e, c.flows))
	}
}

// packetTime returns the kernel's time of a packet, with a monotonic reading.
func packetTime(oob []byte) time.Time {
	now := time.Now()
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return now
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			ts := time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
			return now.Add(ts.Sub(now.Round(0))) // by the wall clock, which only labs with a stepped clock would notice
		}
	}
	return now
}

func (c *Capture) add(events []Event) {
	if len(events) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, events...)
	close(c.wake)
	c.wake = make(chan struct{})
}

func (c *Capture) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// Close ends the capture; it may be called again.
func (c *Capture) Close() {
	if err := c.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		c.fail(err)
	}
	<-c.done
}

// Events returns what was seen so far, or since Reset, in order, of which match
// is true; a nil match takes all.
func (c *Capture) Events(match func(Event) bool) []Event {
	c.node.lab.tb.Helper()
	events, _ := c.snapshot()
	if match == nil {
		return events
	}
	return slices.DeleteFunc(events, func(e Event) bool { return !match(e) })
}

// Since returns what was seen after the first n events, for one who has read
// those and goes on; not together with Reset.
func (c *Capture) Since(n int) []Event {
	c.node.lab.tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		c.node.lab.tb.Fatalf("%s: capturing: %v", c.node.Name, c.err)
	}
	return slices.Clone(c.events[n:])
}

// Count returns how many events of a kind were seen that the node sent, or else
// received.
func (c *Capture) Count(kind EventKind, sent bool) int {
	c.node.lab.tb.Helper()
	return len(c.Events(func(e Event) bool { return e.Kind == kind && e.Sent == sent }))
}

// Reset forgets what was seen.
func (c *Capture) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = nil
}

func (c *Capture) snapshot() ([]Event, <-chan struct{}) {
	c.node.lab.tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		c.node.lab.tb.Fatalf("%s: capturing: %v", c.node.Name, c.err)
	}
	return slices.Clone(c.events), c.wake
}

// Wait returns the first event that match is true for, seen since the capture
// began or Reset, and fails the test when there is none within limit.
func (c *Capture) Wait(what string, limit time.Duration, match func(Event) bool) Event {
	c.node.lab.tb.Helper()
	timeout := time.After(limit)
	for {
		events, wake := c.snapshot()
		if i := slices.IndexFunc(events, match); i >= 0 {
			return events[i]
		}
		select {
		case <-wake:
		case <-timeout:
			c.node.lab.tb.Fatalf("%s: waited %v in vain on the wire for %s; seen: %v", c.node.Name, limit, what, events)
		}
	}
}
