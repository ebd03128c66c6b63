package checks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"strings"
)

// maxAddresses bounds how many addresses of one name are probed.
const maxAddresses = 32

// everyAddress probes all addresses of a name at once, and joins the results.
type everyAddress struct {
	aim     *aim
	options Options
	target  Target
	min     Quorum
	probers map[netip.Addr]Prober
}

// newEveryAddress returns a Prober of all addresses of t. Of a target that is
// an address it is the plain one.
func newEveryAddress(o Options, t Target, least Quorum) (Prober, error) {
	p, err := o.Prober(t) // says at once what is wrong with the options
	if err != nil {
		return nil, err
	}
	if _, holds := p.(Holder); holds {
		return nil, errors.New("resolve: all cannot be for a type that holds one connection")
	}
	a, err := newAim(t, TargetHost)
	if err != nil {
		return nil, err
	}
	if a.addr.IsValid() {
		return p, nil
	}
	if least == (Quorum{}) {
		least.Percent = 100
	}
	return timed((&everyAddress{aim: a, options: o, target: t, min: least, probers: map[netip.Addr]Prober{}}).probe), nil
}

func (e *everyAddress) probe(ctx context.Context) Result {
	addrs, f := e.aim.lookupAll(ctx, e.aim.host)
	if f != nil {
		return f.result("")
	}
	if len(addrs) > maxAddresses {
		return failf(CauseResolve, "name %s has %d addresses, at most %d are probed", e.aim.host, len(addrs), maxAddresses).result("")
	}
	if err := e.follow(addrs); err != nil {
		return failf(CauseInternal, "%v", err).result("")
	}
	return e.join(addrs, e.probeAll(ctx, addrs))
}

// follow makes probers for new addresses and forgets those that are gone.
func (e *everyAddress) follow(addrs []netip.Addr) error {
	next := make(map[netip.Addr]Prober, len(addrs))
	for _, addr := range addrs {
		p := e.probers[addr]
		if p == nil {
			t := e.target
			t.Addr = addr
			var err error
			if p, err = e.options.Prober(t); err != nil {
				return fmt.Errorf("address %s: %w", addr, err)
			}
		}
		next[addr] = p
	}
	e.probers = next
	return nil
}

// probeAll probes the addresses at the same time, each in its own goroutine.
func (e *everyAddress) probeAll(ctx context.Context, addrs []netip.Addr) []Result {
	type ended struct {
		i     int
		res   Result
		panic string
	}
	done := make(chan ended, len(addrs))
	for i, addr := range addrs {
		go func(p Prober) {
			out := ended{i: i}
			defer func() {
				if v := recover(); v != nil {
					out.panic = fmt.Sprintf("%v\n%s", v, debug.Stack())
				}
				done <- out
			}()
			out.res = p.Probe(ctx)
		}(e.probers[addr])
	}
	results := make([]Result, len(addrs))
	for range addrs {
		d := <-done
		if d.panic != "" {
			panic(d.panic) // in the goroutine whose panics are caught
		}
		results[d.i] = d.res
	}
	return results
}

// join makes one result of those of all addresses.
func (e *everyAddress) join(addrs []netip.Addr, results []Result) Result {
	out := Result{}
	good, need := 0, e.min.Need(len(addrs))
	var troubles []string
	for i, res := range results {
		if res.OK {
			good++
			out.Degraded = out.Degraded || res.Degraded
			continue
		}
		if out.Cause == CauseNone {
			out.Cause = res.Cause
		}
		troubles = append(troubles, fmt.Sprintf("%s: %s", addrs[i], res.Detail))
	}
	out.Detail = fmt.Sprintf("%d of %d addresses of %s answered as they should, %d must", good, len(addrs), e.aim.host, need)
	if len(addrs) == 1 {
		out.Detail = joined(fmt.Sprintf("%s is the only address of %s", addrs[0], e.aim.host), results[0].Detail)
		troubles = nil
	}
	if extra := len(troubles) - poolNames; extra > 0 {
		troubles = append(troubles[:poolNames], fmt.Sprintf("and %d more", extra))
	}
	out.Detail = joined(out.Detail, strings.Join(troubles, "; "))
	if good < need {
		out.Degraded = false
		return out
	}
	out.OK, out.Degraded, out.Cause = true, out.Degraded || good < len(addrs), CauseNone
	return out
}
