package announce

import (
	"net/netip"
	"slices"
	"time"
)

// collect takes over what the reconcilers have seen, and marks the VIPs that
// it concerns.
func (a *Announcer) collect(now time.Time) {
	for name, r := range a.all {
		done := r.Done() // before Collect, so that what it vouches for is in there
		for p, st := range r.Collect() {
			a.dirty[p] = true
			v := a.vips[p]
			if v != nil && name == AddressTarget && v.local && (st.effective() || r.status[p].effective()) {
				v.localAt = now
			}
			if !st.Wanted && !st.Here && len(st.Places) == 0 {
				delete(r.status, p)
			} else {
				r.status[p] = st
			}
		}
		if done == r.done {
			continue
		}
		r.done = done
		for p := range r.waiting {
			if v := a.vips[p]; v == nil || v.asked[name] <= done {
				delete(r.waiting, p)
				a.dirty[p] = true
			}
		}
	}
}

// noteReleased keeps the time since when no route of the VIP is left. A target
// that has not yet acted on the goal without the route says nothing of it.
func (a *Announcer) noteReleased(p netip.Prefix, v *vip, now time.Time) {
	for name, r := range a.routes {
		if v.up[name] || r.done == 0 || r.done < v.asked[name] || !r.status[p].Released() {
			v.released = time.Time{}
			return
		}
	}
	if v.released.IsZero() {
		v.released = now
	}
}

// aim works out anew what is wanted of the VIPs that are marked, and hands
// the goals on. It returns when something will be due by time alone, zero if
// nothing will.
func (a *Announcer) aim(now time.Time) time.Time {
	for p, v := range a.timed {
		if !now.Before(v.due) {
			a.dirty[p] = true
		}
	}
	for p := range a.dirty {
		if v := a.vips[p]; v != nil {
			a.aimOne(p, v, now)
		}
	}
	for name, r := range a.all {
		a.give(name, r)
	}
	a.publish()
	clear(a.dirty)
	var next time.Time
	for _, v := range a.timed {
		next = earlier(next, v.due)
	}
	return next
}

func (a *Announcer) aimOne(p netip.Prefix, v *vip, now time.Time) {
	delete(a.undecided, p)
	delete(a.timed, p)
	v.due = time.Time{}
	if v.want.Action == Leave {
		a.undecided[p] = true
		a.leave(p)
		return
	}
	a.noteReleased(p, v, now)
	v.due = a.aimLocal(p, v, now)
	v.due = earlier(v.due, a.aimRoutes(p, v, now))
	switch {
	case a.finished(p, v):
		delete(a.vips, p)
		a.leave(p)
	case !v.due.IsZero():
		a.timed[p] = v
	}
}

func (a *Announcer) leave(p netip.Prefix) {
	for _, r := range a.all {
		r.leave(p)
	}
}

// give hands on what changed in a goal. Once every VIP is decided, the goal is
// complete, and the reconciler prunes what earlier lives left behind.
func (a *Announcer) give(name string, r *aimed) {
	complete := a.complete && len(a.undecided) == 0 && len(r.held) == 0
	if len(r.moved) == 0 && complete == r.complete && r.n > 0 {
		return
	}
	r.complete = complete
	r.n++
	wishes := make(map[netip.Prefix]Wish, len(r.moved))
	for p := range r.moved {
		wishes[p] = r.goal[p]
		if v := a.vips[p]; v != nil {
			v.asked[name] = r.n
			r.waiting[p] = true
		}
	}
	clear(r.moved)
	r.Change(wishes, complete, r.n)
}

// want, withdraw and leave change the goal for one prefix. What moves is noted,
// so that the number of the goal that carries it can be told to the VIP.
func (r *aimed) want(route Route) {
	old := r.goal[route.Prefix]
	r.set(route.Prefix, Wish{Announce, route}, old.Action == Announce && sameRoute(old.Route, route))
}

func (r *aimed) withdraw(p netip.Prefix) {
	r.set(p, Wish{Action: Withdraw}, r.goal[p].Action == Withdraw)
}

func (r *aimed) leave(p netip.Prefix) {
	r.set(p, Wish{}, r.goal[p].Action == Leave)
}

func (r *aimed) set(p netip.Prefix, w Wish, same bool) {
	delete(r.held, p)
	switch {
	case same:
		return
	case w.Action == Leave:
		delete(r.goal, p)
	default:
		r.goal[p] = w
	}
	r.moved[p] = true
}

// hold is leave for a prefix whose outcome elsewhere must be known first.
func (r *aimed) hold(p netip.Prefix) {
	r.leave(p)
	r.held[p] = true
}

// aimLocal says whether the VIP shall be local on the host: from before its
// first route until linger after its last.
func (a *Announcer) aimLocal(p netip.Prefix, v *vip, now time.Time) (due time.Time) {
	want := v.want
	up := want.Bind == BindAlways || want.Bind == BindAnnouncing && want.Action == Announce
	if !up && want.Bind == BindAnnouncing && a.address.status[p].Here {
		switch {
		case v.released.IsZero():
			up = true
		case now.Before(v.released.Add(want.Linger)):
			up, due = true, v.released.Add(want.Linger)
		}
	}
	v.local = up && want.Local != LocalNone
	if v.local {
		a.address.want(Route{Prefix: p, Service: want.Service, Local: want.Local})
		return due
	}
	a.address.withdraw(p)
	v.localAt = time.Time{}
	return due
}

// aimRoutes lets the routes out once the VIP is local, and holds them for a
// moment when it stops being so. As long as the outcome of making it local is
// not known, routes stay as they are.
func (a *Announcer) aimRoutes(p netip.Prefix, v *vip, now time.Time) (due time.Time) {
	up := v.want.Action == Announce
	hold := false
	if up && v.want.Bind != BindNever && !a.address.status[p].effective() {
		blind := v.localAt.Add(blindFor)
		up = !v.localAt.IsZero() && now.Before(blind)
		asked := v.asked[AddressTarget]
		hold = v.localAt.IsZero() && (asked == 0 || a.address.done < asked || a.address.moved[p])
		if up {
			due = blind
		}
	}
	for name, r := range a.routes {
		v.up[name] = up && slices.Contains(v.want.Via, name)
		switch {
		case v.up[name]:
			r.want(Route{Prefix: p, Service: v.want.Service, Attrs: v.want.Attrs, Towards: v.want.Towards})
			v.released = time.Time{}
		case hold:
			r.hold(p)
		default:
			r.withdraw(p)
		}
	}
	return due
}

// finished says that a VIP which is no longer wanted has left no trace.
func (a *Announcer) finished(p netip.Prefix, v *vip) bool {
	if !v.removed || v.released.IsZero() || a.address.status[p].Here {
		return false
	}
	for _, r := range a.routes {
		if st, ok := r.status[p]; ok && !st.Settled() {
			return false
		}
	}
	return true
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
