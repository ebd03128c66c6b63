package checks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	rtnetlinkBuffer   = 64 << 10        // bytes; the kernel never sends more in one piece
	rtnetlinkWait     = 2 * time.Second // where the probe has no limit of its own
	rtnetlinkAttempts = 3               // a list that a change ran into is asked for again
	rtnetlinkTypeMask = 0x3fff          // NLA_TYPE_MASK: the rest of an attribute's type are flags
)

// errInterrupted says that the kernel's table changed while it was read.
var errInterrupted = errors.New("the kernel's table changed while it was read")

// dumpKernel asks the kernel for a list of links, addresses or routes
// (rtnetlink(7)) in the network namespace of the calling thread, and returns
// the messages of type answer. body is the request's header: which list of
// which family.
func dumpKernel(ctx context.Context, kind, answer uint16, body []byte) ([]syscall.NetlinkMessage, error) {
	for range rtnetlinkAttempts - 1 {
		msgs, err := dumpOnce(ctx, kind, answer, body)
		if !errors.Is(err, errInterrupted) {
			return msgs, err
		}
	}
	return dumpOnce(ctx, kind, answer, body)
}

func dumpOnce(ctx context.Context, kind, answer uint16, body []byte) ([]syscall.NetlinkMessage, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written that could be lost
	// The kernel then looks at all of the request, and sends only what it asks
	// for; before 4.20 it sends more, and the caller sorts that out.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	wait := rtnetlinkWait
	if end, ok := ctx.Deadline(); ok {
		wait = max(time.Millisecond, time.Until(end))
	}
	tv := unix.NsecToTimeval(wait.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Sendto(fd, netlinkRequest(kind, body), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	return readDump(fd, answer)
}

// netlinkRequest puts the netlink header before a request's body.
func netlinkRequest(kind uint16, body []byte) []byte {
	var h [unix.SizeofNlMsghdr]byte
	binary.NativeEndian.PutUint32(h[0:], uint32(len(h)+len(body)))
	binary.NativeEndian.PutUint16(h[4:], kind)
	binary.NativeEndian.PutUint16(h[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	binary.NativeEndian.PutUint32(h[8:], 1) // sequence number: there is one request
	return append(h[:], body...)
}

// readDump collects the answer until the kernel says that it is complete.
func readDump(fd int, answer uint16) ([]syscall.NetlinkMessage, error) {
	var out []syscall.NetlinkMessage
	buf := make([]byte, rtnetlinkBuffer)
	interrupted := false
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, os.NewSyscallError("recvfrom", err)
		}
		msgs, err := syscall.ParseNetlinkMessage(append([]byte(nil), buf[:n]...))
		if err != nil {
			return nil, fmt.Errorf("read the kernel's answer: %w", err)
		}
		for _, m := range msgs {
			interrupted = interrupted || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				if interrupted {
					return nil, errInterrupted
				}
				return out, nil
			case unix.NLMSG_ERROR:
				return nil, netlinkError(m.Data)
			case answer:
				out = append(out, m)
			}
		}
	}
}

// netlinkError reads the error in an NLMSG_ERROR message.
func netlinkError(data []byte) error {
	code, ok := uint32Of(data)
	if !ok {
		return errors.New("the kernel refused, and did not say why")
	}
	return os.NewSyscallError("rtnetlink", syscall.Errno(-int32(code)))
}

// attribute is one of those that follow a message's header.
type attribute struct {
	kind  uint16
	value []byte
}

// attributes lists the attributes behind a header of size bytes. A list that
// is cut short ends where it is.
func attributes(data []byte, size int) []attribute {
	var out []attribute
	for b := data[min(size, len(data)):]; len(b) >= unix.SizeofRtAttr; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return out
		}
		kind := binary.NativeEndian.Uint16(b[2:]) & rtnetlinkTypeMask
		out = append(out, attribute{kind, b[unix.SizeofRtAttr:n]})
		b = b[min(len(b), (n+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1)):]
	}
	return out
}

func uint32Of(b []byte) (uint32, bool) {
	if len(b) < 4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(b), true
}

func addrOf(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

// kernelFailure explains why the kernel did not answer.
func kernelFailure(ctx context.Context, err error, limit string) *failure {
	if errors.Is(err, unix.EAGAIN) {
		return &failure{CauseInternal, "the kernel did not answer within " + limit}
	}
	if f := netFailure(ctx, err, "the kernel did not answer within "+limit); f.cause != CauseNetwork {
		return f
	}
	return failf(CauseInternal, "the kernel did not answer: %v", err)
}
