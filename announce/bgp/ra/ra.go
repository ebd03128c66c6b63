// Package ra finds the router at the other end of a link that has no addresses
// but link-local ones (unnumbered BGP): both sides send router advertisements
// (RFC 4861), and each takes the other's source address as its neighbour. The
// host's say that it routes nothing: router lifetime 0, no prefixes.
package ra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
)

const (
	sendEvery   = 10 * time.Second // FRR's own interval for unnumbered sessions
	sendFirst   = time.Second      // while no router was heard
	retryAfter  = time.Second      // an interface that is not there, or is down
	forgetAfter = 35 * time.Second // a router that is silent gives way to another one
	hopLimit    = 255              // what came over a router has less (RFC 4861, 6.1.2)
)

// advertisement is all but the header of the host's: hop limit, flags,
// lifetime, reachable time and retransmission timer are all not given.
const advertisement = 12

// The groups of RFC 4291.
func allNodes() *net.IPAddr   { return &net.IPAddr{IP: net.IP{0: 0xff, 1: 2, 15: 1}} }
func allRouters() *net.IPAddr { return &net.IPAddr{IP: net.IP{0: 0xff, 1: 2, 15: 2}} }

// Watch sends advertisements on an interface and calls found, from its own
// goroutine, with the router's link-local address (with its zone) when it is
// known, and again when another router took its place. It returns when ctx ends.
func Watch(ctx context.Context, iface string, log *slog.Logger, found func(netip.Addr)) {
	w := &watcher{iface: iface, found: found}
	last := ""
	for ctx.Err() == nil {
		err := w.run(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			log.Warn("cannot look for the router of an interface", "interface", iface, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

type watcher struct {
	iface string
	found func(netip.Addr)

	router netip.Addr
	heard  time.Time
}

// run works until the interface fails.
func (w *watcher) run(ctx context.Context) error {
	ifi, err := net.InterfaceByName(w.iface)
	if err != nil {
		return fmt.Errorf("interface %s: %w", w.iface, err)
	}
	conn, err := open(ifi)
	if err != nil {
		return fmt.Errorf("interface %s: %w", w.iface, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	return w.talk(conn.IPv6PacketConn(), ifi)
}

// open makes a socket that sends and hears advertisements and solicitations on
// one interface.
func open(ifi *net.Interface) (*icmp.PacketConn, error) {
	conn, err := icmp.ListenPacket("ip6:ipv6-icmp", "::")
	if err != nil {
		return nil, fmt.Errorf("opening a socket for ICMPv6: %w", err)
	}
	p := conn.IPv6PacketConn()
	var filter ipv6.ICMPFilter
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeRouterAdvertisement)
	filter.Accept(ipv6.ICMPTypeRouterSolicitation)
	err = errors.Join(
		p.SetICMPFilter(&filter), p.SetControlMessage(ipv6.FlagInterface|ipv6.FlagHopLimit, true),
		p.SetMulticastInterface(ifi), p.SetMulticastHopLimit(hopLimit), p.SetMulticastLoopback(false),
		p.JoinGroup(ifi, allNodes()), p.JoinGroup(ifi, allRouters()),
	)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("setting up a socket for ICMPv6: %w", err)
	}
	return conn, nil
}

// talk sends in time and hears in between.
func (w *watcher) talk(p *ipv6.PacketConn, ifi *net.Interface) error {
	body, err := (&icmp.Message{Type: ipv6.ICMPTypeRouterAdvertisement, Body: &icmp.RawBody{Data: make([]byte, advertisement)}}).Marshal(nil)
	if err != nil {
		return fmt.Errorf("making an advertisement: %w", err)
	}
	buf := make([]byte, 1500)
	due := time.Now()
	for {
		if now := time.Now(); !now.Before(due) {
			if _, err := p.WriteTo(body, &ipv6.ControlMessage{IfIndex: ifi.Index, HopLimit: hopLimit}, allNodes()); err != nil {
				return fmt.Errorf("sending an advertisement: %w", err)
			}
			due = now.Add(w.pause(now))
		}
		if err := p.SetReadDeadline(due); err != nil {
			return fmt.Errorf("waiting for advertisements: %w", err)
		}
		n, cm, src, err := p.ReadFrom(buf)
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout():
		case err != nil:
			return fmt.Errorf("hearing advertisements: %w", err)
		case cm != nil && cm.IfIndex == ifi.Index && cm.HopLimit == hopLimit && n > 0:
			if w.hear(ipv6.ICMPType(buf[0]), address(src, w.iface), time.Now()) {
				due = time.Now() // who asks, and who is new, need not wait
			}
		}
	}
}

func (w *watcher) pause(now time.Time) time.Duration {
	if now.Sub(w.heard) > forgetAfter {
		return sendFirst
	}
	return sendEvery
}

// hear takes in a message from the link and says whether to answer it.
func (w *watcher) hear(kind ipv6.ICMPType, from netip.Addr, now time.Time) (answer bool) {
	switch {
	case !from.IsLinkLocalUnicast():
		return false
	case kind == ipv6.ICMPTypeRouterSolicitation:
		return true
	case kind != ipv6.ICMPTypeRouterAdvertisement:
		return false
	case from == w.router:
		w.heard = now
		return false
	case w.router.IsValid() && now.Sub(w.heard) <= forgetAfter:
		return false // a second router on the link: the first one is the neighbour
	}
	w.router, w.heard = from, now
	w.found(from)
	return true
}

// address is a sender with the interface as its zone.
func address(a net.Addr, iface string) netip.Addr {
	ip, ok := a.(*net.IPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(ip.IP)
	return addr.Unmap().WithZone(iface)
}
