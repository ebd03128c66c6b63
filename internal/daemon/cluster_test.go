package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/announce/bgp/router"
	"rhid/internal/control"
)

// fleet is several daemons in one process, on loopback, against one router.
type fleet struct {
	*rig
	nodes  map[string]*member
	names  []string
	gossip int
}

type member struct {
	client *control.Client
	*process
}

// newFleet prepares nodes named by site and number: a1, a2, b1. Their checks are
// patient and nothing is damped, because a busy machine fails some of them.
func newFleet(t *testing.T, service string, names ...string) *fleet {
	t.Helper()
	service = strings.ReplaceAll(service, "check: echo", "damping: {penalty: 0}, check: echo")
	f := &fleet{rig: &rig{t: t, dir: t.TempDir()}, nodes: map[string]*member{}, names: names}
	f.gossip = freePort(t, "127.101.1.1")
	f.port = freePort(t, "127.101.0.1")
	set := router.Settings{ASN: 65000, Address: netip.MustParseAddr("127.101.0.1"), Port: f.port}
	var nodes strings.Builder
	for i, n := range names {
		addr := fmt.Sprintf("127.101.1.%d", i+1)
		set.Hosts = append(set.Hosts, router.Host{Name: n, Address: netip.MustParseAddr(addr), ASN: 65010})
		fmt.Fprintf(&nodes, "  - {name: %s, site: %s, address: %s, routers: [{name: tor, address: 127.101.0.1, asn: 65000, port: %d, source: %s, multihop: 2}]}\n",
			n, n[:1], addr, f.port, addr)
	}
	var err error
	if f.router, err = router.Start(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.router.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, n := range names {
		text := fmt.Sprintf(`
cluster: {name: test, port: %d, detection: fast, settle_timeout: 2s, state_dir: %s/%s}
control: {socket: %s/%s.s}
bgp: {asn: 65010, port: -1, hold: 3s}
vip: {bind: never}
stop: {drain_time: 200ms, timeout: 5s}
sites: [{name: a}, {name: b}]
nodes:
%schecks:
  echo: {type: tcp, interval: 500ms, timeout: 450ms, fall: 2, rise: 1}
services:
  %s
`, f.gossip, f.dir, n, f.dir, n, nodes.String(), service)
		if err := os.WriteFile(f.config(n), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.nodes[n] = &member{client: control.NewClient(filepath.Join(f.dir, n+".s"))}
	}
	return f
}

func (f *fleet) config(n string) string { return filepath.Join(f.dir, n+".yaml") }

// freePort finds a port below those that the kernel gives to connections: one of
// them could take it before the daemon listens. The tests of package bgp, which
// may run beside these and listen on all addresses, have ports of their own.
func freePort(t *testing.T, addr string) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(10000)
		l, err := net.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
		if err == nil {
			l.Close() //nolint:errcheck,gosec // it only finds a port
			return port
		}
	}
	t.Fatalf("no port of %s is free", addr)
	return 0
}

// start starts nodes, and waits until each can be asked.
func (f *fleet) start(names ...string) {
	f.t.Helper()
	for _, n := range names {
		f.nodes[n].process = spawn(f.t, f.config(n), n)
	}
	for _, n := range names {
		f.eventually(n+" answers", func() error {
			_, err := f.nodes[n].client.Status(f.t.Context())
			return err
		})
	}
}

// eventually tries until nothing is wrong any more.
func (f *fleet) eventually(what string, wrong func() error) {
	f.t.Helper()
	for end := time.Now().Add(limit); ; <-time.After(10 * time.Millisecond) {
		err := wrong()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("%s: not so after %s: %v", what, limit, err)
		}
	}
}

// holders waits until exactly these nodes announce, as the router sees it.
func (f *fleet) holders(want ...string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	var got []string
	for {
		paths, err := f.router.Paths(ctx)
		if err != nil {
			f.t.Fatal(err)
		}
		got = nil
		for _, p := range paths {
			got = append(got, p.From)
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-f.router.Changes():
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			f.t.Fatalf("%v announce, want %v", got, want)
		}
	}
}

// stays proves that nothing changes for a while.
func (f *fleet) stays(d time.Duration, want ...string) {
	f.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		f.holders(want...)
		<-time.After(20 * time.Millisecond)
	}
}

// TestTakeover: the order a1, a2, b1; death, stop and return.
func TestTakeover(t *testing.T) {
	srv := listen(t, "")
	f := newFleet(t, `- {name: s, vips: [10.255.0.10/32], order: [a1, a2, b1], failback: {delay: 500ms}, check: echo, servers: {addresses: ["`+srv.Addr().String()+`"]}}`, "a1", "a2", "b1")
	f.start("a1", "a2", "b1")
	f.holders("a1")
	f.stays(3*time.Second, "a1")
	began := time.Now()
	f.nodes["a1"].kill()
	f.holders("a2")
	t.Logf("a1 dies, a2 announces after %s", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	f.nodes["a2"].signal(syscall.SIGTERM)
	f.holders("b1")
	t.Logf("a2 stops, b1 alone announces after %s", time.Since(began).Round(time.Millisecond))
	f.nodes["a2"].ended()
	f.start("a1")
	f.holders("a1")
	f.stays(time.Second, "a1")
	srv.Close() //nolint:errcheck,gosec // a test server
	f.holders()
	listen(t, srv.Addr().String())
	f.holders("a1")
}

// TestWarmStandby: two announce, at different ranks, and the second carries on
// when the first dies.
func TestWarmStandby(t *testing.T) {
	srv := listen(t, "")
	f := newFleet(t, `- {name: s, vips: [10.255.0.10/32], order: [a1, a2, b1], announcers: 2, check: echo, servers: {addresses: ["`+srv.Addr().String()+`"]}}`, "a1", "a2", "b1")
	f.start("a1", "a2", "b1")
	f.holders("a1", "a2")
	f.eventually("a1 is first", func() error { // a2 may have been the first that was ready
		paths, err := f.router.Paths(t.Context())
		if err != nil || len(paths) != 2 || paths[0].From != "a1" || paths[0].MED != 100 || paths[1].MED != 200 {
			return fmt.Errorf("got %+v, %v", paths, err) //nolint:errorlint // there may be none
		}
		return nil
	})
	f.nodes["a1"].kill()
	f.holders("a2", "b1")
}
