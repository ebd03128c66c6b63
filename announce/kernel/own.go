package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// deleteRoute takes out r, which carries rhid's mark. That it is gone already
// is no error.
func (w *World) deleteRoute(r route) error {
	if r.metric == 0 && r.dst.Addr().Is4() {
		// Here the kernel would take any metric.
		if there, err := w.occupant(r); err != nil || there != r {
			return err
		}
	}
	err := w.stack.delRoute(r)
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("delete route %s: %w", r, err)
}

// occupant finds the route with the destination, table and metric of r; the
// zero route if there is none.
func (w *World) occupant(r route) (route, error) {
	rs, err := w.stack.routes(routeFilter{table: r.table})
	if err != nil {
		return route{}, err
	}
	for _, o := range rs {
		if o.dst == r.dst && o.metric == r.metric {
			return o, nil
		}
	}
	return route{}, nil
}

// errVanished is for a refusal that nothing justifies any more; the next
// attempt will tell.
func errVanished(want fmt.Stringer) error {
	return fmt.Errorf("add %s: %w, and was gone when looked for", want, unix.EEXIST)
}

// putRoute puts want in unless it is there, and in the place of rhid's own
// route with the same table and metric.
func (w *World) putRoute(c *conf, want route) error {
	err := w.stack.addRoute(want)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EEXIST) {
		return w.explain("add "+want.String(), err)
	}
	there, err := w.occupant(want)
	switch {
	case err != nil:
		return err
	case !there.dst.IsValid():
		return errVanished(want)
	case there == want:
		return nil
	case !c.ownRoute(there):
		return fmt.Errorf("add %s: protocol %s owns a route to %s with metric %d in table %d",
			want, protoName(there.proto), there.dst, there.metric, there.table)
	}
	if err := w.stack.replaceRoute(want); err != nil {
		return w.explain("replace own route "+there.String()+" by "+want.String(), err)
	}
	return nil
}

// explain wraps a refusal, and names lo being down as its likely cause.
func (w *World) explain(doing string, err error) error {
	if up, errUp := w.stack.up(); errUp == nil && !up {
		return fmt.Errorf("%s: lo is down: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
