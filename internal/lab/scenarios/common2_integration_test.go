//go:build integration

package scenarios

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"rhid/internal/control"
	"rhid/internal/lab"
)

const (
	siteFile = "../../../lab/containerlab/one-site/one-site.clab.yml"

	// The VIPs of the one-site scenario: atm is an address on lo and goes out by
	// BGP, counter is a local route (AnyIP) and goes out by kernel routes.
	siteATM, siteATM6         = "10.255.0.10/32", "fd00:255::10/128"
	siteCounter, siteCounter6 = "10.255.0.20/32", "fd00:255::20/128"

	// The devices of the tiers, of rank 0, 1 and all that follow.
	siteDevices = "tier_devices: [rhid-t0, rhid-t1, rhid-t2]"

	siteLease = "169.254.151.1/32" // the address that announcement routes are leased by

	siteProto = 151              // rhid's protocol number
	siteUp    = 30 * time.Second // until a fresh network has learned everything
)

// siteVIPs are all of them.
func siteVIPs() []string { return []string{siteATM, siteATM6, siteCounter, siteCounter6} }

// siteLab is the one-site scenario with names for what the tests use of it.
type siteLab struct {
	*lab.Lab
	t                          *testing.T
	lb, torFRR, torBird        *lab.Node
	coreFRR, coreBird          *lab.Node
	branch, client, srv1, srv2 *lab.Node
}

func startSite(t *testing.T, opts lab.Options) *siteLab {
	t.Helper()
	opts.Rhid = lab.BuildRhid(t, false)
	l := lab.Start(t, siteFile, opts)
	return &siteLab{
		Lab: l, t: t,
		lb: l.Node("lb1"), torFRR: l.Node("tor-frr"), torBird: l.Node("tor-bird"),
		coreFRR: l.Node("core-frr"), coreBird: l.Node("core-bird"),
		branch: l.Node("branch"), client: l.Node("client"), srv1: l.Node("srv1"), srv2: l.Node("srv2"),
	}
}

// run starts rhid with a configuration of the test's own, in a file that can
// be changed.
func (s *siteLab) run(config string) *lab.Proc {
	s.t.Helper()
	s.configure(config)
	return s.lb.StartRhid(siteConfig)
}

const siteConfig = "/tmp/rhid.yaml"

func (s *siteLab) configure(config string) {
	s.t.Helper()
	s.lb.WriteFile(siteConfig, config)
}

// shipped is the configuration that the scenario brings along.
func (s *siteLab) shipped() string {
	s.t.Helper()
	text, err := s.lb.ReadFile("/etc/rhid/rhid.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// vias are the gateways of a prefix in the main table of a node, in order.
func (s *siteLab) vias(n *lab.Node, prefix string) []string {
	s.t.Helper()
	var out []string
	for _, r := range n.Kernel(prefix) {
		out = append(out, r.Via.String())
	}
	return out
}

// waitBranch waits until the branch router has each VIP by both of its ways:
// those of BGP by the top-of-rack routers, those of OSPF by the cores.
func (s *siteLab) waitBranch(vips ...string) time.Duration {
	s.t.Helper()
	began := time.Now()
	for _, v := range vips {
		s.WaitFor(v+" at branch by both ways", siteUp, func() bool { return len(s.branch.Kernel(v)) == 2 })
	}
	return time.Since(began)
}

// settled waits until the branch has every VIP by both ways, and the routers on
// these ways have them from lb1. BIRD is slow: it sends an LSA again only 5 s
// after the last time (MinLSInterval, RFC 2328) and then looks once a second,
// while the branch sends half of its packets there.
func (s *siteLab) settled() {
	s.t.Helper()
	s.waitBranch(siteVIPs()...)
	for n, vips := range map[*lab.Node][]string{
		s.torFRR: {siteATM, siteATM6}, s.torBird: {siteATM, siteATM6},
		s.coreFRR: {siteCounter, siteCounter6}, s.coreBird: {siteCounter, siteCounter6},
	} {
		for _, v := range vips {
			s.WaitFor(v+" at "+n.Name+" from lb1", siteUp, func() bool {
				rs := n.Kernel(v)
				return len(rs) == 1 && rs[0].Dev == "eth1"
			})
		}
	}
	time.Sleep(50 * time.Millisecond) // for what was on its way when the last router turned
}

// status asks the daemon. An alarm makes the command end with status 1.
func (s *siteLab) status() control.Status {
	s.t.Helper()
	out, err := s.lb.Run("/usr/bin/rhid", "status", "-o", "json")
	var st control.Status
	if jerr := json.Unmarshal([]byte(out), &st); jerr != nil {
		s.t.Fatalf("rhid status: %v (%v)", jerr, err)
	}
	return st
}

// events are what the daemon noted since the one numbered since.
func (s *siteLab) events(since uint64) []control.Event {
	s.t.Helper()
	var out []control.Event
	for line := range strings.Lines(s.lb.Rhid("events", "-o", "json", "--since", fmt.Sprint(since))) {
		var e control.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatalf("rhid events: %v in %q", err, line)
		}
		out = append(out, e)
	}
	return out
}

// lastEvent is the number of the newest event.
func (s *siteLab) lastEvent() uint64 {
	s.t.Helper()
	all := s.events(0)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Seq
}

// waitEvent waits for an event after since of a kind and what it says.
func (s *siteLab) waitEvent(since uint64, kind, what string, limit time.Duration) control.Event {
	s.t.Helper()
	var found control.Event
	s.WaitFor("event "+kind+" "+what, limit, func() bool {
		all := s.events(since)
		i := slices.IndexFunc(all, func(e control.Event) bool { return e.Kind == kind && e.What == what })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// siteSession is what an FRR router knows of a session's life.
type siteSession struct {
	State       string `json:"bgpState"`
	Since       int64  `json:"bgpTimerUpEstablishedEpoch"` // in seconds
	Established int    `json:"connectionsEstablished"`     // how often
	Dropped     int    `json:"connectionsDropped"`
}

func (s *siteLab) session(n *lab.Node, neighbour string) siteSession {
	s.t.Helper()
	var reply map[string]siteSession
	if err := json.Unmarshal([]byte(n.Must("vtysh", "-c", "show bgp neighbors "+neighbour+" json")), &reply); err != nil {
		s.t.Fatalf("%s: neighbour %s: %v", n.Name, neighbour, err)
	}
	return reply[neighbour]
}

// same says whether nothing happened to the session between o and n. FRR works
// out Since anew each time, from two clocks, and is off by a second at times.
func (o siteSession) same(n siteSession) bool {
	return o.State == n.State && o.Established == n.Established && o.Dropped == n.Dropped && max(o.Since-n.Since, n.Since-o.Since) <= 1
}

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

func (k *siteKernel) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = nil
}

// addresses returns how often a prefix is an address of the node, on all of
// its interfaces.
func (k *siteKernel) addresses(prefix string) int {
	k.t.Helper()
	all, err := k.nl.AddrList(nil, netlink.FAMILY_ALL)
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

// ms is a duration for people.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
