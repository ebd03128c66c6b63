package checks

import (
	"context"
	"io"
	"net/netip"
	"sync"
	"time"
)

// watchProbe is a prober of a passive type that watches the traffic to one
// server: S is what it watches with, T what that tells, which is compared with
// what it told before.
type watchProbe[S io.Closer, T any] struct {
	*aim
	open  func(netip.AddrPort) (S, error)
	read  func(S) (T, error)
	count func(was, is T) Counts
	keep  *keeper[S, T]
}

// keeper is what a watchProbe keeps between two probes, and hands over to its
// successor at a reload.
type keeper[S io.Closer, T any] struct {
	mu       sync.Mutex
	source   S
	of       netip.AddrPort // invalid while there is no source
	last     T
	released bool
}

// Probe implements Prober.
func (p *watchProbe[S, T]) Probe(ctx context.Context) Result { return timed(p.probe).Probe(ctx) }

// Watch implements Holder. What is watched never breaks by itself.
func (p *watchProbe[S, T]) Watch(func(Result)) {}

// Inherit implements Holder.
func (p *watchProbe[S, T]) Inherit(from Holder) {
	if old, ok := from.(*watchProbe[S, T]); ok {
		p.keep = old.keep
	}
}

// Release implements Holder. A probe may be under way, so it is not waited for.
func (p *watchProbe[S, T]) Release() {
	keep := p.keep
	go func() {
		keep.mu.Lock()
		defer keep.mu.Unlock()
		keep.released = true
		keep.close()
	}()
}

func (k *keeper[S, T]) close() {
	if k.of.IsValid() {
		_ = k.source.Close() // it was only read from
		k.of = netip.AddrPort{}
	}
}

func (p *watchProbe[S, T]) probe(ctx context.Context) Result {
	addr, f := p.resolve(ctx)
	if f != nil {
		return f.result("")
	}
	k, to := p.keep, netip.AddrPortFrom(addr, p.port)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.released {
		return Result{Cause: CauseInternal, Detail: "the probe was stopped"}
	}
	is, fresh, err := p.look(to)
	if err != nil {
		k.close() // the next probe begins anew
		return failf(CauseInternal, "%s", cut(err.Error(), 200)).result("")
	}
	was := k.last
	k.last = is
	if fresh {
		return counted(Counts{Detail: "has begun to watch"})
	}
	return counted(p.count(was, is))
}

// look reads what there is to know of the server now, and says whether nothing
// was known of it before.
func (p *watchProbe[S, T]) look(to netip.AddrPort) (is T, fresh bool, err error) {
	k := p.keep
	if k.of != to {
		k.close()
		if k.source, err = p.open(to); err != nil {
			return is, true, err
		}
		k.of, fresh = to, true
	}
	is, err = p.read(k.source)
	return is, fresh, err
}

// millis is a delay fit for a sentence.
func millis(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }
