//go:build integration

package kernel

import (
	"strings"
	"testing"
)

// TestTierDevice takes the device of a route away: rhid hears of it, says what is
// wrong, and puts the route back once the device can take it.
func TestTierDevice(t *testing.T) {
	b := newBench(t)
	x0 := b.veth()
	s := testSettings()
	s.NextHop, s.Tiers, s.Devices = NextHopTier, []int{10}, []string{"x0"}
	w := b.world(s)
	settle(t, w.Routes(), want6(100))
	for _, e := range []struct {
		name, want string
		do, mend   func()
	}{
		{"down", "tier device x0 is down or has no carrier", func() { b.must(b.h.LinkSetDown(x0)) }, func() { b.must(b.h.LinkSetUp(x0)) }},
		{"deleted", "there is no tier device x0", func() { b.must(b.h.LinkDel(x0)) }, func() { x0 = b.veth() }},
	} {
		quiet(w.Routes())
		e.do()
		heard := await(t, w.Routes(), e.name)
		if got := read(t, w.Routes()); len(got) != 0 {
			t.Errorf("%s: there is still %v", e.name, got)
		}
		err := w.Routes().Put(t.Context(), want6(100))
		if err == nil || !strings.Contains(err.Error(), e.want) {
			t.Errorf("%s: Put says %v, want %s", e.name, err, e.want)
		}
		e.mend()
		settle(t, w.Routes(), want6(100))
		t.Logf("%s: heard of after %v", e.name, heard)
	}
	remove(t, w.Routes(), vip6)
	wantDump(t, w.stack)
}
