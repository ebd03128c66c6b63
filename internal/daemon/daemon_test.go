package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/announce/bgp/router"
	"rhid/internal/control"
)

// rig is a daemon against a real BGP neighbour in the same process, without
// root: the VIPs stay off the host.
type rig struct {
	t      *testing.T
	dir    string
	port   int
	router *router.Router
	client *control.Client
	daemon *process
}

// limit is how long a test waits for what must come; it only bounds one that fails.
const limit = 2 * time.Minute

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), port: freePort(t, "127.101.0.1")}
	var err error
	r.router, err = router.Start(t.Context(), router.Settings{
		ASN: 65000, Address: netip.MustParseAddr("127.101.0.1"), Port: r.port,
		Hosts: []router.Host{{Name: "lb", Address: netip.MustParseAddr("127.101.0.2"), ASN: 65010}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.router.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.client = control.NewClient(filepath.Join(r.dir, "s"))
	return r
}

func (r *rig) file() string { return filepath.Join(r.dir, "rhid.yaml") }

// write writes a configuration with the given services.
func (r *rig) write(services ...string) {
	r.t.Helper()
	text := fmt.Sprintf(`
control: {socket: %s/s}
bgp: {asn: 65010, port: -1, hold: 3s}
vip: {bind: never}
stop: {drain_time: 4s, timeout: 15s}
nodes:
  - {name: lb, address: 127.101.0.2, routers: [{name: tor, address: 127.101.0.1, asn: 65000, port: %d, source: 127.101.0.2, multihop: 2}]}
checks:
  echo: {type: tcp, interval: 200ms, timeout: 150ms, fall: 2, rise: 2}
services:
  %s
`, r.dir, r.port, strings.Join(services, "\n  "))
	if err := os.WriteFile(r.file(), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) start() {
	r.t.Helper()
	r.daemon = spawn(r.t, r.file(), "lb")
}

// routes waits until the neighbour has exactly the wanted VIPs, with their
// attributes where given after a blank.
func (r *rig) routes(want ...string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	var got []string
	for {
		paths, err := r.router.Paths(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		got = nil
		for i, p := range paths {
			line := p.Prefix.String()
			if i < len(want) && strings.Contains(want[i], " ") {
				line += " " + p.Attributes()
			}
			got = append(got, line)
		}
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-r.router.Changes():
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			r.t.Fatalf("the neighbour has %q, want %q", got, want)
		}
	}
}

// exportable waits until GoBGP's filter lets exactly these VIPs out.
func (r *rig) exportable(want ...string) {
	r.t.Helper()
	for began := time.Now(); ; <-time.After(tick / 5) {
		var got []string
		for _, p := range r.status().Exportable {
			got = append(got, p.String())
		}
		if slices.Equal(got, want) {
			return
		}
		if time.Since(began) > limit {
			r.t.Fatalf("the export filter lets out %q, want %q", got, want)
		}
	}
}

// event waits for an event and returns it.
func (r *rig) event(kind, what string) control.Event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	var since uint64
	for {
		evs, err := r.client.Events(ctx, since, time.Second)
		if ctx.Err() != nil {
			r.t.Fatalf("no event %s %s: %v", kind, what, err)
		}
		for _, e := range evs {
			since = e.Seq
			if e.Kind == kind && e.What == what {
				return e
			}
		}
	}
}

func (r *rig) status() control.Status {
	r.t.Helper()
	s, err := r.client.Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// listen serves TCP on addr ("" is a free port) until closed.
func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	if addr == "" {
		addr = "127.101.0.3:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close() //nolint:errcheck,gosec // a test server
		}
	}()
	t.Cleanup(func() { l.Close() }) //nolint:errcheck,gosec // may be closed already
	return l
}

func svc(name, vip string, servers ...string) string {
	return fmt.Sprintf("- {name: %s, vips: [%s], check: echo, servers: {addresses: [%s]}}", name, vip, `"`+strings.Join(servers, `", "`)+`"`)
}

const (
	vipA = "10.255.0.10/32"
	vipB = "10.255.0.20/32"
)

func TestAnnounceWithdrawStop(t *testing.T) {
	r := newRig(t)
	a, b := listen(t, ""), listen(t, "")
	r.write(svc("a", vipA, a.Addr().String()), svc("b", vipB, b.Addr().String()))
	r.start()
	r.routes(vipA+" MED 100, AS path 65010, 65010:1:0", vipB)
	a.Close() //nolint:errcheck,gosec // it is a test server
	r.routes(vipB)
	r.until("it tells why", func(s control.Status) bool { // the newest probe may have come too late on a busy machine
		return s.Services[0].Verdict.String() == "withdraw" && strings.Contains(s.Services[0].Reason.Evidence, "refused")
	})
	if e, err := r.client.Explain(t.Context(), "a"); err != nil || e.Service.Verdict.String() != "withdraw" {
		t.Errorf("explain: %+v, %v", e.Service, err)
	}
	listen(t, a.Addr().String())
	r.routes(vipA, vipB)
	r.daemon.signal(syscall.SIGTERM)
	r.routes(vipA+" MED 200, AS path 65010 65010, GRACEFUL_SHUTDOWN, 65010:1:1", vipB)
	r.routes()
	r.daemon.ended()
}

// A second request to stop skips the drain.
func TestStopTwice(t *testing.T) {
	r := newRig(t)
	a := listen(t, "")
	r.write(svc("a", vipA, a.Addr().String()))
	r.start()
	r.routes(vipA)
	began := time.Now()
	r.daemon.signal(syscall.SIGTERM)
	r.event("daemon", "draining")
	r.daemon.signal(syscall.SIGTERM)
	r.routes()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("withdrawn after %s, the drain lasts 4 s", d)
	}
}

