package announce

import (
	"testing"
	"time"
)

// TestLater has a target that needs time between two changes: the reconciler
// comes back when it said, makes the newest goal true, and takes nothing for a
// failure.
func TestLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, bgp, a := bench(t)
		launch(t, a.Run)
		a.Set(one(Announce, 100), true)
		wait(time.Second)
		w.story()
		bgp.set("put", &Later{At: time.Now().Add(2 * time.Second)})
		a.Set(one(Announce, 200), true)
		wait(time.Second)
		st := a.Status()[0].Routes["bgp"]
		if st.Attempts != 0 || st.Err == "" || st.Differs.IsZero() {
			t.Errorf("put off: %+v", st)
		}
		same(t, "put off", w.story(), "0s bgp put 10.255.0.10/32 failed")
		bgp.set("put", nil)
		wait(1500 * time.Millisecond)
		same(t, "when it may", w.story(), "1s bgp put 10.255.0.10/32 metric 200")
		if st := a.Status()[0].Routes["bgp"]; st.Err != "" || !st.Settled() {
			t.Errorf("in the end: %+v", st)
		}
		bgp.set("remove", &Later{At: time.Now().Add(time.Minute)})
		a.Set(one(Withdraw, 200), true)
		wait(time.Second)
		w.story()
		a.Set(one(Announce, 200), true)
		wait(2 * time.Minute)
		same(t, "a withdraw that is no longer wanted", w.story(), "")
	})
}
