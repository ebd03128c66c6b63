//go:build integration

package scenarios

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"rhid/internal/lab"
)

// siteChange is one change of an address or a route in a kernel.
type siteChange struct {
	At     time.Time
	Kind   string // "address" or "route"
	Gone   bool
	Prefix netip.Prefix
	Table  int // of a route
}

func (c siteChange) String() string {
	verb := "new"
	if c.Gone {
		verb = "gone"
	}
	return fmt.Sprintf("%s %s %s table %d", verb, c.Kind, c.Prefix, c.Table)
}

// siteKernel watches and reads the kernel of one node.
type siteKernel struct {
	t    *testing.T
	name string
	nl   *netlink.Handle

	mu      sync.Mutex
	changes []siteChange
	err     error
}

// watchKernel collects all changes of addresses and routes in a node until the
// test ends.
func watchKernel(t *testing.T, n *lab.Node) *siteKernel {
	t.Helper()
	ns, err := netns.GetFromPid(n.Pid())
	if err != nil {
		t.Fatalf("%s: opening the network namespace: %v", n.Name, err)
	}
	k := &siteKernel{t: t, name: n.Name}
	if k.nl, err = netlink.NewHandleAt(ns); err != nil {
		t.Fatalf("%s: opening netlink: %v", n.Name, err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { // before the lab goes: what its end changes is nobody's business
		close(done)
		k.nl.Close()
		if err := ns.Close(); err != nil {
			t.Errorf("%s: closing the network namespace: %v", n.Name, err)
		}
	})
	routes, addrs := make(chan netlink.RouteUpdate, 4096), make(chan netlink.AddrUpdate, 4096)
	failed := func(err error) {
		select {
		case <-done:
		default:
			k.mu.Lock()
			k.err = err
			k.mu.Unlock()
		}
	}
	err = netlink.RouteSubscribeWithOptions(routes, done, netlink.RouteSubscribeOptions{
		Namespace: &ns, ErrorCallback: failed, ReceiveBufferSize: 8 << 20, ReceiveBufferForceSize: true,
	})
	if err == nil {
		err = netlink.AddrSubscribeWithOptions(addrs, done, netlink.AddrSubscribeOptions{
			Namespace: &ns, ErrorCallback: failed, ReceiveBufferSize: 8 << 20, ReceiveBufferForceSize: true,
		})
	}
	if err != nil {
		t.Fatalf("%s: subscribing to changes: %v", n.Name, err)
	}
	go k.collect(routes, addrs)
	return k
}

func (k *siteKernel) collect(routes <-chan netlink.RouteUpdate, addrs <-chan netlink.AddrUpdate) {
	for routes != nil || addrs != nil {
		c := siteChange{At: time.Now()}
		select {
		case u, ok := <-routes:
			if !ok {
				routes = nil
				continue
			}
			if u.Dst == nil {
				continue
			}
			c.Kind, c.Gone, c.Table = "route", u.Type == unix.RTM_DELROUTE, u.Table
			c.Prefix, _ = netip.ParsePrefix(u.Dst.String())
		case u, ok := <-addrs:
			if !ok {
				addrs = nil
				continue
			}
			c.Kind, c.Gone = "address", !u.NewAddr
			c.Prefix, _ = netip.ParsePrefix(u.LinkAddress.String())
		}
		c.At = time.Now()
		k.mu.Lock()
		k.changes = append(k.changes, c)
		k.mu.Unlock()
	}
}

// of returns the changes of one prefix since reset, in order.
func (k *siteKernel) of(prefix string) []siteChange {
	k.t.Helper()
	return k.where(func(c siteChange) bool { return c.Prefix.String() == prefix })
}

func (k *siteKernel) where(match func(siteChange) bool) []siteChange {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		k.t.Fatalf("%s: watching the kernel: %v", k.name, k.err)
	}
	return slices.DeleteFunc(slices.Clone(k.changes), func(c siteChange) bool { return !match(c) })
}

// gone waits until the watch has told of the end of an address of the node and of
// its local route, and returns the first.
func (k *siteKernel) gone(s *siteLab, prefix string) siteChange {
	k.t.Helper()
	var address []siteChange
	s.WaitFor("the end of the address "+prefix+" on "+k.name, siteUp, func() bool {
		of := func(kind string) []siteChange {
			return k.where(func(c siteChange) bool { return c.Gone && c.Kind == kind && c.Prefix.String() == prefix })
		}
		address = of("address")
		return len(address) > 0 && len(of("route")) > 0
	})
	return address[0]
}

func (k *siteKernel) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = nil
}

// addresses returns how often a prefix is an address of the node, on all of
// its interfaces.
func (k *siteKernel) addresses(prefix string) int {
	k.t.Helper()
	var all []netlink.Addr
	var err error
	for {
		all, err = k.nl.AddrList(nil, netlink.FAMILY_ALL)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break // else something changed meanwhile: read again
		}
	}
	if err != nil {
		k.t.Fatalf("%s: listing addresses: %v", k.name, err)
	}
	want, n := netip.MustParsePrefix(prefix).Addr().AsSlice(), 0
	for _, a := range all {
		if a.IP.Equal(want) {
			n++
		}
	}
	return n
}

// siteForm is in which objects a VIP stands in the kernel.
type siteForm struct {
	Addresses int // on all interfaces
	Local     int // routes of type local in table local
	Announced int // routes with rhid's protocol number in the main table
}

// The forms that rhid gives a VIP.
func siteWhole(prefix string) siteForm {
	if prefix == siteATM || prefix == siteATM6 {
		return siteForm{Addresses: 1, Local: 1}
	}
	return siteForm{Local: 1, Announced: 1}
}

// form reads the form of a VIP.
func (s *siteLab) form(k *siteKernel, prefix string) siteForm {
	s.t.Helper()
	f := siteForm{Addresses: k.addresses(prefix)}
	for _, r := range s.lb.KernelTable(unix.RT_TABLE_LOCAL, prefix) {
		if r.Type == unix.RTN_LOCAL {
			f.Local++
		}
	}
	for _, r := range s.lb.Kernel(prefix) {
		if r.Proto == siteProto {
			f.Announced++
		}
	}
	return f
}

// wholeAt waits until all the VIPs have the form that rhid gives them, and
// returns when that was.
func (s *siteLab) wholeAt(k *siteKernel, limit time.Duration, vips ...string) time.Time {
	s.t.Helper()
	for _, v := range vips {
		s.WaitFor(fmt.Sprintf("%s on lb1 as %+v", v, siteWhole(v)), limit, func() bool { return s.form(k, v) == siteWhole(v) })
	}
	return time.Now()
}
