package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ConnError is what went wrong with a connection, in one word.
type ConnError string

// The kinds of ConnError.
const (
	ConnRefused     ConnError = "refused"     // a reset in answer to SYN
	ConnReset       ConnError = "reset"       // a reset later
	ConnTimeout     ConnError = "timeout"     // no answer in time
	ConnUnreachable ConnError = "unreachable" // ICMP said so, or there is no route
	ConnClosed      ConnError = "closed"      // the other side ended it in order
	ConnOther       ConnError = "other"
)

// connError says which kind an error is.
func connError(err error) ConnError {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return ConnRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ConnReset
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return ConnTimeout
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return ConnUnreachable
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ConnClosed
	default:
		return ConnOther
	}
}

// Dial opens a TCP connection from the node to a literal address and port.
// Nothing answers within limit: an error that is os.ErrDeadlineExceeded.
func (n *Node) Dial(addr netip.AddrPort, limit time.Duration) (net.Conn, error) {
	f, err := n.connect(addr, time.Now().Add(limit))
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(f) // a copy of the descriptor
	return conn, errors.Join(err, f.Close())
}

// connect makes a socket in the node and connects it. Only the making happens
// on the node's thread, so any number of attempts may wait at once.
func (n *Node) connect(addr netip.AddrPort, deadline time.Time) (*os.File, error) {
	family, sa := sockaddr(addr)
	var fd int
	var err error
	derr := n.net.do(func() {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	})
	if err = errors.Join(derr, err); err != nil {
		return nil, fmt.Errorf("%s: opening a socket: %w", n.Name, err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	err = unix.Connect(fd, sa)
	f := os.NewFile(uintptr(fd), addr.String()) // only now: a socket that is not connected yet looks closed to the poller
	if err == nil || errors.Is(err, unix.EINPROGRESS) {
		err = waitConnected(f, deadline)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: connecting to %s: %w", n.Name, addr, err), f.Close())
	}
	return f, nil
}

// localEnd returns the own address and port of a connected socket.
func localEnd(f *os.File) (netip.AddrPort, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var sa unix.Sockaddr
	var serr error
	if err := errors.Join(raw.Control(func(fd uintptr) { sa, serr = unix.Getsockname(int(fd)) }), serr); err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading a socket's own address: %w", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), nil
	default:
		return netip.AddrPort{}, fmt.Errorf("a socket of unknown family: %T", sa)
	}
}

// resentBy returns how many packets a connected socket has sent again.
func resentBy(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var info *unix.TCPInfo
	var ierr error
	err = raw.Control(func(fd uintptr) { info, ierr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(err, ierr); err != nil {
		return 0, fmt.Errorf("reading what a socket has sent again: %w", err)
	}
	return int(info.Total_retrans), nil
}

func sockaddr(a netip.AddrPort) (int, unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// waitConnected waits until a connect in progress has ended, and returns how.
func waitConnected(f *os.File, deadline time.Time) error {
	if err := f.SetWriteDeadline(deadline); err != nil {
		return err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Write(func(fd uintptr) bool {
		var code int
		if code, result = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); result != nil {
			return true
		}
		if code != 0 {
			result = syscall.Errno(code)
			return true
		}
		_, result = unix.Getpeername(int(fd))
		if errors.Is(result, unix.ENOTCONN) {
			result = nil
			return false // still in progress
		}
		return true
	})
	return errors.Join(err, result)
}
