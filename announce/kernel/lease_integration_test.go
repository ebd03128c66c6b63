//go:build integration

package kernel

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLeaseInTheKernel has the real kernel keep the lease: it takes the IPv4
// routes out when that lapses, and the guard the IPv6 ones, a good deal before.
func TestLeaseInTheKernel(t *testing.T) {
	b := newBench(t)
	s := testSettings()
	s.Lease, s.LeaseSource, s.Routed = true, TellsOfSource(), s.VIPs
	w := b.world(s)
	k := b.stack()
	put := func() (renewed time.Time) {
		t.Helper()
		renewed = time.Now()
		b.must(w.renewLease(w.conf.Load()))
		settle(t, w.route, want4(100, 0))
		settle(t, w.route, want6(100))
		return renewed
	}
	gone := func(family uint8, limit time.Duration) time.Duration {
		t.Helper()
		began := time.Now()
		for time.Since(began) < limit {
			rs, err := k.routes(routeFilter{proto: 151})
			b.must(err)
			there := false
			for _, r := range rs {
				there = there || familyOf(r.dst.Addr()) == family
			}
			if !there {
				return time.Since(began)
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Fatalf("routes are still there after %v", limit)
		return 0
	}
	put()
	first, there, err := k.leaseStamp()
	b.must(err)
	time.Sleep(20 * time.Millisecond) // the kernel counts hundredths of a second
	renewed := time.Now()
	b.must(w.renewLease(w.conf.Load()))
	second, _, err := k.leaseStamp()
	b.must(err)
	if !there || first == second {
		t.Errorf("stamp of the lease: %d, there %v, and after the renewal %d", first, there, second)
	}
	if s.LeaseSource {
		gone(unix.AF_INET, 10*time.Second)
		took := time.Since(renewed)
		t.Logf("the kernel took the IPv4 route out %v after the renewal", took.Round(time.Millisecond))
		if took < leaseLife-100*time.Millisecond {
			t.Errorf("the IPv4 route lived for %v, want %v", took, leaseLife)
		}
	}
	put()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	guarded := newWorld(b.stack(), s, slog.New(slog.DiscardHandler))
	go func() { done <- guard(ctx, guarded.stack, s, nil, guarded.log) }()
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		took := gone(family, 2*leaseMissed)
		t.Logf("family %d gone by the guard after %v", family, took.Round(time.Millisecond))
	}
	cancel()
	b.must(<-done)
}
