package kernel

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"rhid/announce"
)

// occupied is a kernel with something of rhid's in every place, and something
// of others beside it.
func occupied(t *testing.T) *fake {
	t.Helper()
	f := newFake()
	w := testWorld(f)
	settle(t, w.Routes(), want4(100, 0))
	settle(t, w.Routes(), want6(100))
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	settle(t, w.Addresses(), local6(announce.LocalAnyIP))
	elsewhere := w.conf.Load().announcement(want4(7, 0), nil)
	elsewhere.table = 99
	foreign := elsewhere
	foreign.proto = 4
	foreign.metric = 8
	f.rs = append(f.rs, elsewhere, foreign)
	if err := f.addAddr(foreignAddr("10.255.0.11/32", loopback)); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCleanup(t *testing.T) {
	f := occupied(t)
	s := testSettings()
	s.VIPs = nil // the configuration may be unreadable
	got, err := cleanup(context.Background(), f, s)
	if err != nil {
		t.Fatalf("cleanup: %v", err)
	}
	want := []string{
		"route 10.255.0.10/32 dev lo table 254 proto 151 metric 100",
		"route 10.255.0.10/32 dev lo table 99 proto 151 metric 7",
		"route fd00:255::10/128 dev lo table 254 proto 151 metric 100",
		"address 10.255.0.10/32 dev lo label lo:rhid proto 151",
		"route local fd00:255::10/128 dev lo table 255 proto 151 metric 1024",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	wantDump(t, f,
		"address 10.255.0.11/32 dev lo label lo",
		"route 10.255.0.10/32 dev lo table 99 proto static metric 8")
	if again, err := cleanup(context.Background(), f, s); err != nil || len(again) != 0 {
		t.Errorf("the second time removes %q, %v", again, err)
	}
}

func TestCleanupGoesOn(t *testing.T) {
	f := occupied(t)
	f.refuse["del 10.255.0.10/32 dev lo table 99 proto 151 metric 7"] = unix.EPERM
	f.refuse["del 10.255.0.10/32 dev lo label lo:rhid proto 151"] = unix.EPERM
	got, err := cleanup(context.Background(), f, testSettings())
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("cleanup says %v, want operation not permitted", err)
	}
	if len(got) != 3 {
		t.Errorf("removed %q, want the other three", got)
	}
	f.refuse["list routes"] = unix.EIO
	if _, err := cleanup(context.Background(), f, testSettings()); !errors.Is(err, unix.EIO) {
		t.Errorf("cleanup says %v, want input/output error", err)
	}
}
