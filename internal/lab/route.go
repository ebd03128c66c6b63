package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// KernelRoute is one next hop of a route in a node's kernel; an ECMP route is
// several of them.
type KernelRoute struct {
	Prefix netip.Prefix
	Via    netip.Addr // zero where the route has no gateway
	Dev    string     // "" where it has no device (blackhole)
	Metric int
	Proto  int // 151 is rhid, 186 bgp, 188 ospf, 12 BIRD, 4 static; see rtnetlink(7)
	Table  int // 254 is main, 255 local
	Type   int // 1 is unicast, 2 local, 6 blackhole
	Src    netip.Addr
}

// Kernel returns the node's routes of exactly the prefix "10.0.0.0/24" in the
// main table, sorted by metric, gateway and device.
func (n *Node) Kernel(prefix string) []KernelRoute {
	n.lab.tb.Helper()
	return n.KernelTable(unix.RT_TABLE_MAIN, prefix)
}

// KernelTable is Kernel for another table; 255 is local.
func (n *Node) KernelTable(table int, prefix string) []KernelRoute {
	n.lab.tb.Helper()
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		n.lab.tb.Fatalf("%s: %v", n.Name, err)
	}
	filter := &netlink.Route{Dst: ipNet(p), Table: table}
	family := netlink.FAMILY_V4
	if p.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	var found []netlink.Route
	for {
		found, err = n.nl.RouteListFiltered(family, filter, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break // else something changed meanwhile: read again
		}
	}
	if err != nil {
		n.lab.tb.Fatalf("%s: listing routes: %v", n.Name, err)
	}
	var routes []KernelRoute
	for _, r := range found {
		routes = append(routes, n.kernelRoutes(r)...)
	}
	return sortRoutes(routes)
}

func sortRoutes(routes []KernelRoute) []KernelRoute {
	slices.SortFunc(routes, func(a, b KernelRoute) int {
		if a.Metric != b.Metric {
			return a.Metric - b.Metric
		}
		if c := a.Via.Compare(b.Via); c != 0 {
			return c
		}
		return strings.Compare(a.Dev, b.Dev)
	})
	return routes
}

func ipNet(p netip.Prefix) *net.IPNet {
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func toAddr(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.Addr{}
	}
	return a.Unmap()
}

// kernelRoutes turns a netlink route into one KernelRoute for each next hop.
func (n *Node) kernelRoutes(r netlink.Route) []KernelRoute {
	base := KernelRoute{Metric: r.Priority, Proto: int(r.Protocol), Table: r.Table, Type: r.Type, Src: toAddr(r.Src)}
	if r.Dst != nil {
		ones, _ := r.Dst.Mask.Size()
		base.Prefix = netip.PrefixFrom(toAddr(r.Dst.IP), ones)
	}
	hop := func(gw net.IP, via netlink.Destination, index int) KernelRoute {
		k := base
		k.Via = toAddr(gw)
		if v, ok := via.(*netlink.Via); ok { // an IPv6 gateway of an IPv4 route
			k.Via = toAddr(v.Addr)
		}
		k.Dev = n.linkName(index)
		return k
	}
	if len(r.MultiPath) == 0 {
		return []KernelRoute{hop(r.Gw, r.Via, r.LinkIndex)}
	}
	var routes []KernelRoute
	for _, h := range r.MultiPath {
		routes = append(routes, hop(h.Gw, h.Via, h.LinkIndex))
	}
	return sortRoutes(routes)
}

// linkName returns an interface's name; one that has gone is "#7".
func (n *Node) linkName(index int) string {
	if index == 0 {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.links[index]; ok {
		return name
	}
	link, err := n.nl.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("#%d", index)
	}
	n.links[index] = link.Attrs().Name
	return link.Attrs().Name
}

// FIBKind is what happened to a route in the kernel.
type FIBKind string

// The kinds of FIBEvent.
const (
	FIBAdd     FIBKind = "add"
	FIBReplace FIBKind = "replace"
	FIBDelete  FIBKind = "delete"
)

// FIBEvent is one change of a route in a node's kernel.
type FIBEvent struct {
	At   time.Time // when this process was told
	Kind FIBKind
	Hops []KernelRoute
}

