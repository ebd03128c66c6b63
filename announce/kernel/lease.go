package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The lease is an address on lo that lives as long as it is renewed. Where the
// kernel tells of it (since Linux 6.7) it is the preferred source of the IPv4
// announcement routes in the main table, which go with it whatever became of
// rhid. All other routes are taken out by the guard, a process that does nothing
// but look for the address: see Guard.
//
// The kernel counts lives in whole seconds, and a router that runs BIRD takes one
// more. So the guard does not wait for the address to go: it acts when it has not
// been renewed for leaseMissed, on the IPv4 routes too.
const (
	leaseLife   = 2 * time.Second
	leaseRenew  = 500 * time.Millisecond
	leaseMissed = 1100 * time.Millisecond
	leaseLook   = 50 * time.Millisecond // how often it is looked at whether to renew, or whether it was missed
)

// leaseAddress is the address of the lease.
func leaseAddress() netip.Prefix { return netip.MustParsePrefix("169.254.151.1/32") }

// lease is whether announcement routes may be there.
type lease struct {
	renewed atomic.Pointer[time.Time] // nil before the first time
	gone    chan struct{}             // receives a value when the address went
}

var errNoLease = errors.New("the lease has lapsed, as this process stood still or could not renew it")

// held says whether the lease lives, and will for a moment.
func (l *lease) held() bool {
	at := l.renewed.Load()
	return at != nil && time.Since(*at) < leaseMissed-4*leaseLook
}

// wanted says whether there is anything to lease.
func (c *conf) leased() bool { return c.Lease && len(c.routed) > 0 && c.invalid == nil }

// KeepLease renews the lease as long as alive says so, until ctx ends. first is
// called once, when the lease is there for the first time. It returns nil.
func (w *World) KeepLease(ctx context.Context, alive func() bool, first func()) error {
	ticker := time.NewTicker(leaseLook)
	defer ticker.Stop()
	var failed string
	stolen := false // by somebody, before its time
	begun := false
	for {
		at := w.lease.renewed.Load()
		if c := w.conf.Load(); c.leased() && (at == nil || stolen || time.Since(*at) >= leaseRenew && alive()) {
			err := w.renewLease(c)
			switch {
			case err != nil && err.Error() != failed:
				failed = err.Error()
				w.log.Error("the lease of the announcement routes was not renewed", "error", err)
			case err == nil:
				failed = ""
			}
		}
		if !begun && w.lease.held() {
			begun = true
			first()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.lease.gone:
			stolen = w.lease.held()
		case <-ticker.C:
			stolen = false
		}
	}
}

// renewLease gives the lease its full life again.
func (w *World) renewLease(c *conf) error {
	now := time.Now()
	a := addr{prefix: leaseAddress(), link: loopback, label: c.Label, proto: c.protocol()}
	if err := w.stack.leaseAddr(a, leaseLife); err != nil {
		return w.explain("renew "+a.String(), err)
	}
	w.lease.renewed.Store(&now)
	return nil
}

// source is the preferred source of an announcement to p, invalid for none.
func (c *conf) source(p netip.Prefix) netip.Addr {
	if !c.leased() || !c.LeaseSource || c.Table != unix.RT_TABLE_MAIN || !p.Addr().Is4() {
		return netip.Addr{}
	}
	return leaseAddress().Addr()
}

// TellsOfSource says whether this kernel tells routing daemons of the routes that
// go with their preferred source, as Linux does since 6.7. Before that they would
// never hear of it.
func TellsOfSource() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return tellsOfSource(unix.ByteSliceToString(u.Release[:]))
}

func tellsOfSource(release string) bool {
	var major, minor int
	if n, err := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 || err != nil {
		return false
	}
	return major > 6 || major == 6 && minor >= 7
}

// noteLease looks whether the address that went is that of the lease.
func (w *World) noteLease(data []byte) {
	if a, ok := parseAddr(data); ok && a.prefix == leaseAddress() {
		select {
		case w.lease.gone <- struct{}{}:
		default: // one is waiting already
		}
	}
}
