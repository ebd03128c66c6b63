package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	readBuffer   = 64 << 10
	eventsBuffer = 2 << 20 // bytes of the kernel's memory for what ended between two reads
	answerWait   = time.Second
)

// socket is a netlink socket of the kernel's socket diagnostics. It is read
// without waiting, but for an answer that the kernel is about to give.
type socket struct {
	fd  int
	buf []byte
	seq uint32
}

// openSocket must run in the network namespace whose sockets are meant. groups
// are multicast groups by their numbers.
func openSocket(groups ...int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("opening the kernel's socket diagnostics: %w", os.NewSyscallError("socket", err))
	}
	s := &socket{fd: fd, buf: make([]byte, readBuffer)}
	sa := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	for _, g := range groups {
		sa.Groups |= 1 << (g - 1)
	}
	wait := unix.NsecToTimeval(answerWait.Nanoseconds())
	err = errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.Bind(fd, sa),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting up the kernel's socket diagnostics: %w", err), s.close())
	}
	return s, nil
}

func (s *socket) close() error { return os.NewSyscallError("close", unix.Close(s.fd)) }

// dump asks for all live connections to target and calls f with each.
func (s *socket) dump(target netip.AddrPort, f func(Socket)) error {
	s.seq++
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(s.fd, request(target, s.seq), 0, to); err != nil {
		return fmt.Errorf("asking the kernel for connections: %w", os.NewSyscallError("sendto", err))
	}
	for done := false; !done; {
		b, err := s.receive(0)
		if err != nil {
			return fmt.Errorf("reading the kernel's connections: %w", err)
		}
		err = eachMessage(b, func(typ uint16, body []byte) error {
			switch typ {
			case unix.NLMSG_DONE:
				done = true
			case unix.NLMSG_ERROR:
				return kernelError(body)
			case sockDiagByFamily:
				c, err := parse(body)
				if err != nil {
					return err
				}
				f(c)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading the kernel's connections: %w", err)
		}
	}
	return nil
}

// kernelError reads a struct nlmsgerr.
func kernelError(body []byte) error {
	if len(body) < 4 {
		return errShort
	}
	code := -int32(binary.NativeEndian.Uint32(body)) //nolint:gosec // it is signed
	if code == 0 {
		return nil
	}
	return syscall.Errno(code) //nolint:gosec // a small positive number
}

// drain calls f with each connection that ended since the last call. lost says
// that the kernel had more than its buffer holds; the rest is still good.
func (s *socket) drain(f func(Socket)) (lost bool, err error) {
	for {
		b, err := s.receive(unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return lost, nil
		case errors.Is(err, unix.ENOBUFS):
			lost = true
			continue
		case err != nil:
			return lost, fmt.Errorf("reading which connections ended: %w", err)
		}
		err = eachMessage(b, func(typ uint16, body []byte) error {
			if typ != sockDiagByFamily {
				return nil
			}
			c, err := parse(body)
			if err != nil {
				return err
			}
			f(c)
			return nil
		})
		if err != nil {
			return lost, fmt.Errorf("reading which connections ended: %w", err)
		}
	}
}

func (s *socket) receive(flags int) ([]byte, error) {
	for {
		n, _, err := unix.Recvfrom(s.fd, s.buf, flags)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		return s.buf[:n], nil
	}
}

// limitTo makes the kernel drop everything but connections to target before it
// takes room in the socket.
func (s *socket) limitTo(target netip.AddrPort) error {
	const base = unix.SizeofNlMsghdr
	addr := target.Addr().AsSlice()
	words := len(addr) / 4
	var prog []bpf.Instruction
	// One mismatch anywhere leads to the last instruction.
	mustBe := func(off uint32, size int, val uint32) {
		left := 2*(words+2) - len(prog) - 1
		prog = append(prog,
			bpf.LoadAbsolute{Off: off, Size: size},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: val, SkipTrue: uint8(left)}) //nolint:gosec // at most 12
	}
	mustBe(base, 1, uint32(family(target.Addr())))
	mustBe(base+6, 2, uint32(target.Port()))
	for i := range words {
		mustBe(base+24+uint32(4*i), 4, binary.BigEndian.Uint32(addr[4*i:])) //nolint:gosec // 0 to 3
	}
	prog = append(prog, bpf.RetConstant{Val: 1 << 16}, bpf.RetConstant{Val: 0})
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return fmt.Errorf("assembling the filter: %w", err)
	}
	filters := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filters[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	err = unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}) //nolint:gosec // a few
	if err != nil {
		return fmt.Errorf("attaching the filter: %w", os.NewSyscallError("setsockopt", err))
	}
	// Without CAP_NET_ADMIN the buffer stays within the system's limit, and
	// more of what happens on a busy host is left out.
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, eventsBuffer) != nil {
		err = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, eventsBuffer)
	}
	return os.NewSyscallError("setsockopt", err)
}
