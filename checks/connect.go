package checks

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// connectTCP opens a connection with as few system calls as can be: a thousand
// tcp checks a second are to cost little. net.Dialer would start a goroutine,
// set options and ask for both addresses, none of which a probe needs. What it
// returns reads, writes and takes deadlines like a net.Conn.
func (a *aim) connectTCP(ctx context.Context, to netip.AddrPort) (*os.File, error) {
	family := unix.AF_INET6
	if to.Addr().Is4() {
		family = unix.AF_INET
	}
	sa, err := sockaddr(to.Addr(), to.Port())
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := a.prepare(fd); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	if a.source.IsValid() {
		if err := bindSource(fd, a.source); err != nil {
			return nil, errors.Join(err, unix.Close(fd))
		}
	}
	err = unix.Connect(fd, sa)
	if err != nil && !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.EINTR) {
		return nil, errors.Join(os.NewSyscallError("connect", err), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "tcp")
	if err == nil {
		return f, nil
	}
	if err := connected(ctx, f, sa); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// bindSource sets the local address and leaves the port to connect; see
// latePort.
func bindSource(fd int, source netip.Addr) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	sa, err := sockaddr(source, 0)
	if err != nil {
		return err
	}
	return os.NewSyscallError("bind", unix.Bind(fd, sa))
}

// connected waits until a connection under way is made, or has failed.
func connected(ctx context.Context, f *os.File, sa unix.Sockaddr) error {
	defer bind(ctx, f)()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var outcome error
	err = raw.Write(func(fd uintptr) (done bool) {
		// Asking again tells how it went, or that it still goes on: before the
		// wait, because the socket may have become ready since, which the
		// poller tells only once; and after it, should it have ended for
		// nothing.
		switch e := unix.Connect(int(fd), sa); {
		case e == nil, errors.Is(e, unix.EISCONN):
			return true
		case errors.Is(e, unix.EALREADY), errors.Is(e, unix.EINPROGRESS), errors.Is(e, unix.EINTR):
			return false
		default:
			outcome = os.NewSyscallError("connect", e)
			return true
		}
	})
	if err != nil {
		return err
	}
	return outcome
}

// deadliner is what has a deadline: a net.Conn, a file that can be polled.
type deadliner interface{ SetDeadline(time.Time) error }

// bind ties a connection to ctx: reads and writes fail once ctx ends. The
// returned function unties it.
func bind(ctx context.Context, conn deadliner) (unbind func() bool) {
	if d, ok := ctx.Deadline(); ok {
		// A connection refuses a deadline only when it is closed already, and
		// then the next read says so.
		_ = conn.SetDeadline(d)
	}
	return context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
}
