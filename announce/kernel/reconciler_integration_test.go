//go:build integration

package kernel

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/announce"
)

// TestUnderTheReconciler runs both targets under the real reconciler: others
// break things, and all is as before within a second, without doubles.
func TestUnderTheReconciler(t *testing.T) {
	b := newBench(t)
	w := b.world(testSettings())
	ctx, cancel := context.WithCancel(context.Background())
	vips, announced := everything()
	done := make(chan error, 2)
	for target, want := range map[announce.Target][]announce.Route{w.Addresses(): vips, w.Routes(): announced} {
		r := announce.NewReconciler(target, announce.DefaultPace(), slog.New(slog.DiscardHandler))
		wishes := map[netip.Prefix]announce.Wish{}
		for _, route := range want {
			wishes[route.Prefix] = announce.Wish{Action: announce.Announce, Route: route}
		}
		r.Change(wishes, true, 1)
		go func() { done <- r.Run(ctx) }()
	}
	defer func() {
		cancel()
		<-done //nolint:errcheck // it ends with the context
		<-done //nolint:errcheck // as above
	}()
	k := b.stack()
	whole := "address 10.255.0.10/32 dev lo label lo:rhid proto 151\n" +
		"address fd00:255::10/128 dev lo proto 151\n" +
		"route 10.255.0.10/32 dev lo table 254 proto 151 metric 100\n" +
		"route fd00:255::10/128 dev lo table 254 proto 151 metric 100"
	until := func(what string) {
		t.Helper()
		start, got := time.Now(), ""
		for time.Since(start) < patience {
			if got = dump(k); got == whole && len(locals(k)) == 2 {
				t.Logf("%s: as wanted after %v", what, time.Since(start).Round(time.Millisecond))
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(whole, got))
	}
	until("start")
	for _, e := range []struct {
		name string
		do   func()
	}{
		{"IPv4 address deleted", func() { b.must(b.h.AddrDel(b.lo, b.addr(vip4))) }},
		{"IPv6 address deleted", func() { b.must(b.h.AddrDel(b.lo, b.addr(vip6))) }},
		{"route flush", func() { b.flush(151) }},
		{"local table flushed", b.flushLocal},
		{"lo down and up", func() {
			b.must(b.h.LinkSetDown(b.lo))
			b.must(b.h.LinkSetUp(b.lo))
		}},
		{"a leftover appears", func() {
			stale := w.conf.Load().announcement(want4(300, 0), nil)
			stale.table = 99
			b.must(k.addRoute(stale))
		}},
	} {
		e.do()
		until(e.name)
	}
}
