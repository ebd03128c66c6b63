//go:build integration

package kernel

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"rhid/announce"
	"rhid/internal/lab"
)

// everything is one VIP of each family as address, and both announced.
func everything() (locals, routes []announce.Route) {
	return []announce.Route{local4(announce.LocalAddress), local6(announce.LocalAddress)},
		[]announce.Route{want4(100, 1), want6(100)}
}

// missing lists what of everything is not as wanted, "" if nothing.
func missing(t *testing.T, w *World) string {
	t.Helper()
	locals, routes := everything()
	out := ""
	for _, part := range []struct {
		target announce.Target
		want   []announce.Route
	}{{w.Addresses(), locals}, {w.Routes(), routes}} {
		seen := read(t, part.target)
		for _, r := range part.want {
			if s, ok := seen[r.Prefix.String()]; !ok || !s.Here || !part.target.Same(r, s) {
				out += part.target.Name() + " " + r.Prefix.String() + "\n"
			}
		}
	}
	return out
}

// repair does what the reconciler would, until nothing is missing.
func repair(t *testing.T, w *World) time.Duration {
	t.Helper()
	start := time.Now()
	locals, routes := everything()
	for end := start.Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if missing(t, w) == "" {
			return time.Since(start)
		}
		for _, r := range locals {
			if s := read(t, w.Addresses())[r.Prefix.String()]; !s.Here || !w.Addresses().Same(r, s) {
				_ = w.Addresses().Put(t.Context(), r) // lo may be down; the loop decides
			}
		}
		for _, r := range routes {
			if s := read(t, w.Routes())[r.Prefix.String()]; !s.Here || !w.Routes().Same(r, s) {
				_ = w.Routes().Put(t.Context(), r)
			}
		}
	}
	t.Fatalf("not repaired within %v:\n%s", patience, missing(t, w))
	return 0
}

const (
	lost4     = "address 10.255.0.10/32\n"
	lost6     = "address fd00:255::10/128\n"
	lostRoute = "kernel 10.255.0.10/32\n"
	lostBoth  = lostRoute + "kernel fd00:255::10/128\n"
)

// TestForeignRemoval is what others do to rhid's objects: each must be heard
// of, read truly, and be repairable without doubles.
func TestForeignRemoval(t *testing.T) {
	tests := []struct {
		name string
		do   func(*bench)
		want string // missing afterwards
		mend func(*bench)
	}{
		{"IPv4 address deleted", func(b *bench) { b.must(b.h.AddrDel(b.lo, b.addr(vip4))) }, lost4, nil},
		{"only the IPv6 address deleted", func(b *bench) { b.must(b.h.AddrDel(b.lo, b.addr(vip6))) }, lost6, nil},
		{"all IPv4 addresses of lo deleted, VIP first", func(b *bench) {
			b.must(b.h.AddrDel(b.lo, b.addr(vip4)))
			b.must(b.h.AddrDel(b.lo, b.addr("127.0.0.1/8")))
		}, lost4 + lostRoute, nil},
		{"the other address of lo deleted", func(b *bench) { b.must(b.h.AddrDel(b.lo, b.addr("127.0.0.1/8"))) }, "", nil},
		{"IPv4 route deleted", func(b *bench) {
			b.must(b.h.RouteDel(&netlink.Route{Dst: b.addr(vip4).IPNet, Protocol: 151, Priority: 100, Gw: []byte{169, 254, 100, 100}}))
		}, lostRoute, nil},
		{"routes of the protocol flushed", func(b *bench) { b.flush(151) }, lostBoth, nil},
		{"lo down and up", func(b *bench) {
			b.must(b.h.LinkSetDown(b.lo))
			b.must(b.h.LinkSetUp(b.lo))
		}, lost6 + lostBoth, nil},
		{"lo down", func(b *bench) { b.must(b.h.LinkSetDown(b.lo)) }, lost6 + lostBoth, func(b *bench) { b.must(b.h.LinkSetUp(b.lo)) }},
		{"local table flushed", func(b *bench) { b.flushLocal() }, lost4 + lost6, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.must(b.h.AddrReplace(b.lo, b.addr("127.0.0.1/8")))
			s := testSettings()
			s.NextHop = NextHopTier
			w := b.world(s)
			repair(t, w)
			before := dump(w.stack)
			quiet(w.Addresses(), w.Routes())
			tt.do(b)
			heard := await(t, w.Addresses(), tt.name)
			await(t, w.Routes(), tt.name)
			if diff := cmp.Diff(tt.want, missing(t, w)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			if tt.mend != nil {
				quiet(w.Addresses(), w.Routes())
				tt.mend(b)
				await(t, w.Addresses(), "mending")
			}
			t.Logf("heard of after %v, repaired in %v", heard, repair(t, w))
			if diff := cmp.Diff(before, dump(w.stack)); diff != "" {
				t.Errorf("after repair (-before +after):\n%s", diff)
			}
		})
	}
}

