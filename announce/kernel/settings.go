package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rhid/announce"
	"rhid/announce/kernel/readback"
)

// The forms of an announcement route.
const (
	NextHopLo        = "lo"        // dev lo
	NextHopBlackhole = "blackhole" // type blackhole; FRR and BIRD export it as well
	NextHopTier      = "tier"      // IPv4: via 169.254.100.<tier> dev lo onlink; IPv6: dev the tier's, or lo
)

// maxMetric bounds the metric: FRR reads the top byte of a kernel route's
// metric as its administrative distance.
const maxMetric = 1<<24 - 1

// anyIPMetric stands beside the metric 0 that the kernel gives the local route
// of an address, so that a VIP can change from one form to the other without
// being away in between. It is also what IPv6 makes of metric 0.
const anyIPMetric = 1024

// Settings say which objects in the kernel are rhid's and which form they have.
type Settings struct {
	Protocol int    // routing protocol number, see Validate
	Table    int    // table of the announcement routes; 254 is main
	NextHop  string // form of the announcement routes
	Tiers    []int  // last byte of the next hop for rank 0, 1, …; the last also for all that follow
	// Devices are those of the IPv6 routes, one for each of Tiers: the kernel
	// takes no IPv6 next hop over lo. Without any, all are over lo.
	Devices  []string
	Label    string         // of IPv4 addresses: lo:…, 15 bytes at most
	VIPs     []netip.Prefix // nothing else is ever put in
	Routed   []netip.Prefix // those of VIPs that are announced by routes
	Readback readback.Settings
	Spacing  time.Duration // least time between two changes of one announcement; 0 is none

	Lease       bool // announcement routes live only as long as KeepLease renews them
	LeaseSource bool // IPv4: the kernel itself takes them out, see TellsOfSource
}

// Validate returns what makes s unusable. Protocol numbers that routing
// daemons would take for their own or the kernel's are refused: below 5, 11
// and 12 (zebra, BIRD), and 186 to 198 (FRR's daemons).
func (s Settings) Validate() error {
	var errs []error
	if reserved(s.Protocol) {
		errs = append(errs, fmt.Errorf("protocol number %d belongs to the kernel or to a routing daemon", s.Protocol))
	}
	if s.Table < 1 || s.Table == unix.RT_TABLE_LOCAL {
		errs = append(errs, fmt.Errorf("table %d cannot hold announcement routes", s.Table))
	}
	switch s.NextHop {
	case NextHopLo, NextHopBlackhole:
	case NextHopTier:
		if len(s.Tiers) == 0 {
			errs = append(errs, errors.New("next hop form tier needs at least one tier"))
		}
		if n := len(s.Devices); n > 0 && n != len(s.Tiers) {
			errs = append(errs, fmt.Errorf("%d devices for %d tiers", n, len(s.Tiers)))
		}
	default:
		errs = append(errs, fmt.Errorf("unknown next hop form %q", s.NextHop))
	}
	for _, t := range s.Tiers {
		if t < 1 || t > 254 {
			errs = append(errs, fmt.Errorf("tier %d is not between 1 and 254", t))
		}
	}
	if n := len(s.Label); n < 4 || n >= unix.IFNAMSIZ || s.Label[:3] != "lo:" {
		errs = append(errs, fmt.Errorf("label %q is not lo: and 1 to 12 characters", s.Label))
	}
	return errors.Join(append(errs, s.Readback.Validate())...)
}

// reserved says whether a routing daemon would not take routes of protocol p
// for somebody else's.
func reserved(p int) bool {
	return p < 5 || p > 255 || p == unix.RTPROT_ZEBRA || p == unix.RTPROT_BIRD || p >= 186 && p <= 198
}

// conf is Settings made ready for use, and what settings before them called
// rhid's own: after a reload the old objects must still be known. It does not
// change.
type conf struct {
	Settings
	invalid error
	allowed map[netip.Prefix]bool // VIPs
	routed  map[netip.Prefix]bool // VIPs announced by routes
	known   map[netip.Addr]bool   // VIPs now or earlier
	protos  []uint8               // now or earlier
	labels  []string              // now or earlier
}

// next returns the conf that follows c, which may be nil.
func (c *conf) next(s Settings) *conf {
	n := &conf{
		Settings: s,
		invalid:  s.Validate(),
		allowed:  prefixSet(s.VIPs),
		routed:   prefixSet(s.Routed),
		known:    map[netip.Addr]bool{},
		protos:   []uint8{uint8(s.Protocol)},
		labels:   []string{s.Label},
	}
	for _, p := range s.VIPs {
		n.known[p.Addr()] = true
	}
	if c == nil {
		return n
	}
	for a := range c.known {
		n.known[a] = true
	}
	for _, p := range c.protos {
		if !slices.Contains(n.protos, p) {
			n.protos = append(n.protos, p)
		}
	}
	for _, l := range c.labels {
		if !slices.Contains(n.labels, l) {
			n.labels = append(n.labels, l)
		}
	}
	return n
}