// FIBWatch collects the changes of one prefix.
type FIBWatch struct {
	node   *Node
	prefix netip.Prefix
	stop   chan struct{}

	mu     sync.Mutex
	events []FIBEvent
	err    error
	wake   chan struct{} // closed and renewed at each event
}

// WatchFIB collects, from now on, the changes of exactly this prefix in all
// tables of the node's kernel, until the lab ends or Close.
func (n *Node) WatchFIB(prefix string) *FIBWatch {
	n.lab.tb.Helper()
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		n.lab.tb.Fatalf("%s: %v", n.Name, err)
	}
	w := &FIBWatch{node: n, prefix: p, stop: make(chan struct{}), wake: make(chan struct{})}
	ns := netns.NsHandle(n.nsfd)
	updates := make(chan netlink.RouteUpdate, 1024)
	err = netlink.RouteSubscribeWithOptions(updates, w.stop, netlink.RouteSubscribeOptions{
		Namespace:              &ns,
		ErrorCallback:          w.fail,
		ReceiveBufferSize:      8 << 20, // an overflow would lose events
		ReceiveBufferForceSize: true,
	})
	if err != nil {
		n.lab.tb.Fatalf("%s: subscribing to routes: %v", n.Name, err)
	}
	go w.collect(updates)
	context.AfterFunc(n.lab.ctx, w.Close)
	return w
}

// Close ends the watch; it may be called again.
func (w *FIBWatch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
}

func (w *FIBWatch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.stop: // closing makes an error too
	default:
		w.err = err
	}
}

func (w *FIBWatch) collect(updates <-chan netlink.RouteUpdate) {
	for u := range updates {
		at := time.Now()
		if u.Dst == nil || u.Dst.String() != ipNet(w.prefix).String() {
			continue
		}
		e := FIBEvent{At: at, Kind: FIBAdd, Hops: w.node.kernelRoutes(u.Route)}
		switch {
		case u.Type == unix.RTM_DELROUTE:
			e.Kind = FIBDelete
		case u.NlFlags&unix.NLM_F_REPLACE != 0:
			e.Kind = FIBReplace
		}
		w.mu.Lock()
		w.events = append(w.events, e)
		close(w.wake)
		w.wake = make(chan struct{})
		w.mu.Unlock()
	}
}

// Events returns what has happened since the watch began, or since Reset.
func (w *FIBWatch) Events() []FIBEvent {
	w.node.lab.tb.Helper()
	events, _ := w.snapshot()
	return events
}

func (w *FIBWatch) snapshot() ([]FIBEvent, <-chan struct{}) {
	w.node.lab.tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		w.node.lab.tb.Fatalf("%s: watching %s: %v", w.node.Name, w.prefix, w.err)
	}
	return slices.Clone(w.events), w.wake
}

// Reset forgets what has happened.
func (w *FIBWatch) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = nil
}

// Wait returns the first event, since the watch began or Reset, that match is
// true for, and fails the test when there is none within limit.
func (w *FIBWatch) Wait(what string, limit time.Duration, match func(FIBEvent) bool) FIBEvent {
	w.node.lab.tb.Helper()
	timeout := time.After(limit)
	for {
		events, wake := w.snapshot()
		if i := slices.IndexFunc(events, match); i >= 0 {
			return events[i]
		}
		select {
		case <-wake:
		case <-timeout:
			w.node.lab.tb.Fatalf("%s: waited %v in vain for %s in the kernel: %s; seen: %v", w.node.Name, limit, w.prefix, what, events)
		}
	}
}

// WaitThere waits for an add or replace, WaitGone for a delete.
func (w *FIBWatch) WaitThere(limit time.Duration) FIBEvent {
	w.node.lab.tb.Helper()
	return w.Wait("added", limit, func(e FIBEvent) bool { return e.Kind != FIBDelete })
}

// WaitGone waits for a delete.
func (w *FIBWatch) WaitGone(limit time.Duration) FIBEvent {
	w.node.lab.tb.Helper()
	return w.Wait("deleted", limit, func(e FIBEvent) bool { return e.Kind == FIBDelete })
}
