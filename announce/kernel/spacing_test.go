package kernel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/announce"
)

// TestSpacing changes one announcement again and again: each change is told when
// it may be made. A withdraw after a quiet time, and one after any change, waits
// no longer than routers need.
func TestSpacing(t *testing.T) {
	put := func(metric uint32) func(*routes) error {
		return func(r *routes) error { return r.Put(context.Background(), want4(metric, 0)) }
	}
	withdraw := func(r *routes) error { return r.Remove(context.Background(), pfx(vip4)) }
	steal := func(r *routes) error {
		r.w.stack.(*fake).rs = nil
		_, err := r.Read(context.Background())
		return err
	}
	type step struct {
		what string
		do   func(*routes) error
		wait time.Duration // what it is told
	}
	const spacing = 5100 * time.Millisecond
	for name, steps := range map[string][]step{
		"announced anew":             {{"announce", put(100), 0}, {"the same", put(100), 0}, {"other cost", put(200), spacing}},
		"withdrawn soon":             {{"announce", put(100), 0}, {"withdraw", withdraw, arrival}, {"announce", put(100), spacing}},
		"withdrawn, nothing there":   {{"withdraw", withdraw, 0}, {"announce", put(100), 0}},
		"taken away by somebody":     {{"announce", put(100), 0}, {"steal", steal, 0}, {"announce", put(100), arrival}, {"steal", steal, 0}, {"other cost", put(200), spacing}},
		"withdrawn after quiet time": {{"announce", put(100), 0}, {"quiet", pause(arrival), 0}, {"withdraw", withdraw, 0}, {"announce", put(100), spacing}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := testSettings()
				s.Spacing = spacing
				w := newWorld(newFake(), s, nil)
				for _, st := range steps {
					err, waited := st.do(w.route), time.Duration(0)
					if later := (*announce.Later)(nil); errors.As(err, &later) {
						waited = time.Until(later.At)
						<-time.After(waited)
						err = st.do(w.route)
					}
					if err != nil {
						t.Fatalf("%s: %v", st.what, err)
					}
					if diff := cmp.Diff(st.wait, waited); diff != "" {
						t.Errorf("%s waits (-want +got):\n%s", st.what, diff)
					}
				}
			})
		})
	}
}

// pause lets time pass.
func pause(d time.Duration) func(*routes) error {
	return func(*routes) error { <-time.After(d); return nil }
}

// TestChangesAreForgotten keeps memory bounded.
func TestChangesAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := testWorld(newFake())
		settle(t, w.route, want4(100, 0))
		<-time.After(arrival + time.Millisecond)
		read(t, w.route)
		if n := len(w.route.changed); n != 0 {
			t.Error(fmt.Sprint(n, " changes are remembered"))
		}
	})
}
