//go:build integration

package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/announce"
	"rhid/internal/control"
	"rhid/internal/lab"
)

const (
	s5Frozen   = 30 * time.Second       // how long a process is stopped
	s5Bound    = time.Second            // until what was lost is made good once the router is back
	s5BirdTick = time.Second            // BIRD's OSPF works out its routes once in so long (tick, a whole number of seconds)
	s5Work     = 250 * time.Millisecond // of BIRD, at its tick, on a busy machine
	s5Alarm    = 3 * time.Second        // how long a difference lasts before it is an alarm
	s5Spacing  = 6 * time.Second        // BIRD lets 5 s pass between two LSAs of one prefix
	s5Hold     = 9 * time.Second        // BGP's hold time: the time to see that a withdraw is not confirmed
	s5Limit    = 30 * time.Second       // of everything else; how soon a session is back is another test's
)

// TestS5LostWithdraw stops routers in the moment of a withdraw, resets and
// refuses sessions, and stands in the way of announcements. As long as the
// network is not as wanted, status says so, since when and why; and once the
// router is back, it is made good within a second.
func TestS5LostWithdraw(t *testing.T) {
	s := &s5{
		bgp:    &bankService{name: "bgp", via: "bgp", number: 30},
		kernel: &bankService{name: "kernel", via: "kernel", number: 40},
	}
	s.bank = openBank(startSite(t, lab.Options{}), s.bgp, s.kernel)
	s.holdTime(s5Hold)
	s.announce(strings.Replace(s.config(), "hold: 3s", "hold: "+s5Hold.String(), 1))
	s.wire = s.lb.Capture("")
	lab.Steady(t, stood, func() []string {
		s.announced()
		s.frozenRouters()
		s.recover()
		return s.misses
	})
	lab.Steady(t, stood, func() []string {
		s.announced()
		s.frozenBeside(func() {
			s.refusedWithdraw()
			s.refusedAnnounce()
		})
		if len(s.misses) > 0 {
			s.kernel.health.Resume()
			return s.misses
		}
		s.foreignRoute()
		return s.misses
	})
}

type s5 struct {
	*bank
	bgp, kernel *bankService
	wire        *lab.Capture
	quiet       time.Time // since when OSPF has no kernel service
	misses      []string  // of bounds
}

// freeze stops processes, at most until the test ends: what is told of a failure
// needs them.
func (s *s5) freeze(n *lab.Node, name string) {
	s.t.Helper()
	s.t.Cleanup(func() { n.Thaw(name) })
	n.Freeze(name)
}

// announced waits until all is as wanted, and begins a measurement.
func (s *s5) announced() {
	s.t.Helper()
	for _, svc := range s.services {
		s.waitAnnounced(svc)
		s.settled(svc, true)
	}
	s.misses = nil
}

// recover brings the services back after a withdraw.
func (s *s5) recover() {
	s.t.Helper()
	for _, svc := range s.services {
		svc.health.Resume()
	}
	for _, svc := range s.services {
		s.waitAnnounced(svc)
	}
}

