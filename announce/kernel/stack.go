package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// loopback is the interface index of lo, the same in every network namespace
// (LOOPBACK_IFINDEX in the kernel's net/loopback.h).
const loopback = 1

// stack is what rhid needs of the kernel's network stack. Errors are of type
// syscall.Errno where the kernel refused.
type stack interface {
	// up says whether lo is up.
	up() (bool, error)
	// linkName returns the name of an interface, for messages.
	linkName(index int) string
	// device looks for an interface. That there is none is no error.
	device(name string) (device, error)
	// routes lists both families. All or an error.
	routes(routeFilter) ([]route, error)
	// learned lists what routing daemons put into the main table, of both
	// families. All or an error.
	learned() ([]foreign, error)
	// addRoute fails with EEXIST if there is a route with the same
	// destination, table and metric, whosever it is.
	addRoute(route) error
	// replaceRoute takes the place of what addRoute would run into.
	replaceRoute(route) error
	// delRoute deletes the route that is like r in every field, ESRCH if
	// there is none.
	delRoute(r route) error
	// addrs lists both families on all interfaces. All or an error.
	addrs() ([]addr, error)
	// addAddr fails with EEXIST if the interface has the address.
	addAddr(addr) error
	// leaseAddr adds the address or has it live for life from now, in whole
	// seconds.
	leaseAddr(a addr, life time.Duration) error
	// leaseStamp says whether the address of the lease is there, with a number
	// that is another after each leaseAddr.
	leaseStamp() (stamp uint32, there bool, err error)
	// delAddr deletes the address if it still carries the mark that a has,
	// EADDRNOTAVAIL if not.
	delAddr(a addr) error
}

// routeFilter chooses routes; zero fields choose all.
type routeFilter struct {
	proto uint8
	table int
}

// route is a route of the kernel.
type route struct {
	kind    uint8 // RTN_UNICAST, RTN_LOCAL, RTN_BLACKHOLE, …
	dst     netip.Prefix
	gateway netip.Addr // on link; invalid if there is none
	link    int        // interface index, 0 for none
	table   int
	metric  uint32
	proto   uint8
	scope   uint8      // IPv4 only
	src     netip.Addr // preferred source; invalid if there is none, or it is the kernel's own choice
}

// String writes the route as ip route does, as far as it matters here.
func (r route) String() string {
	var b strings.Builder
	switch r.kind {
	case unix.RTN_UNICAST:
	case unix.RTN_LOCAL:
		b.WriteString("local ")
	case unix.RTN_BLACKHOLE:
		b.WriteString("blackhole ")
	default:
		fmt.Fprintf(&b, "type %d ", r.kind)
	}
	b.WriteString(r.dst.String())
	if r.gateway.IsValid() {
		fmt.Fprintf(&b, " via %s", r.gateway)
	}
	switch r.link {
	case 0:
	case loopback:
		b.WriteString(" dev lo")
	default:
		fmt.Fprintf(&b, " dev #%d", r.link)
	}
	if r.src.IsValid() {
		fmt.Fprintf(&b, " src %s", r.src)
	}
	fmt.Fprintf(&b, " table %d proto %s metric %d", r.table, protoName(r.proto), r.metric)
	return b.String()
}

// protoName is the protocol as ip route names it.
func protoName(p uint8) string { return netlink.RouteProtocol(p).String() }

// addr is an address of an interface.
type addr struct {
	prefix netip.Prefix
	link   int
	label  string // IPv4 only
	proto  uint8  // IFA_PROTO, 0 before Linux 5.18
	flags  uint32
}

// String writes the address as ip address does, as far as it matters here.
func (a addr) String() string {
	var b strings.Builder
	b.WriteString(a.prefix.String())
	if a.link == loopback {
		b.WriteString(" dev lo")
	} else {
		fmt.Fprintf(&b, " dev #%d", a.link)
	}
	if a.label != "" {
		fmt.Fprintf(&b, " label %s", a.label)
	}
	if a.proto != 0 {
		fmt.Fprintf(&b, " proto %d", a.proto)
	}
	return b.String()
}
