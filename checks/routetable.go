package checks

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// kernelRoute is a route of the kernel's tables.
type kernelRoute struct {
	kind     byte // RTN_UNICAST, RTN_BLACKHOLE, …
	prefix   netip.Prefix
	table    int
	metric   uint32
	protocol int
	hops     []nextHop
}

// nextHop is one way that a route leads.
type nextHop struct {
	gateway netip.Addr // invalid where the destination is on the link
	link    int        // interface index
	dead    bool       // its link is down, or lost its carrier
}

// text is the next hop as ip route writes it.
func (h nextHop) text(name func(int) string) string {
	out := "dev " + name(h.link)
	if h.gateway.IsValid() {
		out = "via " + h.gateway.String() + " " + out
	}
	if h.dead {
		out += " (dead)"
	}
	return out
}

// kindName names a route that does not forward, empty for one that does.
func (r kernelRoute) kindName() string {
	switch r.kind {
	case unix.RTN_BLACKHOLE:
		return "blackhole"
	case unix.RTN_UNREACHABLE:
		return "unreachable"
	case unix.RTN_PROHIBIT:
		return "prohibit"
	case unix.RTN_THROW:
		return "throw"
	default:
		return ""
	}
}

// bestRoutes returns those that the kernel uses: all with the lowest metric.
func bestRoutes(all []kernelRoute) []kernelRoute {
	if len(all) == 0 {
		return nil
	}
	lowest := slices.MinFunc(all, func(a, b kernelRoute) int { return cmp.Compare(a.metric, b.metric) }).metric
	var out []kernelRoute
	for _, r := range all {
		if r.metric == lowest {
			out = append(out, r)
		}
	}
	return out
}

// kernelRoutes lists the routes for one prefix in one table. The kernel sends
// the whole table, which with the few hundred routes of a load-balancer host
// takes less than a millisecond.
func kernelRoutes(ctx context.Context, prefix netip.Prefix, table int) ([]kernelRoute, error) {
	body := make([]byte, unix.SizeofRtMsg)
	body[0] = unix.AF_INET6
	if prefix.Addr().Is4() {
		body[0] = unix.AF_INET
	}
	body = append(body, uint32Attr(unix.RTA_TABLE, uint32(table))...) //nolint:gosec // Problems has looked at it
	msgs, err := dumpKernel(ctx, unix.RTM_GETROUTE, unix.RTM_NEWROUTE, body)
	if absentFamily(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var out []kernelRoute
	for _, m := range msgs {
		if r, ok := parseRoute(m.Data); ok && r.prefix == prefix && r.table == table {
			out = append(out, r)
		}
	}
	return out, nil
}

// uint32Attr is an attribute with a number in it.
func uint32Attr(kind uint16, v uint32) []byte {
	var b [unix.SizeofRtAttr + 4]byte
	binary.NativeEndian.PutUint16(b[0:], uint16(len(b)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	binary.NativeEndian.PutUint32(b[4:], v)
	return b[:]
}

// parseRoute reads RTM_NEWROUTE: struct rtmsg and attributes. Entries of the
// cache are none. A route over a nexthop object has its next hops spelled out
// as well, unless net.ipv4.nexthop_compat_mode was switched off; then it seems
// to have one that is neither via nor dev anything.
func parseRoute(data []byte) (kernelRoute, bool) {
	if len(data) < unix.SizeofRtMsg {
		return kernelRoute{}, false
	}
	flags := binary.NativeEndian.Uint32(data[8:])
	r := kernelRoute{table: int(data[4]), protocol: int(data[5]), kind: data[7]}
	addr := netip.IPv6Unspecified()
	if data[0] == unix.AF_INET {
		addr = netip.IPv4Unspecified()
	}
	hop := nextHop{dead: isDead(flags)}
	for _, a := range attributes(data, unix.SizeofRtMsg) {
		switch a.kind {
		case unix.RTA_DST:
			addr = addrOf(a.value)
		case unix.RTA_TABLE:
			if v, ok := uint32Of(a.value); ok {
				r.table = int(v)
			}
		case unix.RTA_PRIORITY:
			r.metric, _ = uint32Of(a.value)
		case unix.RTA_MULTIPATH:
			r.hops = parseHops(a.value)
		default:
			hop.take(a)
		}
	}
	if r.hops == nil {
		r.hops = []nextHop{hop}
	}
	r.prefix = netip.PrefixFrom(addr, int(data[1]))
	return r, r.prefix.IsValid() && flags&unix.RTM_F_CLONED == 0
}

// take reads the attributes that describe a next hop.
func (h *nextHop) take(a attribute) {
	switch a.kind {
	case unix.RTA_GATEWAY:
		h.gateway = addrOf(a.value)
	case unix.RTA_VIA: // a gateway of the other family: its family and the address
		if len(a.value) > 2 {
			h.gateway = addrOf(a.value[2:])
		}
	case unix.RTA_OIF:
		if v, ok := uint32Of(a.value); ok {
			h.link = int(v)
		}
	}
}

// parseHops reads RTA_MULTIPATH: struct rtnexthop and attributes, again and
// again.
func parseHops(b []byte) []nextHop {
	var out []nextHop
	for len(b) >= unix.SizeofRtNexthop {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			break
		}
		h := nextHop{link: int(binary.NativeEndian.Uint32(b[4:])), dead: isDead(uint32(b[2]))}
		for _, a := range attributes(b[:n], unix.SizeofRtNexthop) {
			h.take(a)
		}
		out = append(out, h)
		b = b[min(len(b), (n+unix.RTNH_ALIGNTO-1)&^(unix.RTNH_ALIGNTO-1)):]
	}
	return out
}

// isDead says whether a next hop's flags mean that nothing gets out by it.
func isDead(flags uint32) bool { return flags&(unix.RTNH_F_DEAD|unix.RTNH_F_LINKDOWN) != 0 }