// flushLocal deletes the local routes of the VIPs' addresses.
func (b *bench) flushLocal() {
	b.t.Helper()
	for _, vip := range []string{vip4, vip6} {
		family := netlink.FAMILY_V4
		if !pfx(vip).Addr().Is4() {
			family = netlink.FAMILY_V6
		}
		rs, err := b.h.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_LOCAL, Dst: b.addr(vip).IPNet},
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
		b.must(err)
		for _, r := range rs {
			if r.Dst.String() == vip {
				b.must(b.h.RouteDel(&r))
			}
		}
	}
}

// TestOtherInterface is what happens to other links: VIPs do not suffer, and
// a VIP that an operator puts there is told of.
func TestOtherInterface(t *testing.T) {
	b := newBench(t)
	x0 := b.veth()
	b.must(b.h.AddrAdd(x0, b.addr("192.0.2.1/24")))
	s := testSettings()
	s.NextHop = NextHopTier
	w := b.world(s)
	repair(t, w)
	for _, e := range []struct {
		name string
		do   func() error
	}{
		{"last address of an interface deleted", func() error { return b.h.AddrDel(x0, b.addr("192.0.2.1/24")) }},
		{"VIP put on another interface", func() error { return b.h.AddrAdd(x0, b.addr(vip4)) }},
		{"link down", func() error { return b.h.LinkSetDown(x0) }},
		{"link deleted", func() error { return b.h.LinkDel(x0) }},
	} {
		quiet(w.Addresses(), w.Routes())
		b.must(e.do())
		await(t, w.Routes(), e.name)
		if got := missing(t, w); got != "" {
			t.Errorf("%s: missing:\n%s", e.name, got)
		}
		places := read(t, w.Addresses())[vip4].Places
		foreign := slices.ContainsFunc(places, func(p announce.Place) bool { return p.Name == "x0" })
		if want := e.name != "last address of an interface deleted" && e.name != "link deleted"; foreign != want {
			t.Errorf("%s: places are %v", e.name, places)
		}
	}
}

// TestOwnChangesAreNotHeard puts and removes; only IPv6 addresses, which the
// kernel completes by itself, may say something.
func TestOwnChangesAreNotHeard(t *testing.T) {
	b := newBench(t)
	w := b.world(testSettings())
	quiet(w.Addresses(), w.Routes())
	for metric := range uint32(50) {
		settle(t, w.Routes(), want4(metric+1, 0))
		settle(t, w.Routes(), want6(metric+1))
	}
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	select {
	case <-w.Routes().Changes():
		t.Error("own changes were heard of")
	case <-time.After(100 * time.Millisecond):
	}
	remove(t, w.Routes(), vip4)
	remove(t, w.Routes(), vip6)
	remove(t, w.Addresses(), vip4)
	if got := dump(w.stack); got != "" {
		t.Errorf("left:\n%s", got)
	}
}

