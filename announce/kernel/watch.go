package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	subscriptionBuffer = 4 << 20 // bytes; some 10,000 events
	resubscribeMin     = 50 * time.Millisecond
	resubscribeMax     = 2 * time.Second
	overflowLogGap     = 10 * time.Second
)

// subscribe opens a socket that receives all changes to links, addresses and
// routes. netns.None() is the namespace of the calling thread.
func subscribe(ns netns.NsHandle) (*nl.NetlinkSocket, error) {
	s, err := nl.SubscribeAt(ns, netns.None(), unix.NETLINK_ROUTE, unix.RTNLGRP_LINK,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("subscribe to changes: %w", err)
	}
	// Beyond the system's limit only with CAP_NET_ADMIN; up to it anyway.
	if s.SetReceiveBufferSize(subscriptionBuffer, true) != nil {
		_ = s.SetReceiveBufferSize(subscriptionBuffer, false) // the default buffer works, and overflows earlier
	}
	return s, nil
}

// subscribeHere subscribes in the namespace of Open. Entering it needs a
// privilege that the daemon does not have, so that is only done by a thread
// that is really elsewhere.
func (w *World) subscribeHere() (*nl.NetlinkSocket, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ns := w.ns
	if ns.IsOpen() {
		if here, err := netns.Get(); err == nil {
			if here.Equal(ns) {
				ns = netns.None()
			}
			_ = here.Close() // read only
		}
	}
	return subscribe(ns)
}

// Run watches the kernel, and the routing daemons where they are asked, until
// ctx ends. It returns nil.
func (w *World) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.watchKernel(ctx) })
	if w.back != nil {
		g.Go(func() error { return w.back.Run(ctx) })
		g.Go(func() error { return w.passOn(ctx) })
	}
	return g.Wait()
}

// passOn has the routes compared when a routing daemon has news.
func (w *World) passOn(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.back.Changes():
			select {
			case w.route.changes <- struct{}{}:
			default: // one is waiting already
			}
		}
	}
}

// watchKernel subscribes again when the subscription fails.
func (w *World) watchKernel(ctx context.Context) error {
	pause := resubscribeMin
	for {
		started := time.Now()
		err := w.watch(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(started) > resubscribeMax {
			pause = resubscribeMin
		}
		w.log.Warn("watching the kernel failed, subscribing again", "error", err, "pause", pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, resubscribeMax)
	}
}

// watch receives changes until that fails or ctx ends. It starts with a
// signal, for what happened while nobody watched.
func (w *World) watch(ctx context.Context) error {
	s, err := w.subscription()
	if err != nil {
		return err
	}
	defer w.drop()
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	w.outdate(true)
	w.signal()
	var lastLog time.Time
	for {
		msgs, from, err := s.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// The socket goes on; what was lost is found by comparing.
			w.outdate(true)
			w.signal()
			if time.Since(lastLog) > overflowLogGap {
				lastLog = time.Now()
				w.log.Warn("changes in the kernel came faster than they could be read, comparing in full")
			}
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("receive changes: %w", err)
		case from.Pid != nl.PidKernel:
			continue
		}
		w.handle(msgs)
	}
}

func (w *World) handle(msgs []syscall.NetlinkMessage) {
	f := filter{conf: w.conf.Load()}
	if w.kernel != nil {
		f.self = w.kernel.portID
	}
	concerned := false
	for _, m := range msgs {
		if m.Header.Type == unix.RTM_DELADDR {
			w.noteLease(m.Data)
		}
		w.sight(f.conf, m.Header.Type, m.Data)
		concerned = concerned || f.concerns(m.Header.Type, m.Header.Pid, m.Data)
	}
	if concerned {
		w.signal()
	}
}

// subscription returns the socket that Open made, or a new one.
func (w *World) subscription() (*nl.NetlinkSocket, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sub == nil {
		s, err := w.subscribeHere()
		if err != nil {
			return nil, err
		}
		w.sub = s
	}
	return w.sub, nil
}

func (w *World) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sub != nil {
		w.sub.Close()
		w.sub = nil
	}
}

// filter tells the few events that concern rhid from the many of a busy host.
type filter struct {
	conf *conf
	self uint32 // port of the socket that rhid makes its changes with
}

// concerns says whether what Read returns may differ after the event. An event
// that cannot be read concerns rhid.
func (f filter) concerns(kind uint16, from uint32, data []byte) bool {
	if f.self != 0 && from == f.self {
		return false
	}
	switch kind {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return f.routeConcerns(kind, data)
	case unix.RTM_NEWADDR:
		a, ok := parseAddr(data)
		return !ok || f.conf.known[a.prefix.Addr()]
	case unix.RTM_DELADDR:
		return true // the last one takes routes with it, silently
	case unix.RTM_DELLINK:
		return true
	case unix.RTM_NEWLINK:
		if len(data) < unix.SizeofIfInfomsg {
			return true
		}
		msg := nl.DeserializeIfInfomsg(data)
		return msg.Index == loopback || msg.Flags&unix.IFF_UP == 0
	}
	return false
}

func (f filter) routeConcerns(kind uint16, data []byte) bool {
	r, cloned, ok := parseRoute(data)
	if !ok {
		// Other families than IPv4 and IPv6 are none of rhid's.
		return len(data) < unix.SizeofRtMsg || data[0] == unix.AF_INET || data[0] == unix.AF_INET6
	}
	if cloned {
		return false
	}
	if f.conf.ownRoute(r) {
		return true
	}
	if kind == unix.RTM_NEWROUTE && r.proto == unix.RTPROT_KERNEL && r.dst.Addr().Is4() {
		// The local route of an address, which has an event of its own. In
		// IPv6 it comes later than that, and only then the address works.
		return false
	}
	return f.conf.allowed[r.dst]
}
