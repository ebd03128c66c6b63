package announce

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const vip1 = "10.255.0.10/32"

// wait lets d pass in the bubble and everything come to rest.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func one(action Action, metric uint32) []*VIP {
	return []*VIP{{
		Prefix: pfx(vip1), Service: "atm", Action: action, Local: LocalAddress,
		Linger: 3 * time.Second, Via: []string{"bgp"}, Attrs: Attrs{Metric: metric},
	}}
}

func bench(t *testing.T) (*world, *fake, *fake, *Announcer) {
	t.Helper()
	w := newWorld()
	addr, bgp := newFake(w, AddressTarget), newFake(w, "bgp")
	return w, addr, bgp, New(addr, []Target{bgp}, DefaultPace(), quiet())
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestAddressFirstRouteLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, _, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(5 * time.Second)
		same(t, "up", w.story(), "0s address put 10.255.0.10/32 metric 0\n0s bgp put 10.255.0.10/32 metric 100")
		a.Set(one(Withdraw, 100), true)
		wait(3*time.Second + time.Millisecond)
		same(t, "down", w.story(), "0s bgp remove 10.255.0.10/32\n3s address remove 10.255.0.10/32")
		a.Set(one(Announce, 100), true)
		wait(time.Second)
		same(t, "up again", w.story(), "0s address put 10.255.0.10/32 metric 0\n0s bgp put 10.255.0.10/32 metric 100")
	})
}

// A withdraw that has not left the host keeps the VIP local, however long.
func TestAddressWaitsForTheWithdrawToLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, addr, bgp, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(time.Second)
		w.story()
		bgp.place(pfx(vip1), Leaving, true)
		a.Set(one(Withdraw, 100), true)
		wait(30 * time.Second)
		same(t, "while leaving", w.story(), "0s bgp remove 10.255.0.10/32")
		same(t, "local", addr.world(), "10.255.0.10/32 metric 0")
		bgp.place(pfx(vip1), Unconfirmed, true) // it has left; nobody confirmed it
		wait(10 * time.Second)
		same(t, "after", addr.world(), "")
		st := a.Status()[0].Routes["bgp"]
		if st.Settled() || st.Differs.IsZero() {
			t.Errorf("an unconfirmed withdraw passes for settled: %+v", st)
		}
	})
}

// What the target took is announced only once it was read back: before that
// not even the places are known where it may be missing.
func TestAnnouncedMeansReadBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, bgp, a := bench(t)
		launch(t, a.Run)
		wait(time.Second)
		bgp.set("read", errTest)
		a.Set(one(Announce, 100), true)
		wait(10 * time.Second)
		same(t, "taken", bgp.world(), "10.255.0.10/32 metric 100")
		st := a.Status()[0].Routes["bgp"]
		if st.Settled() || time.Since(st.Differs) < 9*time.Second {
			t.Errorf("what was not read back passes for settled: %+v", st)
		}
		bgp.set("read", nil)
		wait(2 * time.Second)
		if st := a.Status()[0].Routes["bgp"]; !st.Settled() || !st.Differs.IsZero() {
			t.Errorf("read back, and not settled: %+v", st)
		}
	})
}

func TestTakenBackWhileLingering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, addr, _, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(time.Second)
		a.Set(one(Withdraw, 100), true)
		wait(2 * time.Second)
		w.story()
		a.Set(one(Announce, 100), true)
		wait(10 * time.Second)
		same(t, "story", w.story(), "0s bgp put 10.255.0.10/32 metric 100")
		same(t, "local", addr.world(), "10.255.0.10/32 metric 0")
	})
}

func TestNoRouteWithoutTheAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, addr, bgp, a := bench(t)
		addr.set("put", errTest)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(10 * time.Second)
		same(t, "routes", bgp.world(), "")
		st := a.Status()[0].Local
		if st.Err != errTest.Error() || st.Attempts < 9 || st.Differs.IsZero() {
			t.Errorf("status does not tell: %+v", st)
		}
		addr.set("put", nil)
		w.story()
		wait(1100 * time.Millisecond) // the longest pause between attempts is 1 s
		same(t, "routes", bgp.world(), "10.255.0.10/32 metric 100")
	})
}

// An address that others take away is put back at the next look, and its
// route does not move; one that cannot be put back takes the route out.
func TestForeignRemoval(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, addr, bgp, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(5 * time.Second)
		w.story()
		addr.steal(pfx(vip1))
		bgp.steal(pfx(vip1))
		signal(addr.changes)
		signal(bgp.changes)
		wait(5 * time.Second)
		story := w.story()
		if story != "0s address put 10.255.0.10/32 metric 0\n0s bgp put 10.255.0.10/32 metric 100" &&
			story != "0s bgp put 10.255.0.10/32 metric 100\n0s address put 10.255.0.10/32 metric 0" {
			t.Errorf("repair: %s", story)
		}
		addr.set("put", errTest)
		addr.steal(pfx(vip1))
		signal(addr.changes)
		wait(time.Second)
		same(t, "route of a VIP lost for a second", bgp.world(), "10.255.0.10/32 metric 100")
		wait(2 * time.Second)
		same(t, "route of a VIP lost for longer", bgp.world(), "")
	})
}