// TestForeignOnLo is an operator's own VIP on lo.
func TestForeignOnLo(t *testing.T) {
	for _, vip := range []string{vip4, vip6} {
		b := newBench(t)
		b.must(b.h.AddrAdd(b.lo, b.addr(vip)))
		w := b.world(testSettings())
		before := dump(w.stack)
		r := announce.Route{Prefix: pfx(vip), Local: announce.LocalAddress}
		settleSoon(t, w, r)
		remove(t, w.Addresses(), vip)
		if diff := cmp.Diff(before, dump(w.stack)); diff != "" {
			t.Errorf("the operator's address (-before +after):\n%s", diff)
		}
		quiet(w.Addresses())
		b.must(b.h.AddrDel(b.lo, b.addr(vip)))
		await(t, w.Addresses(), "operator deletes his address")
		settleSoon(t, w, r)
	}
}

// TestChangeOfModeOnTheWire probes while a VIP changes from one form to the
// other: it must be local at every moment.
func TestChangeOfModeOnTheWire(t *testing.T) {
	for _, r := range []func(announce.LocalMode) announce.Route{local4, local6} {
		b := newBench(t)
		w := b.world(testSettings())
		watcher := b.stack()
		vip := r(announce.LocalAddress).Prefix
		settleSoon(t, w, r(announce.LocalAddress))
		stop, gaps := make(chan struct{}), make(chan int, 1)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					gaps <- n
					return
				default:
				}
				if rs, err := watcher.routes(routeFilter{table: unix.RT_TABLE_LOCAL}); err == nil &&
					!slices.ContainsFunc(rs, func(l route) bool { return l.dst == vip && l.kind == unix.RTN_LOCAL }) {
					n++
				}
			}
		}()
		for range 20 {
			settleSoon(t, w, r(announce.LocalAnyIP))
			settleSoon(t, w, r(announce.LocalAddress))
		}
		close(stop)
		if n := <-gaps; n != 0 {
			t.Errorf("%s was found not local %d times", vip, n)
		}
	}
}

func settleSoon(t *testing.T, w *World, r announce.Route) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if s := read(t, w.Addresses())[r.Prefix.String()]; s.Here && w.Addresses().Same(r, s) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not local within %v", r.Prefix, patience)
		}
		if err := w.Addresses().Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOverflow floods the subscription with 5,000 routes of others while
// nobody reads it; a change amid the flood must be heard of all the same.
func TestOverflow(t *testing.T) {
	b := newBench(t)
	var journal bytes.Buffer
	w, err := Open(testSettings(), slog.New(slog.NewTextHandler(&journal, nil)))
	b.must(err)
	defer func() { b.must(w.Close()) }()
	b.must(w.sub.SetReceiveBufferSize(8192, true)) // small, to be sure
	settle(t, w.Routes(), want4(100, 0))
	flood := func(from, to int) {
		for i := range to - from {
			n := from + i
			dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 201, byte(n >> 8), byte(n)}), 32)
			b.must(b.h.RouteAdd(&netlink.Route{Dst: b.addr(dst.String()).IPNet, LinkIndex: loopback, Protocol: 186}))
		}
	}
	flood(0, 2500)
	b.flush(151)
	flood(2500, 5000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	await(t, w.Routes(), "start of watching and overflow")
	if seen := read(t, w.Routes()); len(seen) != 0 {
		t.Errorf("Read says %v is there", seen)
	}
	settle(t, w.Routes(), want4(100, 0))
	quiet(w.Routes())
	b.flush(151)
	t.Logf("after the overflow, a deletion is heard of after %v", await(t, w.Routes(), "deletion after the overflow"))
	cancel()
	b.must(<-done)
	if !strings.Contains(journal.String(), "comparing in full") {
		t.Errorf("the subscription did not overflow; log:\n%s", journal.String())
	}
}