func TestReload(t *testing.T) {
	r := newRig(t)
	a, b := listen(t, ""), listen(t, "")
	dead := "127.101.0.3:1"
	r.write(svc("a", vipA, a.Addr().String()), svc("down", vipB, dead))
	r.start()
	r.routes(vipA)
	r.event("daemon", "ready")
	r.until("nothing is left to be found out", func(s control.Status) bool { return s.Services[1].Readiness.String() == "down" })
	before := r.status()
	r.exportable(vipA, vipB)

	// What is wrong changes nothing, and is told.
	if err := os.WriteFile(r.file(), []byte("services: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "rhid.yaml:1:") {
		t.Errorf("a broken file: %v", err)
	}
	if s := r.status(); s.Config.Digest != before.Config.Digest || s.Config.LastError == "" {
		t.Errorf("a refused reload: %+v", s.Config)
	}
	r.routes(vipA)

	// A withdrawn VIP stays withdrawn, a removed one goes, a new one comes,
	// and the session is the same.
	third := "10.255.0.30/32"
	r.write(svc("down", vipB, dead), svc("c", third, b.Addr().String()))
	r.daemon.signal(syscall.SIGHUP)
	r.routes(third)
	r.exportable(vipB, third)
	r.routes(third)
	after := r.status()
	if after.Config.LastError != "" || after.Config.Digest == before.Config.Digest {
		t.Errorf("after the reload: %+v", after.Config)
	}
	if !after.Neighbours[0].Established || !after.Neighbours[0].Since.Equal(before.Neighbours[0].Since) {
		t.Errorf("the session was touched: %+v, before %+v", after.Neighbours[0], before.Neighbours[0])
	}
	for _, s := range after.Services {
		if s.Name == "down" && !s.Since.Equal(before.Services[1].Since) {
			t.Errorf("the verdict of a service that did not change is new: %+v", s)
		}
	}
}

// A reload that needs a restart is refused as a whole.
func TestReloadNeedsRestart(t *testing.T) {
	r := newRig(t)
	a := listen(t, "")
	r.write(svc("a", vipA, a.Addr().String()))
	r.start()
	r.routes(vipA)
	b, err := os.ReadFile(r.file())
	if err != nil {
		t.Fatal(err)
	}
	for old, now := range map[string]string{"asn: 65010": "asn: 65011", "port: -1": "port: 1790", "/s}": "/t}"} {
		text := strings.Replace(strings.Replace(string(b), old, now, 1), vipA, vipB, 1)
		if err := os.WriteFile(r.file(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.client.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "restart the daemon") {
			t.Errorf("%s to %s: %v", old, now, err)
		}
	}
	r.routes(vipA)
}
