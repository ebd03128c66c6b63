//go:build integration

package kernel

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// both is the fake and the real kernel, given the same orders.
type both struct {
	fake *fake
	real *rtnetlink
	b    *bench
}

// step is one order to a kernel.
type step struct {
	name string
	do   func(stack) error
}

func add(r route) step {
	return step{"add " + r.String(), func(k stack) error { return k.addRoute(r) }}
}

func replace(r route) step {
	return step{"replace " + r.String(), func(k stack) error { return k.replaceRoute(r) }}
}

func del(r route) step {
	return step{"del " + r.String(), func(k stack) error { return k.delRoute(r) }}
}

func addA(a addr) step {
	return step{"add " + a.String(), func(k stack) error { return k.addAddr(a) }}
}

func delA(a addr) step {
	return step{"del " + a.String(), func(k stack) error { return k.delAddr(a) }}
}

// errnoName is the error a kernel gave, without its words.
func errnoName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return fmt.Sprint(err)
}

func (x *both) run(t *testing.T, s step) {
	t.Helper()
	want, got := errnoName(s.do(x.fake)), errnoName(s.do(x.real))
	if want != got {
		t.Errorf("%s: the fake answers %s, the kernel %s", s.name, want, got)
	}
	if diff := cmp.Diff(dump(x.fake), dump(x.real)); diff != "" {
		t.Errorf("after %s (-fake +kernel):\n%s", s.name, diff)
	}
	// IPv6 adds the local route of an address a moment later.
	diff := "-"
	for end := time.Now().Add(30 * time.Second); diff != "" && time.Now().Before(end); time.Sleep(time.Millisecond) {
		diff = cmp.Diff(locals(x.fake), locals(x.real))
	}
	if diff != "" {
		t.Errorf("local routes after %s (-fake +kernel):\n%s", s.name, diff)
	}
}

// locals is what dump leaves out: the kernel's own local routes.
func locals(k stack) []string {
	rs, err := k.routes(routeFilter{table: unix.RT_TABLE_LOCAL})
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for _, r := range rs {
		if inTest(r.dst.Addr()) && r.proto == unix.RTPROT_KERNEL {
			lines = append(lines, r.String())
		}
	}
	slices.Sort(lines)
	return lines
}

// script visits every answer that the targets rely on.
func script() []step {
	var steps []step
	for _, vip := range []string{vip4, vip6} {
		for _, form := range []string{NextHopLo, NextHopBlackhole, NextHopTier} {
			steps = append(steps, routeSteps(vip, form)...)
		}
		steps = append(steps, addressSteps(vip)...)
	}
	return steps
}

// onDevice is the form of an IPv6 route on a tier's device.
const onDevice = "device"

func routeSteps(vip, form string, devices ...device) []step {
	s := testSettings()
	s.NextHop = form
	if form == onDevice {
		s.NextHop, s.Tiers, s.Devices = NextHopTier, []int{10}, []string{devices[0].name}
	}
	var none *conf
	c := none.next(s)
	r := c.announcement(want4(50, 1), nil)
	if vip == vip6 {
		r = c.announcement(want6(50), devices)
	}
	zero, high, foreign, table := r, r, r, r
	zero.metric, high.metric, foreign.proto, table.table = storedMetric(r.dst, 0), 60, 200, 151
	plain := (&conf{Settings: testSettings(), protos: c.protos}).announcement(want4(50, 0), nil)
	if vip == vip6 {
		plain = (&conf{Settings: testSettings(), protos: c.protos}).announcement(want6(50), nil)
	}
	return []step{
		add(r), add(r), add(foreign), add(high), del(foreign), replace(r), add(table), add(table),
		del(r), del(r), add(foreign), del(r), add(r), del(foreign), del(high), del(table), del(table),
		add(zero), add(zero), add(r), del(zero), del(zero), del(r),
		add(plain), replace(r), del(r), add(r), replace(plain), del(plain),
	}
}

func addressSteps(vip string) []step {
	var none *conf
	c := none.next(testSettings())
	a, l := c.address(pfx(vip)), c.anyIP(pfx(vip))
	other := a
	other.label, other.proto = "lo", 0
	if !pfx(vip).Addr().Is4() {
		other.label = ""
	}
	return []step{
		addA(a), addA(a), addA(other), delA(other), add(l), add(l), delA(a), delA(a), addA(a), del(l), del(l), delA(a),
		addA(other), addA(a), delA(a), delA(other),
	}
}

func TestFakeIsLikeTheKernel(t *testing.T) {
	b := newBench(t)
	x := &both{fake: newFake(), real: b.stack(), b: b}
	link := b.veth()
	d := device{name: "x0", index: link.Attrs().Index}
	x.fake.names = map[int]string{loopback: "lo", d.index: d.name}
	for _, s := range append(script(), routeSteps(vip6, onDevice, d)...) {
		x.run(t, s)
	}
	for _, name := range []string{"lo", "x0", "nobody"} {
		want, errWant := x.fake.device(name)
		got, errGot := x.real.device(name)
		if want != got || errWant != nil || errGot != nil {
			t.Errorf("%s is %+v (%v) in the fake, %+v (%v) in the kernel", name, want, errWant, got, errGot)
		}
	}
	if diff := cmp.Diff("", dump(x.real)); diff != "" {
		t.Errorf("the script leaves something behind:\n%s", diff)
	}
}

// TestFakeLosesTheSame takes lo down and up with one of everything in place.
func TestFakeLosesTheSame(t *testing.T) {
	b := newBench(t)
	x := &both{fake: newFake(), real: b.stack(), b: b}
	var none *conf
	c := none.next(testSettings())
	down := step{"lo down", func(k stack) error {
		if f, ok := k.(*fake); ok {
			f.setUp(false)
			return nil
		}
		return b.h.LinkSetDown(b.lo)
	}}
	up := step{"lo up", func(k stack) error {
		if f, ok := k.(*fake); ok {
			f.setUp(true)
			return nil
		}
		return b.h.LinkSetUp(b.lo)
	}}
	black4, black6 := c.announcement(want4(100, 0), nil), c.announcement(want6(300), nil)
	black4.dst = pfx("10.255.0.11/32")
	black4.kind, black4.link, black4.scope, black6.kind = unix.RTN_BLACKHOLE, 0, 0, unix.RTN_BLACKHOLE
	for _, vip := range []string{vip4, vip6} {
		x.run(t, addA(c.address(pfx(vip))))
		x.run(t, add(c.anyIP(pfx(vip))))
	}
	for _, r := range []route{c.announcement(want4(100, 0), nil), c.announcement(want6(100), nil), black4, black6} {
		x.run(t, add(r))
	}
	x.run(t, down)
	for _, r := range []route{c.announcement(want4(100, 0), nil), c.announcement(want6(100), nil), black4, black6} {
		x.run(t, add(r))
	}
	for _, vip := range []string{vip4, vip6} {
		x.run(t, del(c.anyIP(pfx(vip))))
		x.run(t, add(c.anyIP(pfx(vip))))
		x.run(t, delA(c.address(pfx(vip))))
		x.run(t, addA(c.address(pfx(vip))))
	}
	x.run(t, up)
	x.run(t, add(c.announcement(want4(100, 0), nil)))
}
