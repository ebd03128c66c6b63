package kernel

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"rhid/announce"
	"rhid/announce/kernel/readback"
)

const (
	healMargin = time.Second // beyond what a routing daemon may keep to itself
	healTries  = 5           // after which adding a route anew has proved to be of no use
	unreadYet  = "not read back yet"
)

// confirmation is what the routing daemons beside rhid make of its routes. Its
// zero value asks nobody. It belongs to the goroutine of the target.
type confirmation struct {
	back     *readback.Readback
	touched  map[netip.Prefix]time.Time // when the route came or went, until that was read back
	expected map[netip.Prefix]bool      // as the read-back was told
	losses   map[netip.Prefix]*loss
}

// loss is a route in the kernel that a routing daemon, though it answers, does
// not have.
type loss struct {
	since map[*readback.Daemon]time.Time
	next  time.Time // when the route is to be added anew
	tries int
}

func newConfirmation(back *readback.Readback) confirmation {
	return confirmation{
		back: back, touched: map[netip.Prefix]time.Time{}, expected: map[netip.Prefix]bool{}, losses: map[netip.Prefix]*loss{},
	}
}

// expect notes that a route came or went just now.
func (f *confirmation) expect(p netip.Prefix, there bool) {
	if f.back == nil {
		return
	}
	f.touched[p], f.expected[p] = time.Now(), there
	f.back.Expect(p, there)
}

// follow tells the read-back what is to be expected of routes that came or went
// without the target's doing.
func (f *confirmation) follow(own map[netip.Prefix][]route) {
	for p := range own {
		if !f.expected[p] {
			f.expect(p, true)
		}
	}
	for p, there := range f.expected {
		if there && own[p] == nil {
			f.expect(p, false)
		}
	}
}

// add adds what the routing daemons have to what the kernel has.
func (f *confirmation) add(c *conf, own map[netip.Prefix][]route, seen map[netip.Prefix]announce.Seen) {
	if f.back == nil {
		return
	}
	f.follow(own)
	now := time.Now()
	for p := range f.subjects(c, own) {
		s := seen[p]
		s.Route.Prefix = p
		for i := range s.Places {
			s.Places[i].Host = true
		}
		open := s.Here
		var lost []*readback.Daemon
		for _, d := range f.back.Daemons {
			place, l := f.place(d, p, s.Here)
			s.Places = append(s.Places, place)
			open = open || place.State != announce.Gone
			if l {
				lost = append(lost, d)
			}
		}
		f.noteLoss(p, lost, now)
		if open {
			sortPlaces(s.Places)
			seen[p] = s
			continue
		}
		delete(f.touched, p)
		delete(f.expected, p)
	}
}

// subjects are the prefixes to ask about: rhid's routes, those that were, and
// VIPs that a daemon has although there is no route of rhid's.
func (f *confirmation) subjects(c *conf, own map[netip.Prefix][]route) map[netip.Prefix]bool {
	out := map[netip.Prefix]bool{}
	for p := range own {
		out[p] = true
	}
	for p := range f.touched {
		out[p] = true
	}
	for _, d := range f.back.Daemons {
		for _, p := range d.Own() {
			if c.routed[p] {
				out[p] = true
			}
		}
	}
	return out
}

// place is what one daemon has of one prefix. lost says that the route is in the
// kernel and that the daemon, which works, does not have it.
func (f *confirmation) place(d *readback.Daemon, p netip.Prefix, here bool) (place announce.Place, lost bool) {
	a := d.Answer(p)
	fresh := !a.Asked.IsZero() && !a.Asked.Before(f.touched[p])
	place.Name = d.Name
	switch {
	case here:
		place.State, place.Why = announced(d, a, fresh)
		lost = fresh && !a.Has && a.Fault == "" && a.Helper == ""
	default:
		place.State, place.Why = withdrawn(d, a, fresh)
	}
	if place.Why != "" && a.Helper != "" {
		place.Why += "; " + a.Helper
	}
	return place, lost
}

func announced(d *readback.Daemon, a readback.Answer, fresh bool) (announce.PlaceState, string) {
	switch {
	case a.Fault != "":
		return announce.Pending, a.Fault
	case !fresh:
		return announce.Pending, unreadYet
	case !a.Has:
		return announce.Pending, fmt.Sprintf("in the kernel, %s's OSPF database does not have it", d.Title)
	}
	return announce.Present, ""
}

// withdrawn tells a daemon that is silent, and may go on announcing, from one
// that is gone: what it told its neighbours ends with their dead interval.
func withdrawn(d *readback.Daemon, a readback.Answer, fresh bool) (announce.PlaceState, string) {
	state := announce.Leaving
	if a.Gone {
		state = announce.Unconfirmed
	}
	switch {
	case a.Has && a.Fault != "":
		return state, a.Fault + ", and had it then"
	case a.Fault != "" && !fresh:
		return state, a.Fault
	case !fresh:
		return announce.Leaving, unreadYet
	case a.Has:
		return announce.Leaving, fmt.Sprintf("not in the kernel, %s's OSPF database still has it", d.Title)
	}
	return announce.Gone, ""
}

// noteLoss keeps which daemons have lost a route, and since when. It is healed
// once one of them had the time that it may take, which one that lost it by the
// last healing must have as well.
func (f *confirmation) noteLoss(p netip.Prefix, by []*readback.Daemon, now time.Time) {
	if len(by) == 0 {
		delete(f.losses, p)
		return
	}
	l := f.losses[p]
	if l == nil {
		l = &loss{since: map[*readback.Daemon]time.Time{}}
		f.losses[p] = l
	}
	maps.DeleteFunc(l.since, func(d *readback.Daemon, _ time.Time) bool { return !slices.Contains(by, d) })
	for _, d := range by {
		if _, known := l.since[d]; !known {
			l.since[d] = now
		}
	}
	var due time.Time
	for d, since := range l.since {
		if at := since.Add(d.Slow + healMargin); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	if l.tries == 0 || due.After(l.next) {
		l.next = due
	}
}

// ill says whether the route of p is to be added anew now.
func (f *confirmation) ill(p netip.Prefix) bool {
	l := f.losses[p]
	return l != nil && l.tries < healTries && !time.Now().Before(l.next)
}

// String names the daemons.
func (l *loss) String() string {
	var names []string
	for d := range l.since {
		names = append(names, d.Title)
	}
	slices.Sort(names)
	return strings.Join(names, " and ")
}

// heal takes out the routes to p that a daemon has lost, so that adding them is
// news to it.
func (t *routes) heal(p netip.Prefix) error {
	l := t.losses[p]
	l.tries++
	var pause time.Duration
	for d := range l.since {
		pause = max(pause, d.Slow+healMargin)
	}
	l.next = time.Now().Add(pause << l.tries)
	t.w.log.Warn("adding a route anew that a routing daemon lost", "prefix", p, "lost_by", l.String(), "attempt", l.tries, "of", healTries)
	for _, r := range slices.Clone(t.own[p]) {
		if err := t.w.deleteRoute(r); err != nil {
			return err
		}
	}
	delete(t.own, p)
	return nil
}

// prefixSet is a set of prefixes.
func prefixSet(ps []netip.Prefix) map[netip.Prefix]bool {
	return maps.Collect(func(yield func(netip.Prefix, bool) bool) {
		for _, p := range ps {
			if !yield(p, true) {
				return
			}
		}
	})
}

// isDaemon says whether a place is a routing daemon's.
func (f *confirmation) isDaemon(place string) bool {
	return f.back != nil && slices.ContainsFunc(f.back.Daemons, func(d *readback.Daemon) bool { return d.Name == place })
}
