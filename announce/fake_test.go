package announce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is several fake targets that write what happens to them into one
// diary, so that tests can compare the order of things across targets.
type world struct {
	mu    sync.Mutex
	start time.Time
	diary []string
}

func newWorld() *world { return &world{start: time.Now()} }

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diary = append(w.diary, fmt.Sprintf("%v ", time.Since(w.start).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// story returns the diary and begins a new one.
func (w *world) story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(w.diary, "\n")
	w.diary, w.start = nil, time.Now()
	return s
}

// fake is a Target over a map.
type fake struct {
	w       *world
	name    string
	changes chan struct{}

	mu    sync.Mutex
	have  map[netip.Prefix]Route
	state map[netip.Prefix]PlaceState // overrides what Read says of a place
	fail  map[string]error            // by operation: "put", "remove", "read"
	reads int
}

func newFake(w *world, name string) *fake {
	return &fake{
		w: w, name: name, changes: make(chan struct{}, 1),
		have: map[netip.Prefix]Route{}, state: map[netip.Prefix]PlaceState{}, fail: map[string]error{},
	}
}

func (f *fake) Name() string             { return f.name }
func (f *fake) Changes() <-chan struct{} { return f.changes }
func (f *fake) Same(r Route, s Seen) bool {
	return r.Attrs.Metric == s.Route.Attrs.Metric && r.Local == s.Route.Local
}

func (f *fake) Read(context.Context) (map[netip.Prefix]Seen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if err := f.fail["read"]; err != nil {
		return nil, err
	}
	out := map[netip.Prefix]Seen{}
	for p, r := range f.have {
		out[p] = Seen{Here: true, Route: r, Places: []Place{{Name: "here", State: Present}}}
	}
	for p, st := range f.state {
		s := out[p]
		s.Places = []Place{{Name: "here", State: st, Why: "told so"}}
		out[p] = s
	}
	return out, nil
}

func (f *fake) Put(_ context.Context, r Route) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["put"]; err != nil {
		f.w.note("%s put %s failed", f.name, r.Prefix)
		return err
	}
	f.w.note("%s put %s metric %d", f.name, r.Prefix, r.Attrs.Metric)
	f.have[r.Prefix] = r
	return nil
}

func (f *fake) Remove(_ context.Context, p netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["remove"]; err != nil {
		f.w.note("%s remove %s failed", f.name, p)
		return err
	}
	f.w.note("%s remove %s", f.name, p)
	delete(f.have, p)
	return nil
}

// steal takes a route out behind the reconciler's back.
func (f *fake) steal(p netip.Prefix) {
	f.mu.Lock()
	delete(f.have, p)
	f.mu.Unlock()
}

func (f *fake) set(op string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[op] = err
}

func (f *fake) place(p netip.Prefix, st PlaceState, override bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.state, p)
	if override {
		f.state[p] = st
	}
}

func (f *fake) world() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for p, r := range f.have {
		lines = append(lines, fmt.Sprintf("%s metric %d", p, r.Attrs.Metric))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var errTest = errors.New("made to fail")

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// bubble is synctest.Test on one processor. With -race and more of them, Go 1.26
// lets all use one context of the race detector for a bubble's timers, and now
// and then ends with a SIGSEGV in it (golang/go#78156). The detector goes by the
// order of events, not by chance, so one processor finds as much.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}

// launch runs f until the test ends, inside a synctest bubble.
func launch(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
