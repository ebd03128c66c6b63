package checks

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process without descriptors left says so, and blames no target.
func TestNoDescriptorsLeft(t *testing.T) {
	to := targetOf(serve(t, "127.0.0.1:0", holds()), probeLimit)
	options := []Options{&TCPOptions{}, &HTTPOptions{}, &HTTPSOptions{}, &ICMPOptions{}, sh("true")}
	results := make([]Result, len(options))
	probers := make([]Prober, len(options))
	for i, o := range options {
		var err error
		if probers[i], err = o.Prober(to); err != nil {
			t.Fatal(err)
		}
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), probeLimit)
	defer cancel()
	for i, p := range probers {
		results[i] = p.Probe(ctx)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	for _, res := range results {
		wantOutcome(t, res, outcome{false, CauseInternal, "this process has no file descriptor left (EMFILE)"})
	}
}

func TestStateText(t *testing.T) {
	for s, want := range map[State]string{Unknown: `"unknown"`, Up: `"up"`, Down: `"down"`} {
		b, err := json.Marshal(s)
		if err != nil || string(b) != want {
			t.Errorf("%s, %v; want %s", b, err, want)
		}
		back := State(9)
		if err := json.Unmarshal(b, &back); err != nil || back != s {
			t.Errorf("%s became %s, %v", b, back, err)
		}
	}
}

func TestSockaddrZone(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"lo", "1"} {
		id, err := zoneID(zone)
		if err != nil || zone == "lo" && id != uint32(lo.Index) || zone == "1" && id != 1 {
			t.Errorf("zone %s is interface %d, %v", zone, id, err)
		}
	}
	if _, err := zoneID("no-such-interface"); err == nil {
		t.Error("an interface that does not exist has a number")
	}
}

func TestLimitText(t *testing.T) {
	a := &aim{limit: 800 * time.Millisecond}
	if got := a.limitText(); got != "800ms" {
		t.Errorf("%q, want 800ms", got)
	}
	a.limit = 0
	if got := a.limitText(); got != "the timeout" {
		t.Errorf("%q, want the timeout", got)
	}
}
