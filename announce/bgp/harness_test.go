package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rhid/announce"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// bench is a running speaker.
type bench struct {
	*Speaker
	t    testing.TB
	addr netip.AddrPort
}

// start runs a speaker on a free port of 127.0.0.1 (and ::1) with neighbours.
func start(t testing.TB, allowed string, neighbours ...Neighbour) *bench {
	t.Helper()
	st := Settings{ASN: ourASN, RouterID: netip.MustParseAddr("192.0.2.200"), Port: freePort(t), Neighbours: neighbours}
	for _, n := range neighbours {
		a := netip.MustParseAddr("127.0.0.1")
		if n.Address.Is6() {
			a = netip.IPv6Loopback()
		}
		if !slices.Contains(st.ListenAddresses, a) {
			st.ListenAddresses = append(st.ListenAddresses, a)
		}
	}
	for _, p := range strings.Fields(allowed) {
		st.Allowed = append(st.Allowed, netip.MustParsePrefix(p))
	}
	return startWith(t, st)
}

func startWith(t testing.TB, st Settings) *bench {
	t.Helper()
	log := slog.New(slog.NewTextHandler(&testWriter{t: t}, nil))
	s, err := Start(t.Context(), st, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		// GoBGP has global variables: the next test must not start a speaker
		// while this one still works. To drop a whole table takes it a while.
		stop, done := context.WithTimeout(context.Background(), 5*deadline)
		defer done()
		if err := s.Stop(stop, "test over"); err != nil && !errors.Is(err, errStopped) {
			t.Errorf("Stop: %v", err)
		}
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		finish(stop, s)
	})
	b := &bench{Speaker: s, t: t}
	if len(st.ListenAddresses) > 0 {
		b.addr = netip.AddrPortFrom(st.ListenAddresses[0], uint16(st.Port))
	}
	return b
}

// finish waits for calls of GoBGP that went on when their context ended.
func finish(ctx context.Context, s *Speaker) {
	for _, turn := range []chan struct{}{s.tableOps, s.peerOps, s.lookOps, s.filterOps} {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
		}
	}
}

// testWriter keeps late log lines of GoBGP's goroutines out of ended tests.
type testWriter struct {
	t  testing.TB
	mu sync.Mutex
}

func (w *testWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

// freePort finds a port below those that the kernel gives to connections: one of
// them could take it before the speaker listens.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(10000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// join has r dial until both sides are in Established.
func (b *bench) join(r *router) {
	b.t.Helper()
	before := b.flaps(r)
	r.connect(b.addr)
	b.until("a session with "+r.addr.String(), func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := b.byKey[r.addr.String()]
		return n.established() && n.flaps >= before, n.state
	})
}

// flaps is the number of flaps of r when its present session has ended.
func (b *bench) flaps(r *router) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.byKey[r.addr.String()]
	if n.established() {
		return n.flaps + 1
	}
	return n.flaps
}

func (b *bench) put(prefix string, a announce.Attrs) {
	b.t.Helper()
	if err := b.Put(b.t.Context(), announce.Route{Prefix: netip.MustParsePrefix(prefix), Attrs: a}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) remove(prefix string) {
	b.t.Helper()
	if err := b.Remove(b.t.Context(), netip.MustParsePrefix(prefix)); err != nil {
		b.t.Fatal(err)
	}
}

// place waits until the state of a prefix at a neighbour is want and contains
// why; "" for a prefix that Read does not return.
func (b *bench) place(prefix, at, want, why string) announce.Place {
	b.t.Helper()
	var got announce.Place
	b.until(fmt.Sprintf("%s at %s to be %q (%s)", prefix, at, want, why), func() (bool, string) {
		seen, err := b.Read(b.t.Context())
		if err != nil {
			return false, err.Error()
		}
		entry, ok := seen[netip.MustParsePrefix(prefix)]
		if !ok {
			return want == "", "not in Read"
		}
		for _, p := range entry.Places {
			if p.Name == at {
				got = p
				return p.State.String() == want && strings.Contains(p.Why, why), fmt.Sprintf("%v: %s", p.State, p.Why)
			}
		}
		return false, "no such place"
	})
	return got
}

// alive has r send keepalives until the state of a prefix at it is want.
func (b *bench) alive(r *router, prefix, want string) {
	b.t.Helper()
	b.until(prefix+" to be confirmed by "+r.addr.String(), func() (bool, string) {
		r.keepalive()
		seen, err := b.Read(b.t.Context())
		if err != nil {
			return false, err.Error()
		}
		state := ""
		for _, p := range seen[netip.MustParsePrefix(prefix)].Places {
			if p.Name == r.addr.String() {
				state = p.State.String()
			}
		}
		return state == want, state
	})
}

// state waits for the state of a session.
func (b *bench) state(at, want string) NeighbourStatus {
	b.t.Helper()
	var got NeighbourStatus
	b.until(at+" to be "+want, func() (bool, string) {
		for _, n := range b.Neighbours() {
			if n.Address == at {
				got = n
				return n.State == want, n.State
			}
		}
		return false, "no such neighbour"
	})
	return got
}

// until polls cond at every change, and every 20 ms for what is no change.
func (b *bench) until(what string, cond func() (bool, string)) {
	b.t.Helper()
	end := time.NewTimer(deadline)
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, got := cond()
		if ok {
			return
		}
		select {
		case <-end.C:
			b.t.Fatalf("waited for %s; it is %s", what, got)
		case <-b.Changes():
		case <-tick.C:
		}
	}
}
