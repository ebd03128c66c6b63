//go:build integration

package kernel

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"rhid/announce"
)

// patience is how long a test waits for what is to happen: nobody measures that.
const patience = 30 * time.Second

// bench is a fresh network namespace without a name, with lo up. It goes away
// with the test's thread.
type bench struct {
	t  *testing.T
	h  *netlink.Handle
	lo netlink.Link
}

func newBench(t *testing.T) *bench {
	t.Helper()
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{t: t, h: h}
	if b.lo, err = h.LinkByName("lo"); err != nil {
		t.Fatal(err)
	}
	b.must(h.LinkSetUp(b.lo))
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// stack opens a stack of the namespace.
func (b *bench) stack() *rtnetlink {
	b.t.Helper()
	k, err := openRtnetlink()
	b.must(err)
	b.t.Cleanup(k.close)
	return k
}

// world opens a World that is being watched.
func (b *bench) world(s Settings) *World {
	b.t.Helper()
	w, err := Open(s, slog.New(slog.DiscardHandler))
	b.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, w.Close()); err != nil {
			b.t.Error(err)
		}
	})
	await(b.t, w.Addresses(), "the first signal")
	await(b.t, w.Routes(), "the first signal")
	return w
}

// await waits for the target's signal and returns how long that took.
func await(t *testing.T, target announce.Target, what string) time.Duration {
	t.Helper()
	start := time.Now()
	select {
	case <-target.Changes():
	case <-time.After(patience):
		t.Fatalf("%s: no signal from target %s within %v", what, target.Name(), patience)
	}
	return time.Since(start)
}

// quiet takes signals that wait, until none came for a while.
func quiet(targets ...announce.Target) {
	for _, target := range targets {
		for idle := false; !idle; {
			select {
			case <-target.Changes():
			case <-time.After(50 * time.Millisecond):
				idle = true
			}
		}
	}
}

// addr returns prefix as an address for the netlink library.
func (b *bench) addr(prefix string) *netlink.Addr {
	b.t.Helper()
	a, err := netlink.ParseAddr(prefix)
	b.must(err)
	return a
}

// veth makes a pair of interfaces x0 and x1, up, and returns x0.
func (b *bench) veth() netlink.Link {
	b.t.Helper()
	b.must(b.h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "x0"}, PeerName: "x1"}))
	var x0 netlink.Link
	for _, name := range []string{"x1", "x0"} {
		l, err := b.h.LinkByName(name)
		b.must(err)
		b.must(b.h.LinkSetUp(l))
		x0 = l
	}
	return x0
}

// flush deletes all routes of a protocol, as ip route flush does.
func (b *bench) flush(proto int) {
	b.t.Helper()
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rs, err := b.h.RouteListFiltered(family, &netlink.Route{Protocol: netlink.RouteProtocol(proto), Table: unix.RT_TABLE_UNSPEC},
			netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		b.must(err)
		for _, r := range rs {
			b.must(b.h.RouteDel(&r))
		}
	}
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