// Leftovers stay until the inputs are complete; those still wanted are kept
// without being touched.
func TestAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, addr, bgp, a := bench(t)
		stale := pfx("10.255.0.99/32")
		addr.have[stale], bgp.have[stale] = Route{Prefix: stale}, Route{Prefix: stale}
		addr.have[pfx(vip1)] = Route{Prefix: pfx(vip1), Local: LocalAddress}
		bgp.have[pfx(vip1)] = Route{Prefix: pfx(vip1), Attrs: Attrs{Metric: 100}}
		launch(t, a.Run)
		a.Set(one(Leave, 100), false)
		wait(20 * time.Second)
		same(t, "before the inputs are complete", w.story(), "")
		a.Set(one(Announce, 100), true)
		wait(20 * time.Second)
		same(t, "leftovers", addr.world()+"|"+bgp.world(), "10.255.0.10/32 metric 0|10.255.0.10/32 metric 100")
		if s := w.story(); s == "" || containsPut(s) {
			t.Errorf("adoption touched what was wanted: %q", s)
		}
	})
}

func containsPut(s string) bool {
	for i := range s {
		if len(s)-i >= 4 && s[i:i+4] == " put" {
			return true
		}
	}
	return false
}

// A VIP that is no longer configured leaves in the usual order and is forgotten.
func TestRemovedVIP(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, _, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(time.Second)
		w.story()
		a.Set(nil, true)
		wait(10 * time.Second)
		same(t, "story", w.story(), "0s bgp remove 10.255.0.10/32\n3s address remove 10.255.0.10/32")
		if got := a.Status(); len(got) != 0 {
			t.Errorf("not forgotten: %+v", got)
		}
	})
}

func TestBindModes(t *testing.T) {
	tests := []struct {
		bind        Bind
		up, down    string
		localBefore string
	}{
		{BindAnnouncing, "10.255.0.10/32 metric 0", "", ""},
		{BindAlways, "10.255.0.10/32 metric 0", "10.255.0.10/32 metric 0", "10.255.0.10/32 metric 0"},
		{BindNever, "", "", ""},
	}
	for _, tt := range tests {
		bubble(t, func(t *testing.T) {
			_, addr, bgp, a := bench(t)
			launch(t, a.Run)
			set := func(action Action) {
				v := one(action, 100)
				v[0].Bind = tt.bind
				a.Set(v, true)
				wait(10 * time.Second)
			}
			set(Withdraw)
			same(t, "before", addr.world(), tt.localBefore)
			set(Announce)
			same(t, "up", addr.world(), tt.up)
			same(t, "route", bgp.world(), "10.255.0.10/32 metric 100")
			set(Withdraw)
			same(t, "down", addr.world(), tt.down)
			same(t, "route", bgp.world(), "")
		})
	}
}

func TestMetricChangeIsOnePut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, _, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(5 * time.Second)
		w.story()
		a.Set(one(Announce, 300), true)
		wait(5 * time.Second)
		same(t, "story", w.story(), "0s bgp put 10.255.0.10/32 metric 300")
		a.Set(one(Announce, 300), true)
		wait(time.Minute)
		same(t, "the same again", w.story(), "")
	})
}

// A read that fails does not hold up a withdraw.
func TestWithdrawWithoutReading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, bgp, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(5 * time.Second)
		bgp.set("read", errTest)
		wait(5 * time.Second)
		w.story()
		a.Set(one(Withdraw, 100), true)
		wait(time.Second)
		same(t, "story", w.story(), "0s bgp remove 10.255.0.10/32")
	})
}

// A withdraw that fails is tried again, at least once a second, until it works.
func TestWithdrawIsRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, bgp, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(5 * time.Second)
		bgp.set("remove", errTest)
		a.Set(one(Withdraw, 100), true)
		wait(60 * time.Second)
		st := a.Status()[0].Routes["bgp"]
		if st.Err == "" || st.Attempts < 60 || time.Since(st.Differs) < 59*time.Second {
			t.Errorf("status does not tell of the failing withdraw: %+v", st)
		}
		bgp.set("remove", nil)
		w.story()
		wait(1050 * time.Millisecond)
		same(t, "routes", bgp.world(), "")
	})
}

// An address that is there but does not do its work (its local route is gone)
// is not local: after the grace its route goes.
func TestAddressWithoutEffect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, addr, bgp, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(5 * time.Second)
		addr.place(pfx(vip1), Pending, true)
		signal(addr.changes)
		wait(time.Second)
		same(t, "within the grace", bgp.world(), "10.255.0.10/32 metric 100")
		wait(2 * time.Second)
		same(t, "after it", bgp.world(), "")
		addr.place(pfx(vip1), Present, false)
		wait(1100 * time.Millisecond)
		same(t, "repaired", bgp.world(), "10.255.0.10/32 metric 100")
	})
}
