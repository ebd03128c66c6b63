package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// memnet is a network in memory, with addresses like a real one, that can be
// cut, lose packets and take its time. memberlist's own mock gives all nodes
// one address and blocks for ever when a node is gone.
type memnet struct {
	latency time.Duration
	packets atomic.Uint64
	bytes   atomic.Uint64

	mu      sync.Mutex
	nodes   map[string]*memTransport
	blocked func(from, to netip.Addr, stream bool) bool
	loss    float64
	rng     *rand.Rand
}

func newMemnet() *memnet {
	return &memnet{latency: 200 * time.Microsecond, nodes: map[string]*memTransport{}, rng: rand.New(rand.NewPCG(1, 2))}
}

// block sets what does not get through; nil lets all through.
func (n *memnet) block(f func(from, to netip.Addr, stream bool) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocked = f
}

func (n *memnet) lose(share float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = share
}

// reach returns the destination, or nil when a packet would be lost.
func (n *memnet) reach(from netip.Addr, addr string, stream bool) (*memTransport, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, false
	}
	if n.blocked != nil && (n.blocked(from, ap.Addr(), stream) || stream && n.blocked(ap.Addr(), from, stream)) {
		return nil, false
	}
	if !stream && n.loss > 0 && n.rng.Float64() < n.loss {
		return nil, false
	}
	return n.nodes[addr], true
}

type memTransport struct {
	net     *memnet
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (n *memnet) transport(a netip.Addr, port int) *memTransport {
	t := &memTransport{
		net: n, addr: netip.AddrPortFrom(a, uint16(port)),
		packets: make(chan *memberlist.Packet, 1<<14), streams: make(chan net.Conn, 1<<10), closed: make(chan struct{}),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[t.addr.String()] = t
	return t
}

func (t *memTransport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.addr.Addr().AsSlice(), int(t.addr.Port()), nil
}

func (t *memTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (t *memTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	t.net.packets.Add(1)
	t.net.bytes.Add(uint64(len(b) + 28))
	now := time.Now()
	select {
	case <-t.closed:
		return now, net.ErrClosed
	default:
	}
	to, ok := t.net.reach(t.addr.Addr(), a.Addr, false)
	if !ok || to == nil {
		return now, nil
	}
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(t.addr)}
	time.AfterFunc(t.net.latency, func() {
		p.Timestamp = time.Now()
		select {
		case <-to.closed:
		case to.packets <- p:
		default:
		}
	})
	return now, nil
}

func (t *memTransport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *memTransport) StreamCh() <-chan net.Conn           { return t.streams }

func (t *memTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

var errRefused = errors.New("connection refused")

func (t *memTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	to, ok := t.net.reach(t.addr.Addr(), a.Addr, true)
	wait := 2 * t.net.latency
	if !ok {
		wait = timeout
	}
	select {
	case <-t.closed:
		return nil, net.ErrClosed
	case <-time.After(wait):
	}
	if !ok {
		return nil, fmt.Errorf("dial %s: i/o timeout", a.Addr)
	}
	if to == nil {
		return nil, fmt.Errorf("dial %s: %w", a.Addr, errRefused)
	}
	mine, theirs := net.Pipe()
	select {
	case <-to.closed:
		return nil, fmt.Errorf("dial %s: %w", a.Addr, errRefused)
	case to.streams <- &memConn{theirs, t, net.TCPAddrFromAddrPort(t.addr), timeout}:
		return &memConn{mine, t, net.TCPAddrFromAddrPort(to.addr), timeout}, nil
	default:
		return nil, fmt.Errorf("dial %s: backlog full", a.Addr)
	}
}

func (t *memTransport) Shutdown() error {
	t.once.Do(func() {
		t.net.mu.Lock()
		defer t.net.mu.Unlock()
		if t.net.nodes[t.addr.String()] == t {
			delete(t.net.nodes, t.addr.String())
		}
		close(t.closed)
		for len(t.streams) > 0 {
			if c, ok := <-t.streams; ok {
				c.Close()
			}
		}
	})
	return nil
}

type memConn struct {
	net.Conn
	t       *memTransport
	remote  net.Addr
	timeout time.Duration
}

func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) Write(b []byte) (int, error) {
	c.t.net.bytes.Add(uint64(len(b) + 40))
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func nodeList(n int) []Node {
	var list []Node
	for i := range n {
		site := "a"
		if i >= (n+1)/2 {
			site = "b"
		}
		list = append(list, Node{"n" + strconv.Itoa(i), site, netip.AddrFrom4([4]byte{10, 0, byte(i / 200), byte(1 + i%200)})})
	}
	return list
}
