package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"rhid/announce/bgp/router"
)

// watcher prints every change of the router's table as it comes, and lets the
// script wait for one.
type watcher struct {
	router *router.Router
	out    io.Writer
	start  time.Time

	mu    sync.Mutex
	rows  map[string]string // what is known of a path, by prefix and host
	at    time.Time         // of the newest change
	grown chan struct{}     // closed and replaced at every change
}

func newWatcher(r *router.Router, out io.Writer) *watcher {
	return &watcher{router: r, out: out, start: time.Now(), rows: map[string]string{}, grown: make(chan struct{})}
}

// run follows the table until ctx ends. The pause bounds how late a change is
// seen that the router tells nobody of, such as of a path that is not best.
func (w *watcher) run(ctx context.Context) error {
	const pause = 10 * time.Millisecond
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.router.Changes():
		case <-t.C:
		}
		paths, err := w.router.Paths(ctx)
		if err != nil {
			return err
		}
		w.compare(paths, time.Now())
	}
}

func (w *watcher) compare(paths []router.Path, now time.Time) {
	rows := map[string]string{}
	for _, p := range paths {
		rows[p.Prefix.String()+" from "+p.From] = p.Attributes()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for k, v := range rows {
		switch old, ok := w.rows[k]; {
		case !ok:
			lines = append(lines, fmt.Sprintf("+ %s: %s", k, v))
		case old != v:
			lines = append(lines, fmt.Sprintf("~ %s: %s", k, v))
		}
	}
	for k := range w.rows {
		if _, ok := rows[k]; !ok {
			lines = append(lines, "- "+k)
		}
	}
	if len(lines) == 0 {
		return
	}
	slices.Sort(lines)
	for _, l := range lines {
		fmt.Fprintf(w.out, "  %8.3fs  router  %s\n", now.Sub(w.start).Seconds(), l)
	}
	w.rows, w.at = rows, now
	close(w.grown)
	w.grown = make(chan struct{})
}

// wait returns when cond first held for the table, or an error after limit.
func (w *watcher) wait(ctx context.Context, what string, limit time.Duration, cond func(rows map[string]string) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		w.mu.Lock()
		ok, at, grown := cond(w.rows), w.at, w.grown
		w.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

// from names the hosts that announce a prefix, in alphabetical order.
func from(rows map[string]string, prefix string) string {
	var names []string
	for k := range rows {
		if name, ok := strings.CutPrefix(k, prefix+" from "); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
