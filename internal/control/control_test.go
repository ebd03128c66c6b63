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

	"rhid/checks"
	"rhid/services"
)

// source answers with fixed values; the server is what is under test.
type source struct {
	events  []Event
	intent  chan Intent
	reports []Report
}

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

func (s *source) Intend(_ context.Context, i Intent) error {
	if i.Subject != "node:lb-1" {
		return fmt.Errorf("%w: no such subject", ErrRefused)
	}
	s.intent <- i
	return nil
}

func (s *source) Foresee(_ context.Context, f []string) (services.Outlook, error) {
	return services.Outlook{Fail: f}, nil
}

func (s *source) Report(_ context.Context, rs []Report) error {
	if rs[0].Service != "atm" {
		return fmt.Errorf("service %q: %w", rs[0].Service, ErrNotFound)
	}
	s.reports = append(s.reports, rs...)
	return nil
}

func (s *source) Checks(_ context.Context, of, node string) ([]CheckState, error) {
	if node == "lb-9" {
		return nil, fmt.Errorf("%w: lb-9 is dead", ErrAway)
	}
	return []CheckState{{Status: checks.Status{ID: of, State: checks.Abstains}}}, nil
}

func (s *source) TestCheck(_ context.Context, name string) ([]CheckTest, error) {
	if name != "atm-echo@10.9.1.1:9100" {
		return nil, fmt.Errorf("check %q: %w", name, ErrNotFound)
	}
	return []CheckTest{{ID: name, Result: checks.Result{OK: true}}}, nil
}

func (s *source) RotateKey(_ context.Context, key []byte) error {
	if string(key) != "0123456789abcdef" {
		return errors.New("another key")
	}
	return nil
}

func serve(t *testing.T) (string, *Client, *source) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	src := &source{intent: make(chan Intent, 1), events: []Event{{Seq: 1, What: "up"}, {Seq: 2, What: "down"}}}
	go func() { done <- Serve(ctx, l, src, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path, NewClient(path), src
}

func TestRoundTrip(t *testing.T) {
	path, c, _ := serve(t)
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
	path, _, _ := serve(t)
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

// Who asks is taken from the socket, not from the request.
func TestIntend(t *testing.T) {
	_, c, src := serve(t)
	if err := c.Intend(t.Context(), Intent{Kind: "drain", Subject: "node:lb-1", Why: "CHG1", For: time.Hour, Who: "somebody else"}); err != nil {
		t.Fatal(err)
	}
	got := <-src.intent
	if got.Why != "CHG1" || got.For != time.Hour || !strings.HasSuffix(got.Who, fmt.Sprintf("uid %d)", os.Getuid())) && got.Who != fmt.Sprintf("uid %d", os.Getuid()) {
		t.Errorf("got %+v", got)
	}
	if err := c.Intend(t.Context(), Intent{Kind: "drain", Subject: "node:zz"}); err == nil || !strings.Contains(err.Error(), "no such subject") {
		t.Errorf("a wrong subject: %v", err)
	}
	if of, err := c.Checks(t.Context(), "a/b c", ""); err != nil || len(of) != 1 || of[0].ID != "a/b c" || of[0].State != checks.Abstains {
		t.Errorf("Checks: %+v, %v", of, err)
	}
	if _, err := c.Checks(t.Context(), "atm", "lb-9"); !errors.Is(err, ErrAway) || err.Error() != "out of reach: lb-9 is dead" {
		t.Errorf("Checks of a dead node: %v", err)
	}
	if ran, err := c.TestCheck(t.Context(), "atm-echo@10.9.1.1:9100"); err != nil || len(ran) != 1 || !ran[0].Result.OK {
		t.Errorf("TestCheck: %+v, %v", ran, err)
	}
	if _, err := c.TestCheck(t.Context(), "nobody"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a check that does not exist: %v", err)
	}
	o, err := c.Foresee(t.Context(), []string{"node:a", "site:b"})
	if d := cmp.Diff([]string{"node:a", "site:b"}, o.Fail); d != "" || err != nil {
		t.Errorf("foresee: %v\n%s", err, d)
	}
	if err := c.RotateKey(t.Context(), []byte("0123456789abcdef")); err != nil {
		t.Errorf("rotate: %v", err)
	}
}
