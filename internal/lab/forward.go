package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	forwardFrame  = 70 << 10 // bytes: the largest frame with offload
	forwardQueue  = 4096     // frames on their way in one direction; more are dropped
	forwardBuffer = 4 << 20  // bytes of a socket's receive buffer
)

// Forwarder is a wire through a node, which takes time: what comes in at one
// interface goes out at the other after a while, in order. The kernel's own
// delay (netem) is not in every kernel.
type Forwarder struct {
	node  *Node
	delay atomic.Int64 // nanoseconds
	files [2]*os.File
	wg    sync.WaitGroup
	once  sync.Once
}

// frame is one on its way.
type frame struct {
	due  time.Time
	data []byte
}

// Forward joins two interfaces of the node, which should have no addresses,
// until the lab ends. It begins without delay.
func (n *Node) Forward(one, other string) *Forwarder {
	n.lab.tb.Helper()
	f := &Forwarder{node: n}
	for i, name := range []string{one, other} {
		var err error
		derr := n.net.do(func() { f.files[i], err = n.frameSocket(name) })
		if err = errors.Join(derr, err); err != nil {
			n.lab.tb.Fatalf("%s: forwarding at %s: %v", n.Name, name, err)
		}
	}
	for i := range f.files {
		queue := make(chan frame, forwardQueue)
		f.wg.Go(func() { f.read(f.files[i], queue) })
		f.wg.Go(func() { write(f.files[1-i], queue) })
	}
	context.AfterFunc(n.lab.ctx, f.close)
	return f
}

// SetDelay changes how long frames take, in each direction.
func (f *Forwarder) SetDelay(d time.Duration) { f.delay.Store(int64(d)) }

func (f *Forwarder) close() {
	f.once.Do(func() {
		for _, file := range f.files {
			_ = file.Close() // nothing was buffered
		}
		f.wg.Wait()
	})
}

// frameSocket must run in the node's network namespace. Frames carry the
// header that says what of them is left to be done by a network card:
// checksums, segmentation.
func (n *Node) frameSocket(iface string) (*os.File, error) {
	link, err := n.nl.LinkByName(iface)
	if err != nil {
		return nil, err
	}
	all := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00) // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, forwardBuffer),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting up a packet socket: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "forward "+iface), nil
}

// read takes frames in until the file is closed.
func (f *Forwarder) read(from *os.File, queue chan<- frame) {
	defer close(queue)
	buf := make([]byte, forwardFrame)
	for {
		n, err := from.Read(buf)
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil: // the interface went down; it may come back
			continue
		}
		select {
		case queue <- frame{time.Now().Add(time.Duration(f.delay.Load())), append([]byte(nil), buf[:n]...)}:
		default: // the wire is full
		}
	}
}

// write lets frames out, each at its time.
func write(to *os.File, queue <-chan frame) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for fr := range queue {
		timer.Reset(time.Until(fr.due))
		<-timer.C
		_, _ = to.Write(fr.data) // a wire that is cut loses frames
	}
}
