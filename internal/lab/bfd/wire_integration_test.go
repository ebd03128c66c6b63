//go:build integration

package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rhid/internal/lab"
)

// packet is a control packet on the wire at a router.
type packet struct {
	at       time.Time
	out      bool // sent by the router
	src, dst netip.Addr
	state    string
	poll     bool
	final    bool
}

// wire collects the control packets at one node. The decoders at hand take those
// from FRR's first source port for another protocol, so it reads them itself.
type wire struct {
	mu  sync.Mutex
	all []packet
}

// listen collects until the test ends.
func listen(t *testing.T, n *lab.Node) *wire {
	t.Helper()
	var f *os.File
	var err error
	n.Go(func() {
		var fd int
		const everything = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network order
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, everything); err == nil {
			f = os.NewFile(uintptr(fd), "packets")
			err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
				unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20)) // the reader may be late
		}
	})
	if err != nil {
		t.Fatalf("%s: opening a packet socket: %v", n.Name, err)
	}
	w := &wire{}
	ended := make(chan error, 1)
	go func() { ended <- w.read(f) }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("%s: reading packets: %v", n.Name, err)
		default:
		}
		_ = f.Close()
	})
	return w
}

func (w *wire) read(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	buf, oob := make([]byte, 2048), make([]byte, 128)
	for {
		var n, oobn int
		var from unix.Sockaddr
		var rerr error
		err := raw.Read(func(fd uintptr) bool {
			n, oobn, _, from, rerr = unix.Recvmsg(int(fd), buf, oob, 0)
			return !errors.Is(rerr, unix.EAGAIN)
		})
		if err = errors.Join(err, rerr); err != nil {
			return err
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if p, is := decode(buf[:n]); ok && is {
			p.at, p.out = stamp(oob[:oobn]), ll.Pkttype == unix.PACKET_OUTGOING
			w.mu.Lock()
			w.all = append(w.all, p)
			w.mu.Unlock()
		}
	}
}

// stamp is the kernel's time of a packet, which the test's own pauses do not move.
func stamp(oob []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 || len(messages[0].Data) < 16 {
		return time.Time{}
	}
	d := messages[0].Data
	return time.Unix(int64(binary.NativeEndian.Uint64(d)), int64(binary.NativeEndian.Uint64(d[8:])))
}

// decode reads a BFD packet from an IP packet.
func decode(b []byte) (packet, bool) {
	var p packet
	switch {
	case len(b) > 20 && b[0]>>4 == 4 && b[9] == unix.IPPROTO_UDP:
		p.src, p.dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		b = b[min(int(b[0]&15)*4, len(b)):]
	case len(b) > 40 && b[0]>>4 == 6 && b[6] == unix.IPPROTO_UDP:
		p.src, p.dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
		b = b[40:]
	default:
		return p, false
	}
	if len(b) < 8+24 {
		return p, false
	}
	if port := binary.BigEndian.Uint16(b[2:]); port != 3784 && port != 4784 {
		return p, false
	}
	flags := b[9]
	p.state = [...]string{"admin-down", "down", "init", "up"}[flags>>6]
	p.poll, p.final = flags&0x20 != 0, flags&0x10 != 0
	return p, true
}

// of are the packets of a path since a moment.
func (w *wire) of(p path, since time.Time) []packet {
	near, far := netip.MustParseAddr(p.near), netip.MustParseAddr(p.far)
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []packet
	for _, k := range w.all {
		if k.at.After(since) && (k.src == far && k.dst == near || k.src == near && k.dst == far) {
			all = append(all, k)
		}
	}
	return all
}

// says waits until the router sends a state on a path, and returns when.
func (b *bench) says(p path, state string, since time.Time) time.Time {
	b.t.Helper()
	var at time.Time
	b.WaitFor(fmt.Sprintf("%s: the router says %s", p.name(), state), comeUp, func() bool {
		for _, k := range b.wire[p.router].of(p, since) {
			if k.out && k.state == state {
				at = k.at
				return true
			}
		}
		return false
	})
	return at
}
