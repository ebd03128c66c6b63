package bgp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	"golang.org/x/sys/unix"
)

const (
	ourASN   = 65010
	routeASN = 65000
	deadline = time.Minute // of everything a test waits for
)

// router is a small BGP peer that does only what a test tells it to: it sends
// no keepalive by itself, and can stop reading.
type router struct {
	t       testing.TB
	addr    netip.Addr
	asn     uint32
	hold    uint16
	caps    []bgp.ParameterCapabilityInterface
	segment int // maximum segment size; 0 is the kernel's

	mu   sync.Mutex
	conn net.Conn
	gate sync.Mutex // held: the router does not read
	in   chan *bgp.BGPMessage
	gone chan struct{} // closed when the present connection ended
}

func newRouter(t testing.TB, addr string, asn uint32) *router {
	r := &router{t: t, addr: netip.MustParseAddr(addr), asn: asn, hold: 90, in: make(chan *bgp.BGPMessage, 10000)}
	r.caps = []bgp.ParameterCapabilityInterface{
		bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC), bgp.NewCapMultiProtocol(bgp.RF_IPv6_UC),
		bgp.NewCapFourOctetASNumber(asn), bgp.NewCapRouteRefresh(),
	}
	t.Cleanup(r.cut)
	return r
}

// neighbour is the router as the speaker's passive neighbour.
func (r *router) neighbour() Neighbour {
	return Neighbour{Address: r.addr, ASN: r.asn, Passive: true, Hold: 90 * time.Second, IPv4: true, IPv6: true}
}

// connect dials the speaker until the session is established.
func (r *router) connect(to netip.AddrPort) {
	r.t.Helper()
	end := time.Now().Add(deadline)
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(r.addr, 0)), Timeout: time.Second}
	d.Control = func(_, _ string, c syscall.RawConn) error {
		if r.segment == 0 {
			return nil
		}
		var err error
		cerr := c.Control(func(fd uintptr) {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, r.segment),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096))
		})
		return errors.Join(err, cerr)
	}
	for {
		c, err := d.Dial("tcp", to.String())
		if err == nil {
			if err = r.open(c, 2*time.Second); err == nil {
				return
			}
		}
		if time.Now().After(end) {
			r.t.Fatalf("no session from %v to %v: %v", r.addr, to, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// open brings a connection to Established and begins to read it.
func (r *router) open(c net.Conn, within time.Duration) error {
	_ = c.SetDeadline(time.Now().Add(within))
	as := uint16(bgp.AS_TRANS)
	if r.asn < 65536 {
		as = uint16(r.asn)
	}
	id := fmt.Sprintf("192.0.2.%d", r.addr.As16()[15])
	open := bgp.NewBGPOpenMessage(as, r.hold, id, []bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(r.caps)})
	if err := write(c, open); err != nil {
		_ = c.Close()
		return err
	}
	for {
		m, err := read(c)
		if err != nil {
			_ = c.Close()
			return err
		}
		switch m.Header.Type {
		case bgp.BGP_MSG_OPEN:
			if err := write(c, bgp.NewBGPKeepAliveMessage()); err != nil {
				return err
			}
		case bgp.BGP_MSG_NOTIFICATION:
			_ = c.Close()
			return fmt.Errorf("refused: %v", m.Body)
		case bgp.BGP_MSG_KEEPALIVE:
			_ = c.SetDeadline(time.Time{})
			gone := make(chan struct{})
			r.mu.Lock()
			r.conn, r.gone = c, gone
			r.mu.Unlock()
			go r.read(c, gone)
			return nil
		}
	}
}

func (r *router) read(c net.Conn, gone chan struct{}) {
	defer close(gone)
	for {
		r.gate.Lock()
		r.gate.Unlock() //nolint:staticcheck,gocritic // only waits until the router reads again
		m, err := read(c)
		if err != nil {
			return
		}
		if m.Header.Type != bgp.BGP_MSG_KEEPALIVE && r.in != nil {
			r.in <- m
		}
	}
}

// cut ends the connection without a word.
func (r *router) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		_ = r.conn.Close()
	}
}

