package cluster

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestColdStartSettlesAtOnce(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		took := w.within(lost, "all are settled", all(list, settled))
		if took > 200*time.Millisecond {
			t.Errorf("settled after %s although all were there", took)
		}
		w.ready(list)
		want := []string{"n1", "n2", "n3"}
		w.within(lost, "n1 knows whom n0 sees", func() bool { return slices.Equal(list[1].see("n0").Sees, want) })
	})
}

func TestSingle(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		m := w.start("n0")
		w.within(time.Second, "single", func() bool { return m.View().Certainty == Single })
	})
}

func TestSettleWaitsForTheMissing(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := []*member{w.start("n0"), w.start("n1"), w.start("n2")}
		w.pass(2500 * time.Millisecond)
		for _, m := range list {
			if got := m.View().Certainty; got != Settling {
				t.Errorf("%s is %s although n3 may be a moment late", m.name, got)
			}
		}
		w.within(time.Second, "settled after the timeout", all(list, settled))
		if got := list[0].see("n3").Liveness; got != Unknown {
			t.Errorf("n3 is %s, want unknown: it was never seen", got)
		}
		// One that starts now can ask those that have settled.
		list[0].kill()
		w.within(lost, "n0 is gone", func() bool { return list[1].see("n0").Liveness == Dead })
		m := w.start("n0")
		if took := w.within(lost, "settled again", func() bool { return settled(m) }); took > time.Second {
			t.Errorf("settled after %s although n1 and n2 know that n3 is not there", took)
		}
	})
}

func TestIsolated(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		m := w.start("n0")
		w.pass(2900 * time.Millisecond)
		if got := m.View().Certainty; got != Settling {
			t.Errorf("%s before the timeout", got)
		}
		w.within(time.Second, "isolated", func() bool { return m.View().Certainty == Isolated })
		list := []*member{m, w.start("n1"), w.start("n2")}
		w.within(4*time.Second, "all are settled", all(list, settled))
		list[1].kill()
		list[2].kill()
		w.within(2*time.Second, "isolated again", func() bool { return m.View().Certainty == Isolated })
	})
}

func TestAloneAfterFarewellsIsNotIsolated(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		list := w.startAll()
		w.ready(list)
		for _, m := range list[1:] {
			if err := m.Leave(w.t.Context(), "maintenance"); err != nil {
				t.Fatal(err)
			}
			m.kill()
		}
		w.within(lost, "both have left", func() bool {
			return list[0].see("n1").Liveness == Left && list[0].see("n2").Liveness == Left
		})
		w.pass(5 * time.Second)
		if got := list[0].View().Certainty; got != Settled {
			t.Errorf("%s, want settled: it is known where the others are", got)
		}
	})
}

func TestDeathAndRestart(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		w.ready(list)
		var deaths, returns []time.Duration
		for round := range 5 {
			list[3].kill()
			dead := w.within(lost, "n3 is dead", all(list[:3], func(m *member) bool { return m.see("n3").Liveness == Dead }))
			deaths = append(deaths, dead)
			if s := list[0].see("n3").State; s == nil || s.Load != 1 {
				t.Errorf("the last word of n3 is gone: %+v", s)
			}
			list[3] = w.start("n3")
			w.publish(list[3], 1)
			back := w.within(lost, "n3 is back", all(list[:3], func(m *member) bool {
				v := m.see("n3")
				return v.Liveness == Alive && v.State != nil && v.Synced
			}))
			returns = append(returns, back)
			t.Logf("round %d: dead after %s, back after %s", round, dead, back)
		}
		slices.Sort(deaths)
		slices.Sort(returns)
		if deaths[2] > 900*time.Millisecond || returns[2] > time.Second {
			t.Errorf("deaths seen after %s, returns after %s", deaths, returns)
		}
	})
}

