package kernel

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/announce"
)

func leasedWorld(k stack) *World {
	s := testSettings()
	s.Lease, s.LeaseSource, s.Routed = true, true, s.VIPs
	return newWorld(k, s, slog.New(slog.DiscardHandler))
}

// TestLeaseIsKeptByTheLiving renews the lease twice a second, and not at all
// while nothing is alive.
func TestLeaseIsKeptByTheLiving(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := &shared{fake: newFake()}
		w := leasedWorld(k)
		ctx, cancel := context.WithCancel(t.Context())
		var alive atomic.Bool
		var begun atomic.Int32
		alive.Store(true)
		done := make(chan error, 1)
		go func() { done <- w.KeepLease(ctx, alive.Load, func() { begun.Add(1) }) }()
		renewals := func(d time.Duration) int {
			synctest.Wait()
			before := k.tried()
			<-time.After(d)
			synctest.Wait()
			return k.tried() - before
		}
		if n := renewals(10 * time.Second); n != 20 || begun.Load() != 1 || !w.lease.held() {
			t.Errorf("alive: renewed %d times in 10 s, begun %d, held %v", n, begun.Load(), w.lease.held())
		}
		if err := w.route.Put(ctx, want4(100, 0)); err != nil {
			t.Errorf("with the lease: %v", err)
		}
		before := k.tried()
		w.lease.gone <- struct{}{}
		synctest.Wait()
		if n := k.tried() - before; n != 1 {
			t.Errorf("stolen: renewed %d times, want once and at once", n)
		}
		alive.Store(false)
		if n := renewals(10 * time.Second); n != 0 || w.lease.held() {
			t.Errorf("hung: renewed %d times, held %v", n, w.lease.held())
		}
		w.lease.gone <- struct{}{}
		if n := renewals(time.Second); n != 0 {
			t.Errorf("lapsed while hung: renewed %d times", n)
		}
		if err := w.route.Put(ctx, want4(200, 0)); !errors.Is(err, errNoLease) {
			t.Errorf("without the lease: %v", err)
		}
		alive.Store(true)
		k.deny(errors.New("refused"))
		if n := renewals(time.Second); n == 0 || w.lease.held() {
			t.Errorf("refused: tried %d times, held %v", n, w.lease.held())
		}
		k.deny(nil)
		if renewals(time.Second); !w.lease.held() || begun.Load() != 1 {
			t.Errorf("alive again: held %v, begun %d", w.lease.held(), begun.Load())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestLeaseIsNoVIP keeps the address target away from the lease.
func TestLeaseIsNoVIP(t *testing.T) {
	k := newFake()
	w := leasedWorld(k)
	if err := w.renewLease(w.conf.Load()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, w.address); len(got) != 0 {
		t.Errorf("the address target sees %v", got)
	}
	removed, err := cleanup(context.Background(), k, testSettings())
	if diff := cmp.Diff([]string{"address 169.254.151.1/32 dev lo label lo:rhid proto 151"}, removed); diff != "" || err != nil {
		t.Errorf("cleanup: %v (-want +got):\n%s", err, diff)
	}
}

func TestSourceOfAnnouncements(t *testing.T) {
	form := func(change func(*Settings), r announce.Route) string {
		s := testSettings()
		s.Lease, s.LeaseSource, s.Routed = true, true, s.VIPs
		change(&s)
		var none *conf
		return none.next(s).announcement(r, nil).String()
	}
	for name, tt := range map[string]struct {
		change func(*Settings)
		route  announce.Route
		leased bool
	}{
		"IPv4":        {func(*Settings) {}, want4(100, 0), true},
		"tier":        {func(s *Settings) { s.NextHop = NextHopTier }, want4(100, 1), true},
		"blackhole":   {func(s *Settings) { s.NextHop = NextHopBlackhole }, want4(100, 1), true},
		"IPv6":        {func(*Settings) {}, want6(100), false},
		"other table": {func(s *Settings) { s.Table = 151 }, want4(100, 0), false},
		"old kernel":  {func(s *Settings) { s.LeaseSource = false }, want4(100, 0), false},
		"no lease":    {func(s *Settings) { s.Lease = false }, want4(100, 0), false},
		"BGP only":    {func(s *Settings) { s.Routed = nil }, want4(100, 0), false},
	} {
		if got := form(tt.change, tt.route); strings.Contains(got, " src 169.254.151.1 ") != tt.leased {
			t.Errorf("%s: %s, want leased %v", name, got, tt.leased)
		}
	}
	for release, want := range map[string]bool{"6.1.0-40-amd64": false, "6.6.99": false, "6.7.0": true, "6.18.44-fc": true, "7.0": true, "5.19": false, "x": false} {
		if got := tellsOfSource(release); got != want {
			t.Errorf("Linux %s: %v, want %v", release, got, want)
		}
	}
}

// shared is a fake for two goroutines.
type shared struct {
	mu sync.Mutex
	*fake
}

func (s *shared) addrs() ([]addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fake.addrs()
}

func (s *shared) routes(f routeFilter) ([]route, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fake.routes(f)
}

func (s *shared) delRoute(r route) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fake.delRoute(r)
}

func (s *shared) leaseAddr(a addr, life time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fake.leaseAddr(a, life)
}

// renewal is the text of a renewal.
const renewal = "lease 169.254.151.1/32 dev lo label lo:rhid proto 151 for 2s"

// tried is how often a renewal was tried.
func (s *shared) tried() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range s.journal {
		if op == renewal {
			n++
		}
	}
	return n
}