// TestSubscribesAgain takes the socket away.
func TestSubscribesAgain(t *testing.T) {
	b := newBench(t)
	w := b.world(testSettings())
	settle(t, w.Routes(), want4(100, 0))
	quiet(w.Addresses(), w.Routes())
	w.mu.Lock()
	w.sub.Close()
	w.mu.Unlock()
	t.Logf("subscribed again after %v", await(t, w.Routes(), "new subscription"))
	quiet(w.Addresses(), w.Routes())
	b.flush(151)
	await(t, w.Routes(), "deletion after the new subscription")
}

func TestCleanupInTheKernel(t *testing.T) {
	b := newBench(t)
	w := b.world(testSettings())
	repair(t, w)
	b.must(b.h.RouteAdd(&netlink.Route{Dst: b.addr(vip4).IPNet, LinkIndex: loopback, Protocol: 200, Priority: 7}))
	got, err := Cleanup(t.Context(), testSettings())
	b.must(err)
	want := []string{
		"route 10.255.0.10/32 dev lo table 254 proto 151 metric 100",
		"route fd00:255::10/128 dev lo table 254 proto 151 metric 100",
		"address 10.255.0.10/32 dev lo label lo:rhid proto 151",
		"address fd00:255::10/128 dev lo proto 151",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	wantDump(t, w.stack, "route 10.255.0.10/32 dev lo table 254 proto 200 metric 7")
}

// TestFigures prints how long the kernel takes with 2,000 routes and 1,000
// addresses beside 10,000 routes of others.
func TestFigures(t *testing.T) {
	b := newBench(t)
	s := testSettings()
	s.VIPs = nil
	for i := range 2000 {
		s.VIPs = append(s.VIPs, hostPrefix(netip.AddrFrom4([4]byte{10, 255, byte(i >> 8), byte(i)})))
	}
	for i := range 10_000 {
		dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, byte(i >> 8), byte(i)}), 32)
		b.must(b.h.RouteAdd(&netlink.Route{Dst: b.addr(dst.String()).IPNet, LinkIndex: loopback, Protocol: 186}))
	}
	w := b.world(s)
	var misses []string
	measure := func(what string, tries int, most time.Duration, do func() error) {
		took := time.Hour
		for range tries { // the best: other work on the machine is not ours
			start := time.Now()
			b.must(do())
			took = min(took, time.Since(start))
		}
		fmt.Printf("figure: %s: %v\n", what, took.Round(10*time.Microsecond))
		if took > most {
			misses = append(misses, fmt.Sprintf("%s took %v, more than %v", what, took, most))
		}
	}
	each := func(vips []netip.Prefix, do func(netip.Prefix) error) func() error {
		return func() error {
			for _, p := range vips {
				if err := do(p); err != nil {
					return err
				}
			}
			return nil
		}
	}
	readAll := func(target announce.Target) func() error {
		return func() error { _, err := target.Read(t.Context()); return err }
	}
	put := func(p netip.Prefix) error {
		return w.Routes().Put(t.Context(), announce.Route{Prefix: p, Attrs: announce.Attrs{Metric: 100}})
	}
	bind := func(p netip.Prefix) error {
		return w.Addresses().Put(t.Context(), announce.Route{Prefix: p, Local: announce.LocalAddress})
	}
	remove := func(target announce.Target) func(netip.Prefix) error {
		return func(p netip.Prefix) error { return target.Remove(t.Context(), p) }
	}
	lab.Steady(t, 200*time.Millisecond, func() []string {
		misses = nil
		measure("put 2000 routes", 1, 2*time.Second, each(s.VIPs, put))
		measure("read 2000 routes beside 10000 of others", 5, 250*time.Millisecond, readAll(w.Routes()))
		measure("put 1000 addresses", 1, 2*time.Second, each(s.VIPs[:1000], bind))
		measure("read 1000 addresses", 5, 250*time.Millisecond, readAll(w.Addresses()))
		measure("remove 1000 addresses", 1, 5*time.Second, each(s.VIPs[:1000], remove(w.Addresses())))
		measure("remove 2000 routes", 1, 2*time.Second, each(s.VIPs, remove(w.Routes())))
		return misses
	})
}