// frozenRouters stops both BGP routers, a router of the OSPF side, and zebra
// beside rhid, lets the pools die, and has them go on 30 s later.
func (s *s5) frozenRouters() {
	s.t.Helper()
	s.forget(s.bgp)
	s.forget(s.kernel)
	s.wire.Reset()
	s.freeze(s.torFRR, "bgpd")
	s.freeze(s.torBird, "bird")
	s.freeze(s.coreBird, "bird")
	s.freeze(s.lb, "zebra")
	frozen := time.Now()
	s.bgp.health.Stop()
	s.kernel.health.Stop()
	for _, vip := range s.bgp.vips() {
		for _, w := range bankWays("bgp") {
			s.wire.Wait("the withdraw of "+vip+" to "+w.router, s5Limit, w.withdraws(vip))
		}
		s.differs(vip, "bgp", false, frozen, announce.Unconfirmed, "withdraw sent, and nothing was heard from the neighbour since")
	}
	for _, vip := range s.kernel.vips() {
		out := s.watches["lb1"][vip].Wait("no longer announced", s5Limit, isDelete).At
		s.judge("pool dies → "+vip+" out of the kernel beside a frozen zebra", out.Sub(frozen), s5Bound+2*bankProbe)
		s.differs(vip, "kernel", false, frozen, announce.Leaving, "not in the kernel, FRR's OSPF database still has it; zebra does not answer since ")
	}
	for _, vip := range s.bgp.vips() {
		s.differs(vip, "bgp", false, frozen, announce.Unconfirmed, "session lost (hold timer expired")
	}
	time.Sleep(time.Until(frozen.Add(s5Frozen - time.Second)))
	for _, vip := range s.bgp.vips() {
		s.alarmed(vip, "bgp", false, frozen, "session lost (hold timer expired")
		s.still(s.torFRR, vip)
		s.still(s.torBird, vip)
	}
	for _, vip := range s.kernel.vips() {
		s.alarmed(vip, "kernel", false, frozen, "not in the kernel, FRR's OSPF database still has it; zebra does not answer since ")
		s.still(s.coreFRR, vip)
		s.still(s.coreBird, vip)
	}
	time.Sleep(time.Until(frozen.Add(s5Frozen)))
	s.thawRouters()
}

// thawRouters lets all go on and takes the times.
func (s *s5) thawRouters() {
	s.t.Helper()
	last := s.lastEvent()
	back := map[string]time.Time{}
	for _, p := range []struct {
		node *lab.Node
		name string
	}{{s.torFRR, "bgpd"}, {s.torBird, "bird"}, {s.coreBird, "bird"}, {s.lb, "zebra"}} {
		back[p.node.Name] = time.Now()
		p.node.Thaw(p.name)
	}
	s.birdLearns(back["core-bird"]) // first, because only asking tells
	for _, vip := range s.bgp.vips() {
		for _, w := range bankWays("bgp") {
			s.goneBy(w.router, vip, "the router goes on", back[w.router], s5Bound)
		}
	}
	for _, vip := range s.kernel.vips() {
		s.goneBy("core-frr", vip, "zebra goes on", back["lb1"], s5Bound)
		// BIRD's first tick comes as it goes on, before it has read a packet.
		s.goneBy("core-bird", vip, "the router goes on", back["core-bird"], s5BirdTick+s5Work)
		s.agreedOn(last, "withdrawn", vip+" kernel", "zebra goes on", back["lb1"])
	}
	s.agreed(last, "withdrawn", s.sessions(back["tor-bird"]))
}

// frozenBeside stops the OSPF daemons beside rhid, so that the withdraw of the
// kernel service is lost, does other things meanwhile, and has them go on 30 s
// later. OSPF's dead interval takes the route out long before that. The routers
// still have the old LSAs and bring them back with the adjacency; that must end.
func (s *s5) frozenBeside(meanwhile func()) {
	s.t.Helper()
	s.forget(s.kernel)
	s.freeze(s.lb, "ospfd")
	s.freeze(s.lb, "ospf6d")
	s.freeze(s.lb, "bird")
	frozen := time.Now()
	s.kernel.health.Stop()
	for _, vip := range s.kernel.vips() {
		out := s.watches["lb1"][vip].Wait("no longer announced", s5Limit, isDelete).At
		for _, w := range bankWays("kernel") {
			if at := s.watches[w.router][vip].WaitGone(s5Limit).At; at.Before(out) {
				s.t.Errorf("%s lost %s %v before the withdraw", w.router, vip, out.Sub(at))
			}
		}
	}
	silent := func(check func(vip, via string, wanted bool, began time.Time, why string)) {
		for i, vip := range s.kernel.vips() {
			check(vip, "kernel", false, frozen, []string{"ospfd", "ospf6d"}[i]+" does not answer since ")
			check(vip, "kernel", false, frozen, "BIRD does not answer since ")
		}
	}
	silent(func(vip, via string, wanted bool, began time.Time, why string) {
		s.differs(vip, via, wanted, began, announce.Leaving, why)
	})
	meanwhile()
	silent(s.alarmed)
	time.Sleep(time.Until(frozen.Add(s5Frozen)))
	last := s.lastEvent()
	back := time.Now()
	s.forget(s.kernel)
	s.lb.Thaw("ospfd")
	s.lb.Thaw("ospf6d")
	s.lb.Thaw("bird")
	for _, vip := range s.kernel.vips() {
		s.agreedOn(last, "withdrawn", vip+" kernel", "the OSPF daemons go on", back)
	}
	s.adjacent()
	for _, vip := range s.kernel.vips() {
		for _, node := range []string{"core-frr", "core-bird", "branch"} {
			if !s.left(node, vip) {
				s.misses = append(s.misses, fmt.Sprintf("OSPF is back beside rhid → %s is at %s still", vip, node))
				continue
			}
			s.judge(fmt.Sprintf("OSPF is back beside rhid → %s was at %s for", vip, node), s.there(node, vip), s5Bound)
		}
	}
	s.quiet = time.Now()
}