// deny has renewals fail with err.
func (s *shared) deny(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse[renewal] = err
}

// lapse takes the lease away.
func (s *shared) lapse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.as = nil
}

func (s *shared) leaseStamp() (stamp uint32, there bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fake.leaseStamp()
}

// guarded is a guard over a kernel with announcements, and a lease that is renewed
// until stop is called.
func guarded(t *testing.T) (k *shared, stop func(), parent chan struct{}, done chan error) {
	t.Helper()
	k, parent, done = &shared{fake: newFake()}, make(chan struct{}), make(chan error, 1)
	w := leasedWorld(k)
	if err := w.renewLease(w.conf.Load()); err != nil {
		t.Fatal(err)
	}
	settle(t, w.route, want4(100, 0))
	settle(t, w.route, want6(100))
	settle(t, w.address, local4(announce.LocalAnyIP))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = w.KeepLease(ctx, func() bool { return true }, func() {}) // it returns nil
	}()
	go func() {
		done <- guard(t.Context(), k, testSettings(), parent, slog.New(slog.DiscardHandler))
	}()
	<-time.After(time.Minute)
	synctest.Wait()
	wantDump(t, k, leasedDump...)
	return k, cancel, parent, done
}

// leasedDump is what guarded has in the kernel; what the guard leaves is last.
var leasedDump = []string{
	"route 10.255.0.10/32 dev lo src 169.254.151.1 table 254 proto 151 metric 100",
	"route fd00:255::10/128 dev lo table 254 proto 151 metric 100",
	"route local 10.255.0.10/32 dev lo table 255 proto 151 metric 1024",
}

func TestGuardTakesRoutesOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k, stop, parent, done := guarded(t)
		k.lapse() // somebody took the address: it is back at the next renewal
		<-time.After(leaseMissed)
		synctest.Wait()
		wantDump(t, k, leasedDump...)
		stop()
		<-time.After(leaseMissed - leaseRenew - leaseLook)
		synctest.Wait()
		wantDump(t, k, leasedDump...)
		<-time.After(leaseRenew + 2*leaseLook)
		synctest.Wait()
		wantDump(t, k, leasedDump[2:]...)
		<-time.After(time.Minute)
		select {
		case err := <-done:
			t.Errorf("the guard of a living parent ended: %v", err)
		default:
		}
		close(parent)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestGuardOfADeadParent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k, stop, parent, done := guarded(t)
		died := time.Now()
		stop()
		close(parent)
		if err := <-done; err != nil {
			t.Error(err)
		}
		wantDump(t, k, leasedDump[2:]...)
		if took := time.Since(died); took > leaseMissed+2*leaseLook {
			t.Errorf("took %v", took)
		}
	})
}

// TestGuardGivesWay has another life of rhid keep the lease: its guard looks
// after the routes now.
func TestGuardGivesWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k, stop, parent, done := guarded(t)
		close(parent)
		if err := <-done; err != nil {
			t.Error(err)
		}
		wantDump(t, k, leasedDump...)
		stop()
		synctest.Wait()
	})
}

// TestGuardThatStoodStill has the whole host stand still, for long and for less
// than the lease may be missed: neither counts.
func TestGuardThatStoodStill(t *testing.T) {
	k := newFake()
	if err := k.leaseAddr(addr{prefix: leaseAddress()}, leaseLife); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	w := leaseWatch{renewed: now}
	look := func(after time.Duration, want bool) {
		t.Helper()
		now = now.Add(after)
		if missed, err := w.look(k, now); missed != want || err != nil {
			t.Errorf("after %v: missed %v, %v, want %v", after, missed, err, want)
		}
	}
	look(0, false)
	const stood = 3
	for _, still := range [stood]time.Duration{10 * time.Second, leaseMissed / 2, 4 * leaseLook} {
		look(leaseLook, false)
		look(still, false) // counts as one more look
	}
	for range int(leaseMissed/leaseLook) - 2*stood - 1 {
		look(leaseLook, false)
	}
	look(leaseLook, true)
	look(leaseLook, true)
	if err := k.leaseAddr(addr{prefix: leaseAddress()}, leaseLife); err != nil {
		t.Fatal(err)
	}
	if missed, err := w.look(k, now.Add(leaseLook)); missed || err != nil {
		t.Errorf("renewed: missed %v, %v", missed, err)
	}
}