// admit is the last filter before the kernel: configured VIPs only.
func (c *conf) admit(p netip.Prefix) error {
	if c.invalid != nil {
		return fmt.Errorf("kernel settings: %w", c.invalid)
	}
	if !c.allowed[p] {
		return fmt.Errorf("%s is not a configured VIP", p)
	}
	return nil
}

// protocol is the mark of new objects.
func (c *conf) protocol() uint8 { return c.protos[0] }

// onDevices says whether the routes to p stand on the devices of the tiers.
func (c *conf) onDevices(p netip.Prefix) bool {
	return c.NextHop == NextHopTier && len(c.Devices) > 0 && len(c.Devices) == len(c.Tiers) && p.Addr().Is6()
}

// place returns where in Tiers a rank is, which has at least one.
func (c *conf) place(rank int) int { return min(max(rank, 0), len(c.Tiers)-1) }

// tier returns the tier of a rank, or 0 where the form has none.
func (c *conf) tier(p netip.Prefix, rank int) int {
	if c.NextHop != NextHopTier || len(c.Tiers) == 0 || p.Addr().Is6() && !c.onDevices(p) {
		return 0
	}
	return c.Tiers[c.place(rank)]
}

// rank returns the first rank whose route is like r, 0 if none is.
func (c *conf) rank(r route, devices []device) int {
	switch {
	case r.gateway.Is4():
		return max(0, slices.Index(c.Tiers, int(r.gateway.As4()[3])))
	case c.onDevices(r.dst):
		return max(0, slices.IndexFunc(devices, func(d device) bool { return d.index == r.link }))
	}
	return 0
}

// announcement returns the route that r asks for; devices are those of the tiers,
// as they are now.
func (c *conf) announcement(r announce.Route, devices []device) route {
	n := route{
		kind:   unix.RTN_UNICAST,
		dst:    r.Prefix,
		table:  c.Table,
		metric: storedMetric(r.Prefix, r.Attrs.Metric),
		proto:  c.protocol(),
		link:   loopback,
		src:    c.source(r.Prefix),
	}
	tier := c.tier(r.Prefix, r.Attrs.Rank)
	switch {
	case c.NextHop == NextHopBlackhole:
		n.kind = unix.RTN_BLACKHOLE
		if r.Prefix.Addr().Is4() {
			n.link = 0 // IPv6 shows blackholes on lo
		}
	case c.onDevices(r.Prefix):
		n.link = devices[c.place(r.Attrs.Rank)].index
	case tier != 0:
		n.gateway = netip.AddrFrom4([4]byte{169, 254, 100, byte(tier)})
	case r.Prefix.Addr().Is4():
		n.scope = unix.RT_SCOPE_LINK
	}
	return n
}

// anyIP returns the local route that makes p local without an address.
func (c *conf) anyIP(p netip.Prefix) route {
	n := route{
		kind:   unix.RTN_LOCAL,
		dst:    p,
		table:  unix.RT_TABLE_LOCAL,
		metric: anyIPMetric,
		proto:  c.protocol(),
		link:   loopback,
	}
	if p.Addr().Is4() {
		n.scope = unix.RT_SCOPE_HOST
	}
	return n
}

// address returns the address that makes p local. Scope host, and a preferred
// lifetime of zero in IPv6, keep the kernel from taking a VIP as the source of
// the host's own connections. There is no duplicate address detection, because
// the VIP exists on several hosts by intent, and no prefix route, because it
// would stand beside the announcement.
func (c *conf) address(p netip.Prefix) addr {
	a := addr{prefix: p, link: loopback, proto: c.protocol()}
	if p.Addr().Is4() {
		a.label = c.Label
	} else {
		a.flags = vip6Flags
	}
	return a
}

// vip6Flags are the flags rhid gives an IPv6 VIP.
const vip6Flags = unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE

// storedMetric returns the metric as the kernel will show it: IPv6 has no 0.
func storedMetric(p netip.Prefix, metric uint32) uint32 {
	if metric == 0 && p.Addr().Is6() {
		return anyIPMetric
	}
	return metric
}

// ownRoute says whether r carries a mark of rhid's.
func (c *conf) ownRoute(r route) bool { return slices.Contains(c.protos, r.proto) }

// isAnyIP says whether r belongs to the address target rather than to the
// announcement routes.
func isAnyIP(r route) bool { return r.kind == unix.RTN_LOCAL && r.table == unix.RT_TABLE_LOCAL }

// ownAddr says whether a carries a mark of rhid's. marks says whether this
// kernel keeps protocol numbers of addresses.
func (c *conf) ownAddr(a addr, marks bool) bool {
	switch {
	case a.link != loopback:
		return false
	case a.proto != 0 && slices.Contains(c.protos, a.proto):
		return true
	case a.prefix.Addr().Is4():
		return slices.Contains(c.labels, a.label)
	}
	return !marks && a.flags&vip6Flags == vip6Flags && a.prefix.IsSingleIP() && c.known[a.prefix.Addr()]
}

// outdated says whether a, which is rhid's, carries the mark of earlier
// settings. Protocol 0 is what kernels before 5.18 make of every number.
func (c *conf) outdated(a addr) bool {
	return a.prefix.Addr().Is4() && a.label != c.Label || a.proto != 0 && a.proto != c.protocol()
}
