package cluster

import (
	"context"
	"log" //nolint:depguard // memberlist's logger is of that type
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// netTransport is memberlist's UDP and TCP with three differences. Connections
// come from the bound address: the kernel would choose by route otherwise, and
// a host that announces VIPs has addresses that are not its own. Writes have a
// deadline: memberlist sets one on streams that it reads only. And Shutdown
// ends the connections under way, so that a silent peer does not hold it up.
type netTransport struct {
	*memberlist.NetTransport
	local  net.IP
	ctx    context.Context // until Shutdown
	cancel context.CancelFunc

	mu    sync.Mutex
	conns map[*stream]bool
}

func listen(bind netip.Addr, port int, log *log.Logger) (*netTransport, error) {
	t, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{bind.String()}, BindPort: port, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	nt := &netTransport{NetTransport: t, conns: map[*stream]bool{}}
	nt.ctx, nt.cancel = context.WithCancel(context.Background())
	if !bind.IsUnspecified() {
		nt.local = bind.AsSlice()
	}
	return nt, nil
}

// DialTimeout implements memberlist.Transport.
func (t *netTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *netTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	if t.local != nil {
		d.LocalAddr = &net.TCPAddr{IP: t.local}
	}
	c, err := d.DialContext(t.ctx, "tcp", a.Addr)
	if err != nil {
		return nil, err
	}
	s := &stream{Conn: c, owner: t, timeout: timeout}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		c.Close()
		return nil, t.ctx.Err()
	}
	t.conns[s] = true
	return s, nil
}

// Shutdown implements memberlist.Transport.
func (t *netTransport) Shutdown() error {
	t.cancel()
	t.mu.Lock()
	for s := range t.conns {
		s.Conn.Close()
	}
	t.mu.Unlock()
	return t.NetTransport.Shutdown()
}

// stream is a connection that this node made.
type stream struct {
	net.Conn
	owner   *netTransport
	timeout time.Duration
}

// Write implements net.Conn.
func (s *stream) Write(b []byte) (int, error) {
	if s.timeout > 0 {
		if err := s.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
			return 0, err
		}
	}
	return s.Conn.Write(b)
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.owner.mu.Lock()
	delete(s.owner.conns, s)
	s.owner.mu.Unlock()
	return s.Conn.Close()
}
