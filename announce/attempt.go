package announce

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// attempt puts route, or removes p when route is nil, unless it failed and its
// pause is not over. It says whether it tried.
func (r *Reconciler) attempt(ctx context.Context, p netip.Prefix, route *Route) bool {
	now := time.Now()
	t := r.tries[p]
	if t != nil && now.Before(t.next) {
		return false
	}
	octx, cancel := context.WithTimeout(ctx, r.pace.Timeout)
	defer cancel()
	var err error
	op := "announce"
	if route != nil {
		err = r.target.Put(octx, *route)
	} else {
		op = "withdraw"
		err = r.target.Remove(octx, p)
	}
	r.dirty[p] = true
	var later *Later
	if errors.As(err, &later) {
		r.putOff(p, later)
		return false
	}
	if err != nil {
		r.fail(ctx, p, op, err)
		return true
	}
	if t != nil && t.failures > 0 {
		r.log.Info("succeeded after failures", "operation", op, "prefix", p, "failures", t.failures)
	}
	delete(r.tries, p)
	s := r.seen[p]
	s.Here, r.acked[p] = route != nil, route != nil
	if route != nil {
		s.Route = *route
	}
	s.Places = unread(s.Places, s.Here)
	r.seen[p] = s
	return true
}

// unread says of places known before that nothing was read back since.
func unread(places []Place, here bool) []Place {
	state := Leaving
	if here {
		state = Pending
	}
	out := make([]Place, len(places))
	for i, p := range places {
		out[i] = Place{Name: p.Name, State: state, Why: "not read back yet"}
	}
	return out
}

// putOff has a target asked again when it will be ready. What failed before is
// still so.
func (r *Reconciler) putOff(p netip.Prefix, later *Later) {
	t := r.tries[p]
	if t == nil {
		t = &try{}
		r.tries[p] = t
	}
	t.last, t.next, t.err = time.Now(), later.At, later.Error()
}

func (r *Reconciler) fail(ctx context.Context, p netip.Prefix, op string, err error) {
	t := r.tries[p]
	if t == nil {
		t = &try{}
		r.tries[p] = t
	}
	t.failures++
	t.last = time.Now()
	pause := r.pace.RetryMin << min(t.failures-1, 16)
	t.next = t.last.Add(min(pause, r.pace.RetryMax))
	if t.err != err.Error() && ctx.Err() == nil {
		r.log.Error("failed, to be tried again", "operation", op, "prefix", p, "error", err, "failures", t.failures)
	}
	t.err = err.Error()
}

// publish works out the status of every prefix that changed and offers it to
// the collector. Differs and Since are kept as long as nothing changes.
func (r *Reconciler) publish(now time.Time) {
	if len(r.dirty) == 0 {
		return
	}
	r.mu.Lock()
	for p := range r.dirty {
		st := r.statusOf(p, now)
		r.updates[p] = st
		if !st.Wanted && !st.Here && len(st.Places) == 0 {
			delete(r.status, p)
			continue
		}
		r.status[p] = st
	}
	r.mu.Unlock()
	clear(r.dirty)
	signal(r.changed)
}

func (r *Reconciler) statusOf(p netip.Prefix, now time.Time) RouteStatus {
	old, seen := r.status[p], r.seen[p]
	route, wanted := r.goal[p]
	st := RouteStatus{Wanted: wanted, Here: seen.Here, acked: r.acked[p], Places: make([]Place, len(seen.Places))}
	for i, place := range seen.Places {
		place.Since = now
		for _, o := range old.Places {
			if o.Name == place.Name && o.State == place.State {
				place.Since = o.Since
			}
		}
		st.Places[i] = place
	}
	if t := r.tries[p]; t != nil {
		st.Err, st.Attempts = t.err, t.failures
	}
	agrees := st.Settled() && (!wanted || r.target.Same(route, seen))
	if !agrees {
		st.Differs = old.Differs
		if st.Differs.IsZero() || old.Wanted != wanted {
			st.Differs = now
		}
	}
	return st
}