// A node that is started again within the time of its detection never was
// dead, but what it said before does not hold.
func TestQuickRestart(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		dir := t.TempDir()
		keep := func(s *Settings) { s.Dir = dir }
		list := []*member{w.start("n0"), w.start("n1"), w.start("n2", keep)}
		w.ready(list)
		was := list[0].see("n2").Incarnation
		list[2].kill()
		list[2] = w.start("n2", keep)
		w.within(lost, "the old state is no longer believed", func() bool {
			v := list[0].see("n2")
			return v.Liveness == Alive && v.State == nil
		})
		w.publish(list[2], 5)
		w.within(lost, "the new state is there", func() bool {
			v := list[0].see("n2")
			return v.State != nil && v.State.Load == 5 && v.Incarnation > was
		})
	})
}

func TestLeave(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		w.ready(list)
		if err := list[3].Leave(w.t.Context(), "upgrade"); err != nil {
			t.Fatal(err)
		}
		took := w.within(lost, "n3 has left", all(list[:3], func(m *member) bool {
			v := m.see("n3")
			return v.Liveness == Left && v.Leaving == "upgrade"
		}))
		if took > 200*time.Millisecond {
			t.Errorf("seen after %s", took)
		}
		if err := list[3].Leave(w.t.Context(), "again"); err != nil {
			t.Errorf("a second Leave: %v", err)
		}
		list[3].kill()
		if err := list[3].Leave(w.t.Context(), "too late"); err != nil {
			t.Errorf("Leave after the end: %v", err)
		}
		// One that starts now learns it too.
		list[2].kill()
		list[2] = w.start("n2")
		w.within(lost, "n2 knows that n3 has left", func() bool { return list[2].see("n3").Liveness == Left })
		list[3] = w.start("n3")
		w.within(lost, "n3 is back", all(list[:2], func(m *member) bool {
			return m.see("n3").Liveness == Alive && m.see("n3").Leaving == ""
		}))
	})
}

func TestNewAddress(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		list := w.startAll()
		w.ready(list)
		list[2].kill()
		w.nodes[2].Address = netip.MustParseAddr("10.0.9.9")
		// It is started at its new address before the others have noticed its
		// death, and they are reloaded only after that.
		list[2] = w.start("n2")
		w.pass(300 * time.Millisecond)
		for _, m := range list[:2] {
			if !strings.Contains(m.told(), "name-conflict n2 10.0.9.9:7946") {
				t.Errorf("%s: problems:\n%s", m.name, m.told())
			}
			if err := m.SetNodes(w.nodes); err != nil {
				t.Fatal(err)
			}
		}
		took := w.within(lost, "n2 is back", all(list[:2], func(m *member) bool { return m.see("n2").Liveness == Alive }))
		t.Log("back after", took)
	})
}

func TestNodeAddedAndRemoved(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		four := w.nodes
		w.nodes = four[:3]
		list := w.startAll()
		w.ready(list)
		w.nodes = four
		list = append(list, w.start("n3"))
		w.pass(time.Second)
		if p := list[0].told(); !strings.Contains(p, "unknown-node n3") {
			t.Errorf("problems:\n%s", p)
		}
		for _, m := range list[:3] {
			if err := m.SetNodes(four); err != nil {
				t.Fatal(err)
			}
		}
		w.within(lost, "n3 is one of them", all(list, func(m *member) bool { return m.see("n3").Liveness == Alive && settled(m) }))
		for _, m := range list[:3] {
			if err := m.SetNodes(four[:3]); err != nil {
				t.Fatal(err)
			}
			if n := len(m.View().Nodes); n != 3 {
				t.Errorf("%d nodes", n)
			}
		}
		if err := list[0].SetNodes(four[1:]); err == nil {
			t.Error("a cluster without this node was accepted")
		}
		w.pass(time.Second)
		if got := list[0].View().Certainty; got != Settled {
			t.Error(got)
		}
	})
}

// cut separates the first n nodes from the rest.
func cutAfter(n int) func(from, to netip.Addr, stream bool) bool {
	side := func(a netip.Addr) bool { return int(a.As4()[3]) <= n }
	return func(from, to netip.Addr, _ bool) bool { return side(from) != side(to) }
}

