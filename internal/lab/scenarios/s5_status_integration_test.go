//go:build integration

package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rhid/announce"
	"rhid/internal/control"
	"rhid/internal/lab"
)

// route is the status of one VIP in one backend.
func (s *s5) route(st control.Status, vip, via string) announce.RouteStatus {
	s.t.Helper()
	for _, svc := range st.Services {
		for _, v := range svc.VIPs {
			if v.Prefix.String() == vip {
				return v.Routes[via]
			}
		}
	}
	s.t.Fatalf("status has no %s", vip)
	return announce.RouteStatus{}
}

// settled waits until status says of a service that all is as wanted.
func (s *s5) settled(svc *bankService, wanted bool) {
	s.t.Helper()
	for _, vip := range svc.vips() {
		s.WaitFor(fmt.Sprintf("status of %s: wanted %v and so", vip, wanted), s5Limit, func() bool {
			st := s.route(s.status(), vip, svc.via)
			return st.Wanted == wanted && st.Here == wanted && st.Differs.IsZero()
		})
	}
}

// differs waits until status says that a VIP is not as wanted since some time
// after began, with a place in a state for a reason.
func (s *s5) differs(vip, via string, wanted bool, began time.Time, state announce.PlaceState, why string) {
	s.t.Helper()
	var st announce.RouteStatus
	s.WaitFor(fmt.Sprintf("status of %s: %s, %s", vip, state, why), s5Limit, func() bool {
		st = s.route(s.status(), vip, via)
		return st.Wanted == wanted && slices.ContainsFunc(st.Places, func(p announce.Place) bool {
			return p.State == state && strings.Contains(p.Why, why) && !p.Since.IsZero()
		})
	})
	if st.Here != wanted || st.Differs.Before(began) || st.Differs.After(time.Now()) {
		s.t.Errorf("status of %s: %+v, want a difference since %v", vip, st, began)
	}
}

// alarmed waits for the alarm of a difference that began after began, with its
// age and its reason.
func (s *s5) alarmed(vip, via string, wanted bool, began time.Time, why string) {
	s.t.Helper()
	var r announce.RouteStatus
	var age time.Duration
	a := s.alarm("wanted-not-actual", vip+" "+via, func(st control.Status, a control.Alarm) bool {
		r, age = s.route(st, vip, via), time.Since(a.Since)
		return strings.Contains(a.Detail, why)
	})
	if r.Wanted != wanted || r.Differs.Before(began) || age < s5Alarm {
		s.t.Errorf("status of %s: %+v, want a difference since soon after %v", vip, r, began)
	}
	words := map[bool]string{true: "wanted announced, and not so for ", false: "wanted withdrawn, and not so for "}[wanted]
	if !a.Since.Equal(r.Differs) || !strings.HasPrefix(a.Detail, words) {
		s.t.Errorf("alarm of %s: %+v, want %q … %q", vip, a, words, why)
	}
	s.t.Logf("status: %s: %s", a.What, a.Detail)
}

// alarm waits for an alarm that is as it must be.
func (s *s5) alarm(code, what string, is func(control.Status, control.Alarm) bool) (found control.Alarm) {
	s.t.Helper()
	s.WaitFor("the alarm "+code+" of "+what, s5Limit, func() bool {
		st := s.status()
		return slices.ContainsFunc(st.Alarms, func(a control.Alarm) bool {
			found = a
			return a.Code == code && a.What == what && is(st, a)
		})
	})
	return found
}

// neighboursDown expects the alarm of all four sessions.
func (s *s5) neighboursDown() {
	s.t.Helper()
	for _, name := range []string{"tor-frr", "tor-frr-6", "tor-bird", "tor-bird-6"} {
		a := s.alarm("neighbour-down", name, func(_ control.Status, a control.Alarm) bool { return a.Detail != "" })
		s.t.Logf("status: neighbour %s down: %s", name, a.Detail)
	}
}

// still expects that a router has not lost the route: the withdraw was lost.
func (s *s5) still(n *lab.Node, vip string) {
	s.t.Helper()
	if len(n.Kernel(vip)) == 0 {
		s.t.Errorf("%s has lost %s although the withdraw could not reach it", n.Name, vip)
	}
}

// goneBy waits for the end of a route at a router, within bound of back.
func (s *s5) goneBy(router, vip, what string, back time.Time, bound time.Duration) {
	s.t.Helper()
	w := s.watches[router][vip]
	s.WaitFor(vip+" gone from "+router, s5Limit, func() bool { return len(s.Node(router).Kernel(vip)) == 0 })
	w.WaitGone(s5Limit)
	var at time.Time
	for _, e := range w.Events() {
		if isDelete(e) {
			at = latest(at, e.At)
		}
	}
	s.judge(fmt.Sprintf("%s → %s gone from %s", what, vip, router), at.Sub(back), bound)
}

// thereBy waits for a route at a router, within bound of back.
func (s *s5) thereBy(router, vip, what string, back time.Time, bound time.Duration) {
	s.t.Helper()
	at := s.watches[router][vip].WaitThere(s5Limit).At
	s.judge(fmt.Sprintf("%s → %s at %s", what, vip, router), at.Sub(back), bound)
}

// judge compares a figure with its bound, which can be measured again.
func (s *s5) judge(what string, took, bound time.Duration) {
	s.t.Helper()
	s.misses = append(s.misses, s.miss(what, took, bound)...)
}

func (s *s5) miss(what string, took, bound time.Duration) []string {
	s.t.Helper()
	s.t.Logf("%s: %s", what, ms(took))
	if took <= bound {
		return nil
	}
	return []string{fmt.Sprintf("%s: took %v, want at most %v", what, took, bound)}
}

// agreed waits for rhid's own word, an event after last, that the VIPs of the
// BGP service are everywhere as wanted, within the bound of when the last of
// the sessions came back.
func (s *s5) agreed(last uint64, what string, up map[string]time.Time) {
	s.t.Helper()
	back := slices.MaxFunc(slices.Collect(maps.Values(up)), time.Time.Compare)
	for _, vip := range s.bgp.vips() {
		s.agreedOn(last, what, vip+" bgp", "the last session is there", back)
	}
}

func (s *s5) agreedOn(last uint64, what, subject, cause string, back time.Time) {
	s.t.Helper()
	var at time.Time
	s.WaitFor("rhid's event "+subject+" "+what, s5Limit, func() bool {
		for _, e := range s.events(last) {
			if e.Kind == "route" && e.What == what && e.Subject == subject {
				at = e.Time
			}
		}
		return !at.IsZero()
	})
	s.judge(fmt.Sprintf("%s → status of %s agrees", cause, subject), at.Sub(back), s5Bound)
}

// birdLearns tells when core-bird's database no longer has the kernel service,
// which is what the network can do about it: its routes follow at its next tick.
func (s *s5) birdLearns(back time.Time) {
	s.t.Helper()
	for i, vip := range s.kernel.vips() {
		s.WaitFor(vip+" gone from core-bird's database", s5Limit, func() bool {
			return !strings.Contains(s.coreBird.Must("birdc", "show", "ospf", "state", "all", []string{"o4", "o6"}[i]), "external "+vip)
		})
		s.judge("the router goes on → "+vip+" gone from core-bird's database", time.Since(back), s5Bound)
	}
}
