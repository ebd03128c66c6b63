package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"rhid/announce"
)

// fake is a kernel in memory. What it answers is compared with the real one in
// TestFakeIsLikeTheKernel.
type fake struct {
	isUp    bool
	old     bool // before 5.18: addresses have no protocol number
	rs      []route
	as      []addr
	foreign []foreign
	names   map[int]string
	down    map[string]bool  // interfaces by name
	refuse  map[string]error // by the text of the operation
	journal []string         // every change that was tried
	stamp   uint32           // of the lease
}

func newFake() *fake {
	return &fake{isUp: true, names: map[int]string{loopback: "lo", 2: "eth0"}, refuse: map[string]error{}}
}

func (f *fake) up() (bool, error) { return f.isUp, nil }

func (f *fake) linkName(index int) string { return f.names[index] }

func (f *fake) device(name string) (device, error) {
	d := device{name: name}
	for index, n := range f.names {
		if n == name {
			d.index, d.up = index, !f.down[name]
		}
	}
	return d, f.refuse["look at "+name]
}

func (f *fake) routes(flt routeFilter) ([]route, error) {
	if err := f.refuse["list routes"]; err != nil {
		return nil, err
	}
	var out []route
	for _, r := range f.rs {
		if (flt.proto == 0 || r.proto == flt.proto) && (flt.table == 0 || r.table == flt.table) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (f *fake) learned() ([]foreign, error) { return f.foreign, f.refuse["list routes"] }

func (f *fake) addrs() ([]addr, error) {
	return slices.Clone(f.as), f.refuse["list addresses"]
}

func (f *fake) try(op string) error {
	f.journal = append(f.journal, op)
	return f.refuse[op]
}

// stored is r as the kernel keeps it.
func stored(r route) route {
	r.metric = storedMetric(r.dst, r.metric)
	return r
}

func (f *fake) place(r route) int {
	return slices.IndexFunc(f.rs, func(o route) bool {
		return o.dst == r.dst && o.table == r.table && o.metric == r.metric
	})
}

func (f *fake) addRoute(r route) error {
	if err := f.try("add " + r.String()); err != nil {
		return err
	}
	r = stored(r)
	switch {
	case !f.isUp && needsUp(r):
		return unix.ENETDOWN
	case f.place(r) >= 0:
		return unix.EEXIST
	}
	f.rs = append(f.rs, r)
	return nil
}

func (f *fake) replaceRoute(r route) error {
	if err := f.try("replace " + r.String()); err != nil {
		return err
	}
	r = stored(r)
	if i := f.place(r); i >= 0 {
		f.rs[i] = r
		return nil
	}
	f.rs = append(f.rs, r)
	return nil
}

func (f *fake) delRoute(r route) error {
	if err := f.try("del " + r.String()); err != nil {
		return err
	}
	// IPv4 takes metric 0 for any.
	i := slices.Index(f.rs, stored(r))
	for m, o := range f.rs {
		like := o
		like.metric = 0
		if r.metric == 0 && r.dst.Addr().Is4() && like == r && (i < 0 || o.metric < f.rs[i].metric) {
			i = m
		}
	}
	if i < 0 {
		return unix.ESRCH
	}
	f.rs = slices.Delete(f.rs, i, i+1)
	return nil
}

// needsUp says whether r is refused while lo is down.
func needsUp(r route) bool {
	return r.kind == unix.RTN_UNICAST || r.kind == unix.RTN_LOCAL && r.dst.Addr().Is6()
}

// localRoute is what the kernel adds for an address.
func localRoute(a addr) route {
	r := route{
		kind: unix.RTN_LOCAL, dst: netip.PrefixFrom(a.prefix.Addr(), a.prefix.Addr().BitLen()),
		link: a.link, table: unix.RT_TABLE_LOCAL, proto: unix.RTPROT_KERNEL,
	}
	if a.prefix.Addr().Is4() {
		r.scope = unix.RT_SCOPE_HOST
	}
	return r
}

func (f *fake) addAddr(a addr) error {
	if err := f.try("add " + a.String()); err != nil {
		return err
	}
	if f.old {
		a.proto = 0
	}
	if a.prefix.Addr().Is4() && a.label == "" {
		a.label = f.names[a.link]
	}
	for _, o := range f.as {
		if o.link == a.link && o.prefix.Addr() == a.prefix.Addr() && (a.prefix.Addr().Is6() || o.prefix == a.prefix) {
			return unix.EEXIST
		}
	}
	f.as = append(f.as, a)
	f.rs = append(f.rs, localRoute(a))
	return nil
}

func (f *fake) leaseAddr(a addr, life time.Duration) error {
	if err := f.try(fmt.Sprintf("lease %s for %v", a, life)); err != nil {
		return err
	}
	f.as = slices.DeleteFunc(f.as, func(o addr) bool { return o.prefix == a.prefix })
	f.as = append(f.as, a)
	f.stamp++
	return nil
}

func (f *fake) leaseStamp() (stamp uint32, there bool, err error) {
	return f.stamp, slices.ContainsFunc(f.as, func(a addr) bool { return a.prefix == leaseAddress() }), nil
}

func (f *fake) delAddr(a addr) error {
	if err := f.try("del " + a.String()); err != nil {
		return err
	}
	i := slices.IndexFunc(f.as, func(o addr) bool {
		return o.prefix == a.prefix && o.link == a.link && o.label == a.label && (a.prefix.Addr().Is4() || o.proto == a.proto)
	})
	if i < 0 {
		return unix.EADDRNOTAVAIL
	}
	f.as = slices.Delete(f.as, i, i+1)
	f.rs = slices.DeleteFunc(f.rs, func(r route) bool { return r == localRoute(a) })
	return nil
}

// setUp brings lo up or down, with what follows from it: IPv4 keeps addresses
// and local routes, IPv6 keeps nothing.
func (f *fake) setUp(up bool) {
	f.isUp = up
	if up {
		return
	}
	f.rs = slices.DeleteFunc(f.rs, func(r route) bool {
		return r.link == loopback && (r.kind == unix.RTN_UNICAST || r.dst.Addr().Is6())
	})
	f.as = slices.DeleteFunc(f.as, func(a addr) bool { return a.link == loopback && a.prefix.Addr().Is6() })
}

// dump is what k has of rhid's test prefixes, one line each, sorted. The local
// routes that the kernel adds by itself are left out.
func dump(k stack) string {
	rs, errR := k.routes(routeFilter{})
	as, errA := k.addrs()
	if err := errors.Join(errR, errA); err != nil {
		return err.Error()
	}
	var lines []string
	for _, r := range rs {
		if inTest(r.dst.Addr()) && r.proto != unix.RTPROT_KERNEL {
			lines = append(lines, "route "+r.String())
		}
	}
	for _, a := range as {
		if inTest(a.prefix.Addr()) {
			lines = append(lines, "address "+a.String())
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func inTest(a netip.Addr) bool {
	return netip.MustParsePrefix("10.255.0.0/16").Contains(a) || netip.MustParsePrefix("fd00:255::/32").Contains(a)
}

const (
	vip4 = "10.255.0.10/32"
	vip6 = "fd00:255::10/128"
)

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func testSettings() Settings {
	return Settings{
		Protocol: 151, Table: 254, NextHop: NextHopLo, Tiers: []int{10, 100, 200}, Label: "lo:rhid",
		VIPs: []netip.Prefix{pfx(vip4), pfx(vip6), pfx("10.255.0.11/32")},
	}
}

func testWorld(k stack) *World {
	return newWorld(k, testSettings(), slog.New(slog.DiscardHandler))
}

// want4 and want6 ask for the test VIPs.
func want4(metric uint32, rank int) announce.Route {
	return announce.Route{Prefix: pfx(vip4), Attrs: announce.Attrs{Metric: metric, Rank: rank}}
}

func want6(metric uint32) announce.Route {
	return announce.Route{Prefix: pfx(vip6), Attrs: announce.Attrs{Metric: metric}}
}

func local4(m announce.LocalMode) announce.Route { return announce.Route{Prefix: pfx(vip4), Local: m} }

func local6(m announce.LocalMode) announce.Route { return announce.Route{Prefix: pfx(vip6), Local: m} }

// read is what a target sees, by prefix.
func read(t *testing.T, target announce.Target) map[string]announce.Seen {
	t.Helper()
	seen, err := target.Read(context.Background())
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	out := map[string]announce.Seen{}
	for p, s := range maps.All(seen) {
		out[p.String()] = s
	}
	return out
}

// settle does what the reconciler does for one wanted route: read, and put
// what is not the same.
func settle(t *testing.T, target announce.Target, r announce.Route) {
	t.Helper()
	if s, ok := read(t, target)[r.Prefix.String()]; ok && s.Here && target.Same(r, s) {
		return
	}
	if err := target.Put(context.Background(), r); err != nil {
		t.Fatalf("Put: %v", err)
	}
	s := read(t, target)[r.Prefix.String()]
	if !s.Here || !target.Same(r, s) {
		t.Fatalf("after Put of %+v there is %+v", r, s)
	}
}

func remove(t *testing.T, target announce.Target, prefix string) {
	t.Helper()
	if err := target.Remove(context.Background(), pfx(prefix)); err != nil {
		t.Fatalf("Remove: %v", err)
	}
}

func wantDump(t *testing.T, k stack, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(lines, "\n"), dump(k)); diff != "" {
		t.Errorf("kernel differs (-want +got):\n%s", diff)
	}
}

// bubble is synctest.Test on one processor. With -race and more of them, Go 1.26
// lets all use one context of the race detector for a bubble's timers, and now
// and then ends with a SIGSEGV in it (golang/go#78156). The detector goes by the
// order of events, not by chance, so one processor finds as much.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}