func TestPartition(t *testing.T) {
	for _, d := range []time.Duration{2 * time.Second, 10 * time.Second, 40 * time.Second, 2 * time.Minute} {
		t.Run(d.String(), func(t *testing.T) {
			inWorld(t, 4, func(w *world) {
				list := w.startAll()
				w.ready(list)
				w.net.block(cutAfter(2))
				w.within(lost, "each side sees its own", func() bool {
					return list[0].see("n1").Liveness == Alive && list[0].see("n2").Liveness == Dead &&
						list[3].see("n2").Liveness == Alive && list[3].see("n1").Liveness == Dead
				})
				w.publish(list[0], 8)
				w.publish(list[3], 9)
				w.pass(d)
				if got := list[0].View().Certainty; got != Settled {
					t.Errorf("half of the nodes are %s, want settled", got)
				}
				w.net.block(nil)
				took := w.within(5*time.Second, "healed, with all that was missed", all(list, func(m *member) bool {
					for _, o := range list {
						if m.see(o.name).Liveness != Alive {
							return false
						}
					}
					return m.see("n0").State.Load == 8 && m.see("n3").State.Load == 9
				}))
				t.Log("healed after", took)
			})
		})
	}
}

func TestOneWayLoss(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		w.ready(list)
		a, b := w.nodes[0].Address, w.nodes[3].Address
		w.net.block(func(from, to netip.Addr, _ bool) bool { return from == a && to == b })
		w.pass(3 * time.Second)
		for i := range 5 {
			w.publish(list[0], 10+i)
			took := w.within(lost, "n3 hears of n0 by others", func() bool {
				s := list[3].see("n0").State
				return s != nil && s.Load == 10+i
			})
			t.Log("by gossip after", took)
		}
		for _, m := range list {
			for _, n := range m.View().Nodes {
				if n.Liveness != Alive {
					t.Errorf("%s: %s is %s", m.name, n.Name, n.Liveness)
				}
			}
		}
	})
}

func TestUDPLost(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		w.ready(list)
		cut := cutAfter(2)
		w.net.block(func(from, to netip.Addr, stream bool) bool { return !stream && cut(from, to, stream) })
		w.pass(10 * time.Second)
		for _, m := range list {
			for _, n := range m.View().Nodes {
				if n.Liveness != Alive {
					t.Errorf("%s: %s is %s", m.name, n.Name, n.Liveness)
				}
			}
		}
		if p := list[0].told(); !strings.Contains(p, "udp-lost n2") || strings.Contains(p, "udp-lost n1") {
			t.Errorf("problems:\n%s", p)
		}
		w.publish(list[0], 10)
		if took := w.within(lost, "the change is there over TCP", all(list, func(m *member) bool {
			return m.see("n0").State.Load == 10
		})); took > 50*time.Millisecond {
			t.Errorf("after %s", took)
		}
	})
}

func TestLoss(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		w.ready(list)
		w.net.lose(0.1)
		gone, late := 0, 0
		for i := range 60 {
			w.publish(list[i%4], 100+i)
			took := w.within(lost, "the change is there", all(list, func(m *member) bool {
				return m.see(fmt.Sprint("n", i%4)).State.Load == 100+i
			}))
			if took > time.Second {
				late++
			}
			w.pass(time.Second)
			for _, m := range list {
				for _, n := range m.View().Nodes {
					if n.Liveness != Alive {
						gone++
					}
				}
			}
		}
		if late > 3 {
			t.Errorf("%d of 60 changes took more than a second", late)
		}
		if gone > 0 {
			t.Errorf("%d times a live node was taken for dead", gone)
		}
	})
}

