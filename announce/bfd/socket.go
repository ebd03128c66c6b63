package bfd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

const (
	// The ports that a session sends from (RFC 5881, 4).
	firstPort, lastPort = 49152, 65535

	ttl = 255
	tos = 0xc0 // CS6, as routing protocols have it

	// portTries is how many ports are tried, at random.
	portTries = 100
)

// listenKey names a socket that packets come in on.
type listenKey struct {
	v6   bool
	hops Hops
}

func (k listenKey) network() string {
	if k.v6 {
		return "udp6"
	}
	return "udp4"
}

// ports are the well-known ones, or a test's.
type ports struct {
	listen, dial map[Hops]uint16
}

func wellKnown() ports {
	m := map[Hops]uint16{HopsSingle: portSingle, HopsMulti: portMulti}
	return ports{listen: m, dial: m}
}

// listener receives what comes in on a port.
type listener struct {
	key  listenKey
	conn *net.UDPConn
	raw  syscall.RawConn
	buf  [maxPacket + 1]byte
	oob  [128]byte
}

// datagram is a packet as it came in. body is only valid until the next read.
type datagram struct {
	from netip.Addr // with its zone where it is link-local
	ttl  int
	hops Hops
	body []byte
}

func listen(k listenKey, port uint16) (*listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return setOptions(c, func(fd int) error {
			if k.v6 {
				return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
			}
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
		})
	}}
	conn, raw, err := open(lc, k.network(), ":"+strconv.Itoa(int(port)))
	if err != nil {
		return nil, fmt.Errorf("listening for BFD on UDP port %d: %w", port, err)
	}
	return &listener{key: k, conn: conn, raw: raw}, nil
}

func open(lc net.ListenConfig, network, address string) (*net.UDPConn, syscall.RawConn, error) {
	c, err := lc.ListenPacket(context.Background(), network, address)
	if err != nil {
		return nil, nil, err
	}
	conn, ok := c.(*net.UDPConn)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("%T is no UDP socket", c), c.Close())
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, raw, nil
}

func setOptions(c syscall.RawConn, set func(fd int) error) error {
	var err error
	return errors.Join(c.Control(func(fd uintptr) { err = os.NewSyscallError("setsockopt", set(int(fd))) }), err)
}

// serve calls ready whenever something has come in, until the socket is closed.
// ready must read until it is empty.
func (l *listener) serve(ready func()) error {
	return l.raw.Read(func(uintptr) bool {
		ready()
		return false
	})
}

// next reads one packet without waiting for it.
func (l *listener) next() (d datagram, ok bool) {
	cerr := l.raw.Control(func(fd uintptr) { d, ok = l.recv(int(fd)) })
	return d, ok && cerr == nil // closed: nothing comes in any more
}

func (l *listener) recv(fd int) (datagram, bool) {
	for {
		n, oobn, _, from, err := unix.Recvmsg(fd, l.buf[:], l.oob[:], unix.MSG_DONTWAIT)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return datagram{}, false // mostly EAGAIN; whatever it is, the next call shows
		}
		if err == nil {
			return datagram{from: address(from), ttl: l.ttlOf(l.oob[:oobn]), hops: l.key.hops, body: l.buf[:n]}, true
		}
	}
}

// ttlOf reads the TTL or hop limit that the kernel put beside a packet; 0 where
// it did not.
func (l *listener) ttlOf(oob []byte) int {
	if l.key.v6 {
		var cm ipv6.ControlMessage
		if cm.Parse(oob) != nil {
			return 0
		}
		return cm.HopLimit
	}
	var cm ipv4.ControlMessage
	if cm.Parse(oob) != nil {
		return 0
	}
	return cm.TTL
}

func address(sa unix.Sockaddr) netip.Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(sa.Addr)
	case *unix.SockaddrInet6:
		a := netip.AddrFrom16(sa.Addr)
		if !a.IsLinkLocalUnicast() {
			return a
		}
		if ifi, err := net.InterfaceByIndex(int(sa.ZoneId)); err == nil {
			return a.WithZone(ifi.Name)
		}
		return a
	default:
		return netip.Addr{}
	}
}

// sender sends the packets of one session, all from the same port.
type sender struct {
	conn *net.UDPConn
}

func newSender(p Peer) (*sender, error) {
	k := listenKey{v6: p.Address.Is6()}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return setOptions(c, func(fd int) error {
			if k.v6 {
				return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ttl),
					unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, tos))
			}
			return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, ttl),
				unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, tos))
		})
	}}
	host := ""
	if p.Source.IsValid() {
		host = p.Source.String()
	}
	var err error
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // only to be free
		var conn *net.UDPConn
		conn, _, err = open(lc, k.network(), net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return &sender{conn: conn}, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("opening a socket towards %s: %w", p.Address, err)
}

func (s *sender) send(b []byte, to netip.AddrPort) error {
	_, err := s.conn.WriteToUDPAddrPort(b, to)
	return err
}