// left waits until a node has no route to a VIP. It says whether that came: on a
// machine that stood still, FRR may leave an LSA of its own that its neighbour
// gives back to it.
func (s *s5) left(node, vip string) bool {
	s.t.Helper()
	until := time.Now().Add(s5Limit)
	for len(s.Node(node).Kernel(vip)) > 0 {
		if time.Now().After(until) {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// there is how long a node that now has no route to a VIP had one since forget.
func (s *s5) there(node, vip string) (sum time.Duration) {
	s.t.Helper()
	var since time.Time
	for _, e := range s.watches[node][vip].Events() {
		switch {
		case !isDelete(e):
			since = earliest(since, e.At)
		case !since.IsZero():
			sum, since = sum+e.At.Sub(since), time.Time{}
		}
	}
	return sum
}

// adjacent waits until lb1's OSPF daemons have learned the network again.
func (s *s5) adjacent() {
	s.t.Helper()
	s.WaitFor("lb1's FRR having learned the network again", siteUp, func() bool {
		return slices.Contains(s.vias(s.lb, "10.3.0.0/24"), "10.1.3.2") && len(s.lb.Kernel("fd00:3::/64")) == 1
	})
	s.WaitFor("lb1's BIRD having learned the network again", siteUp, func() bool {
		return strings.Contains(s.lb.Must("birdc", "show ospf neighbors o4"), "Full") &&
			strings.Contains(s.lb.Must("birdc", "show ospf neighbors o6"), "Full")
	})
}

// refuse resets the sessions with both BGP routers and refuses new ones: one
// as a program that is gone, the other as an operator who shuts the session down.
func (s *s5) refuse() {
	s.t.Helper()
	s.torFRR.RefuseTCP(179)
	for _, p := range []string{"rhid4", "rhid6"} {
		s.torBird.Must("birdc", "disable", p)
	}
}

// accept ends refuse, and waits until all sessions are there. It returns when
// each neighbour's was, by its name.
func (s *s5) accept() map[string]time.Time {
	s.t.Helper()
	began := time.Now()
	s.torFRR.AcceptTCP(179)
	for _, p := range []string{"rhid4", "rhid6"} {
		s.torBird.Must("birdc", "enable", p)
	}
	return s.sessions(began)
}

// sessions waits until rhid has all its sessions after the routers came back.
func (s *s5) sessions(back time.Time) map[string]time.Time {
	s.t.Helper()
	up := map[string]time.Time{}
	s.WaitFor("all sessions", s5Limit, func() bool {
		for _, n := range s.status().Neighbours {
			if n.Established {
				up[n.Name] = n.Since
			}
		}
		return len(up) == 4
	})
	for _, name := range slices.Sorted(maps.Keys(up)) {
		s.t.Logf("session with %s: %s after the router is back", name, ms(up[name].Sub(back)))
	}
	return up
}

// refusedWithdraw lets the withdraw reach a router that does not look at it,
// and then takes it away with the session.
func (s *s5) refusedWithdraw() {
	s.t.Helper()
	s.forget(s.bgp)
	s.wire.Reset()
	s.freeze(s.torFRR, "bgpd")
	began := time.Now()
	s.bgp.health.Stop()
	way := bankWays("bgp")[0]
	for _, vip := range s.bgp.vips() {
		s.wire.Wait("the withdraw of "+vip+" to tor-frr", s5Limit, way.withdraws(vip))
	}
	s.refuse()
	back := time.Now()
	s.torFRR.Thaw("bgpd")
	for _, vip := range s.bgp.vips() {
		s.goneBy("tor-frr", vip, "the session was reset and the router goes on", back, s5Bound)
		s.differs(vip, "bgp", false, began, announce.Unconfirmed, "session lost (connection lost")
	}
	for _, vip := range s.bgp.vips() {
		s.alarmed(vip, "bgp", false, began, "session lost (connection lost")
	}
	s.neighboursDown()
	last := s.lastEvent()
	s.forget(s.bgp)
	up := s.accept()
	s.agreed(last, "withdrawn", up)
	for _, vip := range s.bgp.vips() {
		for _, w := range bankWays("bgp") {
			if events := s.watches[w.router][vip].Events(); len(events) > 0 {
				s.t.Errorf("%s came back to %s with the session: %+v", vip, w.router, events)
			}
		}
	}
}

// refusedAnnounce has the pool come to life while no router is there.
func (s *s5) refusedAnnounce() {
	s.t.Helper()
	s.refuse()
	s.WaitFor("rhid having lost its sessions", s5Limit, func() bool {
		return !slices.ContainsFunc(s.status().Neighbours, func(n control.Neighbour) bool { return n.Established })
	})
	began := time.Now()
	s.bgp.health.Resume()
	for _, vip := range s.bgp.vips() {
		s.differs(vip, "bgp", true, began, announce.Pending, "session not established: ")
	}
	for _, vip := range s.bgp.vips() {
		s.alarmed(vip, "bgp", true, began, "session not established: ")
	}
	s.neighboursDown()
	last := s.lastEvent()
	s.forget(s.bgp)
	up := s.accept()
	for i, vip := range s.bgp.vips() {
		for _, w := range bankWays("bgp") {
			name := w.router + []string{"", "-6"}[i]
			s.thereBy(w.router, vip, "the session is there", up[name], s5Bound)
		}
	}
	s.agreed(last, "announced", up)
}

// foreignRoute puts somebody else's route in the place of the announcement.
func (s *s5) foreignRoute() {
	s.t.Helper()
	vip := s.kernel.vips()[0]
	s.lb.Must("ip", "route", "add", vip, "via", "10.9.1.1", "dev", "eth5", "metric", "10", "proto", "static")
	began := time.Now()
	s.kernel.health.Resume()
	const reason = "protocol static owns a route to 10.255.0.40/32 with metric 10 in table 254"
	var st announce.RouteStatus
	s.WaitFor("the failure in status", s5Limit, func() bool {
		st = s.route(s.status(), vip, "kernel")
		return st.Err != ""
	})
	if !st.Wanted || st.Here || st.Attempts == 0 || st.Differs.Before(began) || !strings.Contains(st.Err, reason) {
		s.t.Errorf("status of %s kernel: %+v", vip, st)
	}
	s.alarmed(vip, "kernel", true, began, reason)
	time.Sleep(time.Until(s.quiet.Add(s5Spacing)))
	last := s.lastEvent()
	s.forget(s.kernel)
	s.lb.Must("ip", "route", "del", vip, "proto", "static", "metric", "10")
	removed := time.Now()
	s.thereBy("core-frr", vip, "the foreign route went", removed, s5Bound)
	s.thereBy("branch", vip, "the foreign route went", removed, s5Bound)
	s.thereBy("core-bird", vip, "the foreign route went", removed, s5Bound+s5BirdTick)
	s.agreedOn(last, "announced", vip+" kernel", "the foreign route went", removed)
}