// A state of many services does not fit a packet, and a change of it is there
// as soon as any other.
func TestLargeState(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		w.ready(list)
		s := State{Site: "a", Version: "1", Digest: "d", Services: map[string]ServiceState{}}
		for i := range 2000 {
			s.Services[fmt.Sprintf("service-%04d", i)] = ServiceState{
				Readiness: "ready", Code: "healthy", Evidence: fmt.Sprintf("HTTP 200 in %d.%d ms from 10.9.%d.%d:8080 %x", i%7, i, i%250, i%249, i*i*7919),
				Since: time.Now().Add(-time.Duration(i) * time.Second), Exported: 2, Of: 2,
			}
		}
		if err := list[0].Publish(s); err != nil {
			t.Fatal(err)
		}
		took := w.within(lost, "all have it", all(list, func(m *member) bool { return len(m.see("n0").State.Services) == 2000 }))
		t.Log(took, "packed bytes:", len(list[1].store.entries[recordKey{recordState, "n0"}].body))
		if took > 50*time.Millisecond {
			t.Errorf("after %s", took)
		}
		if got, want := list[3].see("n0").State.Services["service-1999"], s.Services["service-1999"]; got.Evidence != want.Evidence || !got.Since.Equal(want.Since) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// After a stall the view is not trusted before all were asked again, not even
// by a reader that is quicker than the loop.
func TestStall(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		list := w.startAll()
		w.ready(list)
		m := list[0]
		m.mu.Lock()
		m.steppedAt = m.steppedAt.Add(-10 * time.Second)
		was := m.sync.nonce
		m.mu.Unlock()
		if got := m.View().Certainty; got != Settling {
			t.Errorf("%s right after the stall", got)
		}
		took := w.within(lost, "settled again", func() bool {
			m.mu.Lock()
			again := m.sync.nonce != was
			m.mu.Unlock()
			return again && settled(m)
		})
		t.Log("settled after", took)
	})
}

func TestPublishTellsOnce(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		list := w.startAll()
		w.ready(list)
		w.pass(time.Second)
		was := list[1].see("n0").Sequence
		for len(list[1].Changes()) > 0 {
			<-list[1].Changes()
		}
		for range 10 {
			w.publish(list[0], 1)
		}
		w.pass(time.Second)
		if got := list[1].see("n0").Sequence; got != was {
			t.Errorf("the same state was published again: sequence %d, was %d", got, was)
		}
		if len(list[1].Changes()) > 0 {
			t.Error("Changes told of nothing")
		}
		w.publish(list[0], 2)
		synctest.Wait()
		<-time.After(5 * time.Millisecond)
		synctest.Wait()
		if len(list[1].Changes()) == 0 {
			t.Error("Changes did not tell")
		}
		if err := list[0].Publish(State{Site: strings.Repeat("x", 300)}); err == nil {
			t.Error("a state that others would refuse was published")
		}
	})
}

// The times that DESIGN.md gives for the three detections.
func TestDetection(t *testing.T) {
	for _, tt := range []struct {
		name      string
		low, high time.Duration
	}{
		{"fast", 350 * time.Millisecond, 800 * time.Millisecond},
		{"lan", 1300 * time.Millisecond, 3 * time.Second},
		{"wan", 5500 * time.Millisecond, 15 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, 5, func(w *world) {
				w.net.latency = 2 * time.Millisecond
				list := w.startAll(func(s *Settings) { s.Detection, s.SettleTimeout = tt.name, 3*time.Second })
				w.ready(list)
				silent := w.nodes[4].Address
				var deaths []time.Duration
				for range 5 {
					w.pass(37 * time.Millisecond)
					w.net.block(func(from, to netip.Addr, _ bool) bool { return from == silent || to == silent })
					took := w.within(20*time.Second, "n4 is dead", all(list[:4], func(m *member) bool { return m.see("n4").Liveness == Dead }))
					t.Log("dead after", took)
					deaths = append(deaths, took)
					if s := list[0].see("n4").Silent; s < took-tt.low {
						t.Errorf("silent for %s only", s)
					}
					w.net.block(nil)
					w.within(20*time.Second, "all are back", all(list, func(m *member) bool {
						for _, o := range list {
							if m.see(o.name).Liveness != Alive {
								return false
							}
						}
						return settled(m)
					}))
				}
				// Whom a node asks next is chance: a death may wait for another round.
				slices.Sort(deaths)
				if deaths[0] < tt.low || deaths[2] > tt.high || deaths[4] > 2*tt.high {
					t.Errorf("dead after %v, want %s to %s", deaths, tt.low, tt.high)
				}
			})
		})
	}
}
