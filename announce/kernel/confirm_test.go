package kernel

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/announce"
	"rhid/announce/kernel/readback"
)

func TestPlaceOfADaemon(t *testing.T) {
	d := &readback.Daemon{Name: readback.FRR, Title: "FRR"}
	now := time.Now()
	const silent = "ospfd does not answer since 12:00:00 UTC"
	for _, tt := range []struct {
		name  string
		here  bool
		a     readback.Answer
		stale bool
		state announce.PlaceState
		why   string
	}{
		{"announced, there", true, readback.Answer{Has: true, Asked: now}, false, announce.Present, ""},
		{"announced, lost", true, readback.Answer{Asked: now}, false, announce.Pending, "in the kernel, FRR's OSPF database does not have it"},
		{"announced, not asked since", true, readback.Answer{Asked: now}, true, announce.Pending, unreadYet},
		{"announced, silent", true, readback.Answer{Has: true, Asked: now, Fault: silent}, false, announce.Pending, silent},
		{"withdrawn, gone", false, readback.Answer{Asked: now}, false, announce.Gone, ""},
		{"withdrawn, still there", false, readback.Answer{Has: true, Asked: now}, false, announce.Leaving, "not in the kernel, FRR's OSPF database still has it"},
		{"withdrawn, not asked since", false, readback.Answer{Has: true, Asked: now}, true, announce.Leaving, unreadYet},
		{"withdrawn, silent before it was asked", false, readback.Answer{Has: true, Asked: now, Fault: silent}, true, announce.Leaving, silent + ", and had it then"},
		{"withdrawn, silent and did not have it", false, readback.Answer{Asked: now, Fault: silent}, false, announce.Gone, ""},
		{"withdrawn, silent and not known", false, readback.Answer{Asked: now, Fault: silent}, true, announce.Leaving, silent},
		{"withdrawn, daemon gone with it", false, readback.Answer{Has: true, Asked: now, Fault: "refused", Gone: true}, true, announce.Unconfirmed, "refused, and had it then"},
		{"withdrawn, daemon gone without it", false, readback.Answer{Asked: now, Fault: "refused", Gone: true}, false, announce.Gone, ""},
	} {
		judge := withdrawn
		if tt.here {
			judge = announced
		}
		if state, why := judge(d, tt.a, !tt.stale); state != tt.state || why != tt.why {
			t.Errorf("%s: %v %q, want %v %q", tt.name, state, why, tt.state, tt.why)
		}
	}
}

// TestHealing has FRR lose a route for good: it is added anew once FRR had its
// time, a few times with growing pauses, and then no more.
func TestHealing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		back := readback.New(readback.Settings{From: []string{readback.FRR}, Interval: time.Second}, slog.New(slog.DiscardHandler))
		k := newFake()
		w := testWorld(k)
		w.route.confirmation = newConfirmation(back)
		r := want4(100, 0)
		if err := w.route.Put(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var healed []time.Duration
		for range 600 {
			f := &w.route.confirmation
			f.noteLoss(r.Prefix, back.Daemons, time.Now())
			if f.ill(r.Prefix) {
				healed = append(healed, time.Since(began))
				k.journal = nil
				if err := w.route.Put(context.Background(), r); err != nil {
					t.Fatal(err)
				}
				want := []string{"del 10.255.0.10/32 dev lo table 254 proto 151 metric 100", "add 10.255.0.10/32 dev lo table 254 proto 151 metric 100"}
				if diff := cmp.Diff(want, k.journal); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			}
			<-time.After(time.Second)
		}
		s := time.Second
		if diff := cmp.Diff([]time.Duration{2 * s, 6 * s, 14 * s, 30 * s, 62 * s}, healed); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.route.noteLoss(r.Prefix, nil, time.Now())
		if len(w.route.losses) != 0 {
			t.Error("a loss that is over is remembered")
		}
	})
}

// TestHealingLeavesTheSlowTheirTime has FRR lose a route. Adding it anew heals that,
// but BIRD takes its time to announce again what it had to withdraw.
func TestHealingLeavesTheSlowTheirTime(t *testing.T) {
	f := newConfirmation(readback.New(readback.Settings{From: []string{readback.BIRD, readback.FRR}, Interval: time.Second}, slog.New(slog.DiscardHandler)))
	bird, frr := f.back.Daemons[:1], f.back.Daemons[1:]
	p, began := want4(100, 0).Prefix, time.Now()
	f.noteLoss(p, frr, began)
	l := f.losses[p]
	if due := l.next.Sub(began); due != frr[0].Slow+healMargin {
		t.Errorf("healed first after %v", due)
	}
	healed := l.next
	l.tries, l.next = 1, healed.Add(2*(frr[0].Slow+healMargin))
	for after := time.Duration(0); after < 3*time.Second; after += time.Second {
		f.noteLoss(p, bird, healed.Add(after))
	}
	if due := l.next.Sub(healed); due != bird[0].Slow+healMargin {
		t.Errorf("healed again %v after the first time", due)
	}
}

// TestWithdrawIsNotHeldUp removes a route although nobody answers.
func TestWithdrawIsNotHeldUp(t *testing.T) {
	k := newFake()
	w := testWorld(k)
	w.route.confirmation = newConfirmation(readback.New(readback.Settings{From: []string{readback.FRR}, Interval: time.Second}, slog.New(slog.DiscardHandler)))
	settleKernel := func(want map[string]announce.PlaceState) {
		t.Helper()
		got := map[string]announce.PlaceState{}
		for p, s := range read(t, w.route) {
			for _, place := range s.Places {
				got[p+" "+place.Name] = place.State
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if err := w.route.Put(context.Background(), want4(100, 0)); err != nil {
		t.Fatal(err)
	}
	settleKernel(map[string]announce.PlaceState{vip4 + " table 254": announce.Present, vip4 + " frr": announce.Pending})
	remove(t, w.route, vip4)
	wantDump(t, k)
	settleKernel(map[string]announce.PlaceState{vip4 + " frr": announce.Leaving})
}
