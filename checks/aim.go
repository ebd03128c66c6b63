package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// aim is a Target made ready for probing: what can be found out once is found
// out once.
type aim struct {
	host   string
	addr   netip.Addr // of a target that is no name
	port   uint16
	source netip.Addr
	device string
	mark   uint32
	limit  time.Duration
	dialer net.Dialer
}

// newAim checks t. Errors say what about the target is wrong.
func newAim(t Target, kind TargetKind) (*aim, error) {
	if t.Host == "" {
		return nil, errors.New("the check needs a target")
	}
	if kind == TargetPort && t.Port == 0 {
		return nil, fmt.Errorf("target %s has no port", t.Host)
	}
	a := &aim{
		host: t.Host, addr: t.Addr.Unmap(), port: t.Port, source: t.Source.Unmap(),
		device: t.Device, mark: t.Mark, limit: t.Limit,
	}
	if addr, err := netip.ParseAddr(t.Host); err == nil {
		a.addr = addr.Unmap()
	}
	if a.addr.IsValid() && a.source.IsValid() && a.source.Is4() != a.addr.Is4() {
		return nil, fmt.Errorf("source %s and target %s are of different address families", a.source, a.addr)
	}
	a.dialer.KeepAlive = -1 // the connection is gone before a keepalive could be due
	a.dialer.ControlContext = a.control
	return a, nil
}

// control prepares a socket that package net made.
func (a *aim) control(ctx context.Context, network, address string, c syscall.RawConn) error {
	var serr error
	err := c.Control(func(fd uintptr) { serr = a.prepare(int(fd)) })
	if err := errors.Join(err, serr); err != nil {
		return err
	}
	return latePort(ctx, network, address, c)
}

// prepare makes a socket that is not connected yet leave by the target's
// device and with its mark. All sockets of probes go through here.
func (a *aim) prepare(fd int) error {
	if a.device != "" {
		if err := unix.BindToDevice(fd, a.device); err != nil {
			return &prepareError{"interface " + a.device, err}
		}
	}
	if a.mark != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(a.mark)); err != nil {
			return &prepareError{fmt.Sprintf("mark %#x", a.mark), err}
		}
	}
	return nil
}

// prepareError is why a socket could not be prepared: the host's fault.
type prepareError struct {
	what string
	err  error
}

func (e *prepareError) Error() string {
	switch {
	case errors.Is(e.err, unix.ENODEV):
		return e.what + " is not on this host"
	case errors.Is(e.err, unix.EPERM):
		return e.what + " cannot be used without CAP_NET_ADMIN"
	default:
		return fmt.Sprintf("%s cannot be used: %v", e.what, e.err)
	}
}

// latePort lets the kernel choose the local port at connect rather than at
// bind, which DialTCP does even without a source address. A port would
// otherwise be taken from all targets at once: with a thousand checks a second
// the kernel would look for a free one for milliseconds, and could run out.
func latePort(_ context.Context, _, _ string, c syscall.RawConn) error {
	var serr error
	err := c.Control(func(fd uintptr) {
		serr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
	return errors.Join(err, serr)
}

// resolve returns the address to probe. A name is looked up at each probe and
// the first address that the resolver prefers (RFC 6724) is taken: trying the
// others would hide that one of them does not work.
func (a *aim) resolve(ctx context.Context) (netip.Addr, *failure) {
	if a.addr.IsValid() {
		return a.addr, nil
	}
	return a.lookup(ctx, a.host)
}

func (a *aim) lookup(ctx context.Context, host string) (netip.Addr, *failure) {
	addrs, f := a.lookupAll(ctx, host)
	if f != nil {
		return netip.Addr{}, f
	}
	return addrs[0], nil
}

// lookupAll returns the addresses of a name that can be reached from the
// source, the preferred one first.
func (a *aim) lookupAll(ctx context.Context, host string) ([]netip.Addr, *failure) {
	network := "ip"
	if a.source.IsValid() {
		network = "ip6"
		if a.source.Is4() {
			network = "ip4"
		}
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	if err == nil && len(addrs) > 0 {
		for i := range addrs {
			addrs[i] = addrs[i].Unmap()
		}
		return addrs, nil
	}
	return nil, a.lookupFailure(ctx, host, err)
}

// lookupFailure explains why a name has no address.
func (a *aim) lookupFailure(ctx context.Context, host string, err error) *failure {
	var de *net.DNSError
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		return &failure{CauseInternal, "the probe was stopped"}
	case errors.As(err, &de) && de.IsNotFound, err == nil:
		return failf(CauseResolve, "name %s has no address", host)
	case errors.As(err, &de) && de.IsTimeout, ctx.Err() != nil:
		return failf(CauseResolve, "name %s was not resolved within %s", host, a.limitText())
	case errors.As(err, &de):
		return failf(CauseResolve, "name %s was not resolved: %s", host, de.Err)
	default:
		return failf(CauseResolve, "name %s was not resolved: %v", host, err)
	}
}

// dial looks the target up and connects to it.
func (a *aim) dial(ctx context.Context) (net.Conn, *failure) {
	addr, f := a.resolve(ctx)
	if f != nil {
		return nil, f
	}
	return a.dialAddr(ctx, netip.AddrPortFrom(addr, a.port))
}

// dialAddr opens a connection for net/http and crypto/tls.
func (a *aim) dialAddr(ctx context.Context, to netip.AddrPort) (net.Conn, *failure) {
	var from netip.AddrPort
	if a.source.IsValid() {
		from = netip.AddrPortFrom(a.source, 0)
	}
	conn, err := a.dialer.DialTCP(ctx, "tcp", from, to)
	if err != nil {
		return nil, a.dialFailure(ctx, err)
	}
	return conn, nil
}

// dialUDP opens a socket that sends to one address, and hears from it only;
// that nothing listens there is told by its next read or write.
func (a *aim) dialUDP(ctx context.Context, to netip.AddrPort) (*net.UDPConn, *failure) {
	var from netip.AddrPort
	if a.source.IsValid() {
		from = netip.AddrPortFrom(a.source, 0)
	}
	conn, err := a.dialer.DialUDP(ctx, "udp", from, to)
	if err != nil {
		return nil, a.dialFailure(ctx, err)
	}
	return conn, nil
}

// dialFailure explains why a connection could not be made.
func (a *aim) dialFailure(ctx context.Context, err error) *failure {
	var pe *prepareError
	if errors.As(err, &pe) {
		return &failure{CauseInternal, pe.Error()}
	}
	f := netFailure(ctx, err, "no answer within "+a.limitText()+" (SYN not answered)")
	if a.source.IsValid() && errors.Is(err, syscall.EADDRNOTAVAIL) {
		f.detail = fmt.Sprintf("source address %s is not on this host, or it has no free port left", a.source)
	}
	return f
}

// limitText is the time a probe has, for sentences.
func (a *aim) limitText() string { return limitText(a.limit) }

func limitText(limit time.Duration) string {
	if limit > 0 {
		return limit.String()
	}
	return "the timeout"
}
