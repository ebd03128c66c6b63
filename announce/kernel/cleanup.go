package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Cleanup removes everything that carries rhid's marks: routes with its
// protocol number in all tables, addresses on lo with its label or protocol
// number. It returns what it removed, one line each, and an error for all that
// could not be removed. Routes go before addresses: the network should turn
// away first. It must not run beside a daemon, which would put all back.
func Cleanup(ctx context.Context, s Settings) ([]string, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("kernel settings: %w", err)
	}
	k, err := openRtnetlink()
	if err != nil {
		return nil, err
	}
	defer k.close()
	return cleanup(ctx, k, s)
}

func cleanup(ctx context.Context, k stack, s Settings) ([]string, error) {
	w := newWorld(k, s, nil)
	c := w.conf.Load()
	announced, err := w.route.list(ctx, c)
	if err != nil {
		return nil, err
	}
	locals, err := w.address.list(ctx, c)
	if err != nil {
		return nil, err
	}
	var done []string
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		done = append(done, what)
	}
	for _, p := range sortedPrefixes(announced) {
		for _, r := range announced[p] {
			note("route "+r.String(), w.deleteRoute(r))
		}
	}
	for _, p := range sortedPrefixes(locals) {
		l := locals[p]
		for _, r := range l.anyIP {
			note("route "+r.String(), w.deleteRoute(r))
		}
		for _, a := range l.addrs {
			note("address "+a.String(), w.address.dropAddrs(&local{addrs: []addr{a}}))
		}
	}
	if _, there, err := k.leaseStamp(); there || err != nil {
		a := addr{prefix: leaseAddress(), link: loopback, label: s.Label, proto: uint8(s.Protocol)}
		note("address "+a.String(), errors.Join(err, w.address.dropAddrs(&local{addrs: []addr{a}})))
	}
	return done, errors.Join(errs...)
}

func sortedPrefixes[V any](m map[netip.Prefix]V) []netip.Prefix {
	ps := make([]netip.Prefix, 0, len(m))
	for p := range m {
		ps = append(ps, p)
	}
	slices.SortFunc(ps, netip.Prefix.Compare)
	return ps
}