// forget drops what was received in a connection that has ended.
func (r *router) forget() {
	<-r.closed()
	for len(r.in) > 0 {
		<-r.in
	}
}

// closed is closed when the speaker ended the present connection.
func (r *router) closed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

func (r *router) send(m *bgp.BGPMessage) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := write(r.conn, m); err != nil {
		r.t.Fatalf("router %v: %v", r.addr, err)
	}
}

func (r *router) keepalive() { r.t.Helper(); r.send(bgp.NewBGPKeepAliveMessage()) }

// next is the next message that is no keepalive.
func (r *router) next() *bgp.BGPMessage {
	r.t.Helper()
	select {
	case m := <-r.in:
		return m
	case <-time.After(deadline):
		r.t.Fatalf("router %v received nothing", r.addr)
		return nil
	}
}

// update is the next message, which must be an UPDATE, in readable form.
func (r *router) update() string {
	r.t.Helper()
	m := r.next()
	u, ok := m.Body.(*bgp.BGPUpdate)
	if !ok {
		r.t.Fatalf("router %v received %T, not an UPDATE", r.addr, m.Body)
	}
	return describe(u)
}

// quiet fails when a message other than keepalives was received.
func (r *router) quiet() {
	r.t.Helper()
	select {
	case m := <-r.in:
		r.t.Fatalf("router %v received %v, wanted nothing", r.addr, m.Body)
	default:
	}
}

// describe writes an UPDATE in one line: prefixes, then attributes by type.
func describe(u *bgp.BGPUpdate) string {
	var out []string
	for _, p := range u.WithdrawnRoutes {
		out = append(out, "-"+p.String())
	}
	for _, p := range u.NLRI {
		out = append(out, "+"+p.String())
	}
	for _, a := range u.PathAttributes {
		switch a := a.(type) {
		case *bgp.PathAttributeMpReachNLRI:
			out = append(out, fmt.Sprintf("+%v via %v", a.Value[0], a.Nexthop))
		case *bgp.PathAttributeMpUnreachNLRI:
			out = append(out, fmt.Sprintf("-%v", a.Value[0]))
		case *bgp.PathAttributeNextHop:
			out = append(out, "via "+a.Value.String())
		case *bgp.PathAttributeAsPath:
			var as []string
			for _, s := range a.Value {
				for _, n := range s.GetAS() {
					as = append(as, fmt.Sprint(n))
				}
			}
			out = append(out, "path ["+strings.Join(as, " ")+"]")
		case *bgp.PathAttributeMultiExitDisc:
			out = append(out, fmt.Sprint("med ", a.Value))
		case *bgp.PathAttributeLocalPref:
			out = append(out, fmt.Sprint("pref ", a.Value))
		case *bgp.PathAttributeCommunities:
			out = append(out, fmt.Sprint("communities ", a.Value))
		case *bgp.PathAttributeLargeCommunities:
			out = append(out, fmt.Sprint("large ", a.Values))
		case *bgp.PathAttributeExtendedCommunities:
			for _, c := range a.Value {
				if bw, ok := c.(*bgp.LinkBandwidthExtended); ok {
					out = append(out, fmt.Sprint("bandwidth ", bw.Bandwidth))
				}
			}
		case *bgp.PathAttributeOrigin:
			if a.Value != 0 {
				out = append(out, fmt.Sprint("origin ", a.Value))
			}
		default:
			out = append(out, fmt.Sprintf("%T", a))
		}
	}
	return strings.Join(out, ", ")
}

func write(c net.Conn, m *bgp.BGPMessage) error {
	b, err := m.Serialize()
	if err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}

func read(c net.Conn) (*bgp.BGPMessage, error) {
	b := make([]byte, bgp.BGP_HEADER_LENGTH)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	body := make([]byte, int(binary.BigEndian.Uint16(b[16:18]))-len(b))
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	return bgp.ParseBGPMessage(append(b, body...))
}
