package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Sighting is a route for a VIP that a routing daemon beside rhid put into the
// kernel's tables: how the network leads to another host that announces it.
type Sighting struct {
	Protocol string       // as ip route names it: ospf, bird, …
	NextHops []netip.Addr // at least one
	Metric   uint32
}

// Sightings is what routing daemons put into the kernel's tables. A host sees
// another's route only while it announces none itself: FRR prefers rhid's own
// kernel route to one from OSPF, and then installs only that.
type Sightings struct {
	VIPs map[netip.Prefix][]Sighting
	// IPv4 and IPv6 count their routes for anything else. With none the daemon
	// has no neighbour itself, and that it has no route for a VIP means nothing.
	IPv4, IPv6 int
}

// learned says whether a protocol number is that of a routing protocol which
// learns routes from neighbours: BIRD's one number for all that it does, and
// those of FRR's daemons but its static routes.
func learned(proto uint8) bool {
	switch proto {
	case unix.RTPROT_ZEBRA, unix.RTPROT_BIRD, unix.RTPROT_BABEL, unix.RTPROT_BGP,
		unix.RTPROT_ISIS, unix.RTPROT_OSPF, unix.RTPROT_RIP, unix.RTPROT_EIGRP, protoOpenFabric:
		return true
	default:
		return false
	}
}

const protoOpenFabric = 197 // RTPROT_OPENFABRIC of FRR

// foreign is a route of a routing daemon.
type foreign struct {
	route
	hops []netip.Addr
}

// seen keeps what routing daemons put in, as of the last event.
type seen struct {
	mu      sync.Mutex
	stale   bool // something changed since
	last    Sightings
	changed chan struct{}
}

// Sighted receives a value, never more than one at a time, when Sightings may
// have changed for a VIP.
func (w *World) Sighted() <-chan struct{} { return w.seen.changed }

// Sightings returns what routing daemons put into the main table. It asks the
// kernel only after a change of one of their routes.
func (w *World) Sightings() (Sightings, error) {
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	if !w.seen.stale {
		return w.seen.last, nil
	}
	all, err := w.stack.learned()
	if err != nil {
		return Sightings{}, fmt.Errorf("list the routes of routing daemons: %w", err)
	}
	w.seen.last, w.seen.stale = sift(all, w.conf.Load()), false
	return w.seen.last, nil
}

// sift sorts VIPs from the rest.
func sift(all []foreign, c *conf) Sightings {
	out := Sightings{VIPs: map[netip.Prefix][]Sighting{}}
	for _, r := range all {
		switch {
		case len(r.hops) == 0 || c.ownRoute(r.route):
		case c.allowed[r.dst]:
			out.VIPs[r.dst] = append(out.VIPs[r.dst], Sighting{protoName(r.proto), r.hops, r.metric})
		case r.dst.Addr().Is4():
			out.IPv4++
		default:
			out.IPv6++
		}
	}
	return out
}

// outdate notes that a routing daemon changed something, which concerns a VIP
// or may do so.
func (w *World) outdate(vip bool) {
	w.seen.mu.Lock()
	w.seen.stale = true
	w.seen.mu.Unlock()
	if !vip {
		return
	}
	select {
	case w.seen.changed <- struct{}{}:
	default:
	}
}

// sight looks for a routing daemon's route in an event. With a link or an
// address IPv4 routes go without an event of their own.
func (w *World) sight(c *conf, kind uint16, data []byte) {
	switch kind {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if r, cloned, ok := parseRoute(data); ok && !cloned && learned(r.proto) {
			w.outdate(c.allowed[r.dst])
		}
	case unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_DELADDR:
		w.outdate(true)
	}
}

func (k *rtnetlink) learned() ([]foreign, error) {
	var out []foreign
	for _, family := range families {
		msg := &nl.RtMsg{RtMsg: unix.RtMsg{Family: family}}
		msgs, err := k.dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, msg, uint32Attr(unix.RTA_TABLE, unix.RT_TABLE_MAIN))
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, m := range msgs {
			r, cloned, ok := parseRoute(m)
			if ok && !cloned && r.table == unix.RT_TABLE_MAIN && learned(r.proto) {
				out = append(out, foreign{r, nextHops(m)})
			}
		}
	}
	return out, nil
}

// nextHops returns the gateways of a route, which is a message that parseRoute
// has accepted.
func nextHops(m []byte) []netip.Addr {
	attrs := m[unix.SizeofRtMsg:]
	if a := gateway(attrs); a.IsValid() {
		return []netip.Addr{a}
	}
	var out []netip.Addr
	for b := attribute(attrs, unix.RTA_MULTIPATH); len(b) >= unix.SizeofRtNexthop; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			break
		}
		if a := gateway(b[unix.SizeofRtNexthop:n]); a.IsValid() && !slices.Contains(out, a) {
			out = append(out, a)
		}
		b = b[min(len(b), (n+unix.RTNH_ALIGNTO-1)&^(unix.RTNH_ALIGNTO-1)):]
	}
	return out
}

// gateway reads RTA_GATEWAY, or RTA_VIA: a gateway of the other family.
func gateway(attrs []byte) netip.Addr {
	b := attribute(attrs, unix.RTA_GATEWAY)
	if via := attribute(attrs, unix.RTA_VIA); b == nil && len(via) > 2 {
		b = via[2:]
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
