package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"

	"rhid/announce"
	"rhid/announce/kernel/readback"
)

// World is one network namespace as rhid sees and changes it. Its two targets
// share one netlink socket and one subscription.
type World struct {
	log     *slog.Logger
	stack   stack
	conf    atomic.Pointer[conf]
	address *addresses
	route   *routes
	lease   lease
	back    *readback.Readback // nil where no routing daemon is asked
	seen    seen

	kernel *rtnetlink     // the stack, where it is the real one
	ns     netns.NsHandle // where to subscribe again; netns.None() if unknown
	mu     sync.Mutex     // guards sub
	sub    *nl.NetlinkSocket
}

// Open opens the network namespace of the calling thread and subscribes to its
// changes. It needs CAP_NET_ADMIN to change anything, and nothing to look.
func Open(s Settings, log *slog.Logger) (*World, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("kernel settings: %w", err)
	}
	k, err := openRtnetlink()
	if err != nil {
		return nil, err
	}
	w := newWorld(k, s, log)
	w.kernel = k
	if len(s.Readback.From) > 0 {
		w.back = readback.New(s.Readback, log)
		w.route.confirmation = newConfirmation(w.back)
	}
	if w.ns, err = netns.Get(); err != nil {
		w.ns = netns.None() // not dumpable, or no /proc: then all threads are in one namespace
	}
	if w.sub, err = subscribe(netns.None()); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if c := w.conf.Load(); c.leased() {
		// What an earlier life left is to be adopted, and may have little time
		// left. A failure is told by KeepLease.
		_ = w.renewLease(c)
	}
	return w, nil
}

// newWorld returns a World over k that nobody watches.
func newWorld(k stack, s Settings, log *slog.Logger) *World {
	w := &World{log: log, stack: k, ns: netns.None(), lease: lease{gone: make(chan struct{}, 1)}}
	var none *conf
	w.conf.Store(none.next(s))
	w.address = &addresses{w: w, changes: make(chan struct{}, 1), borrowed: map[key]bool{}}
	w.route = &routes{w: w, changes: make(chan struct{}, 1), changed: map[netip.Prefix]lastChange{}}
	w.seen = seen{stale: true, changed: make(chan struct{}, 1)}
	return w
}

// Addresses returns the target "address", which makes VIPs local.
func (w *World) Addresses() announce.Target { return w.address }

// Routes returns the target "kernel", the announcement routes.
func (w *World) Routes() announce.Target { return w.route }

// Configure takes new settings over. Objects with the marks of earlier
// settings are still known as rhid's, and go or change at the next comparison.
// With settings that Validate refuses nothing more is put in. Whom to read back
// from cannot change. Configure may be
// called at any time, by one goroutine.
func (w *World) Configure(s Settings) {
	w.conf.Store(w.conf.Load().next(s))
	w.outdate(true)
	w.signal()
}

// Close gives the sockets back, after Run has returned. What rhid put into the
// kernel stays.
func (w *World) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sub != nil {
		w.sub.Close()
	}
	if w.kernel != nil {
		w.kernel.close()
	}
	if w.ns.IsOpen() {
		if err := w.ns.Close(); err != nil {
			return fmt.Errorf("close network namespace: %w", err)
		}
	}
	return nil
}

// signal tells both reconcilers to look again.
func (w *World) signal() {
	for _, c := range []chan struct{}{w.address.changes, w.route.changes} {
		select {
		case c <- struct{}{}:
		default: // one is waiting already
		}
	}
}
