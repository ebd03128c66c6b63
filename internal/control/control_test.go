package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/services"
)

// source answers with fixed values; the server is what is under test.
type source struct{ events []Event }

func (s *source) Status(context.Context) (Status, error) {
	return Status{Node: "lb-1", Services: []Service{{Name: "atm", Verdict: services.Announce}}}, nil
}

func (s *source) Explain(_ context.Context, name string) (Explanation, error) {
	if name != "e sign/ature" {
		return Explanation{}, fmt.Errorf("service %q: %w", name, ErrNotFound)
	}
	return Explanation{Pool: "2 of 2"}, nil
}

func (s *source) Events(ctx context.Context, since uint64) ([]Event, error) {
	if int(since) < len(s.events) {
		return s.events[since:], nil
	}
	<-ctx.Done()
	return nil, nil
}

func (s *source) Reload(context.Context) error { return errors.New("rhid.yaml:3:1: wrong") }

func serve(t *testing.T) (string, *Client) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	src := &source{events: []Event{{Seq: 1, What: "up"}, {Seq: 2, What: "down"}}}
	go func() { done <- Serve(ctx, l, src, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path, NewClient(path)
}

func TestRoundTrip(t *testing.T) {
	path, c := serve(t)
	st, err := c.Status(t.Context())
	if err != nil || st.Node != "lb-1" || st.Services[0].Verdict != services.Announce {
		t.Errorf("status: %+v, %v", st, err)
	}
	if _, err := c.Explain(t.Context(), "nope"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown service: %v", err)
	}
	if e, err := c.Explain(t.Context(), "e sign/ature"); err != nil || e.Pool != "2 of 2" {
		t.Errorf("a name with a blank and a slash: %+v, %v", e, err)
	}
	evs, err := c.Events(t.Context(), 1, 0)
	if d := cmp.Diff([]Event{{Seq: 2, What: "down"}}, evs); d != "" || err != nil {
		t.Errorf("events: %v\n%s", err, d)
	}
	if evs, err := c.Events(t.Context(), 2, 10*time.Millisecond); err != nil || len(evs) != 0 {
		t.Errorf("no more events: %v, %v", evs, err)
	}
	if err := c.Reload(t.Context()); err == nil || err.Error() != "rhid.yaml:3:1: wrong" {
		t.Errorf("a refused reload: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("mode of the socket: %v, %v", info.Mode(), err)
	}
}

func TestListen(t *testing.T) {
	path, _ := serve(t)
	if _, err := Listen(path, ""); err == nil || !strings.Contains(err.Error(), "another rhid answers") {
		t.Errorf("a second daemon on the same socket: %v", err)
	}
	stale := filepath.Join(t.TempDir(), "stale")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = Listen(stale, "")
	if err != nil {
		t.Fatalf("a socket that a dead daemon left: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Listen(filepath.Join(t.TempDir(), "x"), "no-such-group"); err == nil || !strings.Contains(err.Error(), "control.group") {
		t.Errorf("an unknown group: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	_, err := NewClient(filepath.Join(t.TempDir(), "none")).Status(t.Context())
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}
