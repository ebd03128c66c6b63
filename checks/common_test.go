package checks

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fixed are options whose prober says what it is told, by address.
type fixed struct {
	Options
	says map[netip.Addr]Result
}

func (f fixed) Prober(t Target) (Prober, error) {
	return timed(func(context.Context) Result { return f.says[t.Addr] }), nil
}

func TestInvert(t *testing.T) {
	tests := []struct{ res, want Result }{
		{Result{OK: true, Degraded: true, Detail: "connected"}, Result{Cause: CauseAnswer, Detail: "succeeded, which inverted is a failure: connected"}},
		{Result{Cause: CauseRefused, Detail: "connection refused"}, Result{OK: true, Detail: "failed, which inverted is a success: connection refused"}},
		{Result{Cause: CauseInternal, Detail: "no descriptor left"}, Result{Cause: CauseInternal, Detail: "no descriptor left"}},
	}
	for _, tt := range tests {
		p, err := NewProber(fixed{says: map[netip.Addr]Result{{}: tt.res}}, Target{}, Common{Invert: true})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Probe(t.Context())
		if got.OK != tt.want.OK || got.Degraded || got.Cause != tt.want.Cause || got.Detail != tt.want.Detail {
			t.Errorf("%+v became %+v, want %+v", tt.res, got, tt.want)
		}
	}
}

func TestMaintenanceFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance")
	p, err := NewProber(fixed{says: map[netip.Addr]Result{{}: {OK: true, Detail: "fine"}}}, Target{}, Common{MaintenanceFile: file})
	if err != nil {
		t.Fatal(err)
	}
	if res := p.Probe(t.Context()); res.Maintenance || !res.OK {
		t.Errorf("without the file: %+v", res)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := p.Probe(t.Context()); !res.Maintenance || !res.OK || res.Degraded {
		t.Errorf("with the file: %+v", res)
	}
	// A file that could be there and cannot be looked for.
	p, err = NewProber(fixed{says: map[netip.Addr]Result{{}: {OK: true, Detail: "fine"}}}, Target{}, Common{MaintenanceFile: file + "/" + strings.Repeat("x", 300)})
	if err != nil {
		t.Fatal(err)
	}
	if res := p.Probe(t.Context()); res.Maintenance || !res.Degraded || !strings.Contains(res.Detail, "cannot be looked for") {
		t.Errorf("with a file that cannot be looked for: %+v", res)
	}
}

// TestMaintenanceEvents: the beginning and the end of maintenance are events,
// and do not touch the state.
func TestMaintenanceEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(good)
		r := startRunner(t, specOf("a", p))
		<-r.Events()
		since, _ := r.StatusOf("a")
		p.set(func(context.Context) Result { return Result{OK: true, Maintenance: true} })
		if ev := <-r.Events(); !ev.Maintenance || ev.State != Up {
			t.Errorf("%+v", ev)
		}
		p.set(good)
		if ev := <-r.Events(); ev.Maintenance || ev.State != Up {
			t.Errorf("%+v", ev)
		}
		if st, _ := r.StatusOf("a"); !st.Since.Equal(since.Since) {
			t.Errorf("the state is new since %s, before %s", st.Since, since.Since)
		}
	})
}

func TestEveryAddress(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::3")
	fine, refused := Result{OK: true, Detail: "fine"}, Result{Cause: CauseRefused, Detail: "connection refused"}
	tests := []struct {
		name  string
		least Quorum
		says  map[netip.Addr]Result
		want  Result
	}{
		{"all answer", Quorum{Percent: 100}, map[netip.Addr]Result{a: fine, b: fine, c: fine},
			Result{OK: true, Detail: "3 of 3 addresses of web answered as they should, 3 must"}},
		{"one does not", Quorum{Percent: 100}, map[netip.Addr]Result{a: fine, b: refused, c: fine},
			Result{Cause: CauseRefused, Detail: "2 of 3 addresses of web answered as they should, 3 must; 10.0.0.2: connection refused"}},
		{"two suffice", Quorum{N: 2}, map[netip.Addr]Result{a: fine, b: refused, c: fine},
			Result{OK: true, Degraded: true, Detail: "2 of 3 addresses of web answered as they should, 2 must; 10.0.0.2: connection refused"}},
		{"one is alone", Quorum{Percent: 100}, map[netip.Addr]Result{c: refused},
			Result{Cause: CauseRefused, Detail: "fd00::3 is the only address of web; connection refused"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &everyAddress{aim: &aim{host: "web"}, options: fixed{says: tt.says}, min: tt.least}
			var addrs []netip.Addr
			for _, x := range []netip.Addr{a, b, c} {
				if _, there := tt.says[x]; there {
					addrs = append(addrs, x)
				}
			}
			if err := e.follow(addrs); err != nil {
				t.Fatal(err)
			}
			got := e.join(addrs, e.probeAll(t.Context(), addrs))
			if got.OK != tt.want.OK || got.Degraded != tt.want.Degraded || got.Cause != tt.want.Cause || got.Detail != tt.want.Detail {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestResolveAll asks a name that every host knows, with all that lies between.
func TestResolveAll(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to := targetOf(l.Addr().(*net.TCPAddr).AddrPort(), probeLimit)
	to.Host, to.Source = "localhost", netip.MustParseAddr("127.0.0.1")
	p, err := NewProber(&TCPOptions{}, to, Common{ResolveAll: true})
	if err != nil {
		t.Fatal(err)
	}
	if res := p.Probe(t.Context()); !res.OK || !strings.Contains(res.Detail, "127.0.0.1") {
		t.Errorf("%+v", res)
	}
	to.Addr = netip.MustParseAddr("127.0.0.9") // where nobody listens
	if p, err = NewProber(&TCPOptions{}, to, Common{}); err != nil {
		t.Fatal(err)
	}
	if res := p.Probe(t.Context()); res.Cause != CauseRefused {
		t.Errorf("with a fixed address: %+v", res)
	}
}

// panics is a prober with a fault.
type panics struct{ Options }

func (panics) Prober(Target) (Prober, error) {
	return timed(func(context.Context) Result { panic("a fault") }), nil
}

// TestFaultsOfOneProbe: a panic in a goroutine of a probe ends neither the
// process nor the test.
func TestFaultsOfOneProbe(t *testing.T) {
	e := &everyAddress{aim: &aim{host: "web"}, options: panics{}}
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	if err := e.follow(addrs); err != nil {
		t.Fatal(err)
	}
	res := ProbeOnce(t.Context(), timed(func(ctx context.Context) Result { return e.join(addrs, e.probeAll(ctx, addrs)) }), time.Second)
	if res.Cause != CauseInternal || !strings.Contains(res.Detail, "a fault") {
		t.Errorf("%+v", res)
	}
}

// TestProbeOnce: it returns at the timeout, whatever the probe does.
func TestProbeOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := time.Now()
		wait := make(chan struct{})
		res := ProbeOnce(t.Context(), timed(func(context.Context) Result { <-wait; return Result{OK: true} }), time.Second)
		if res.OK || res.Cause != CauseTimeout || time.Since(began) > 1200*time.Millisecond {
			t.Errorf("after %s: %+v", time.Since(began), res)
		}
		close(wait)
	})
}

// TestJitter: probes start within the jitter after their slots, and not all at
// the same distance.
func TestJitter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newScript(good)
		s := specOf("a", p)
		s.Timing.Jitter, s.Timing.Timeout = 300*time.Millisecond, 500*time.Millisecond
		startRunner(t, s)
		elapse(100 * time.Second)
		slot := offset("a", time.Second) + slotGrain
		distances := map[time.Duration]bool{}
		for _, at := range p.times() {
			d := (at - slot) % time.Second
			if d = (d + time.Second) % time.Second; d > 300*time.Millisecond {
				t.Errorf("a probe at %s, %s after its slot", at, d)
			}
			distances[d] = true
		}
		if n := len(p.times()); n < 98 || n > 101 || len(distances) < 50 {
			t.Errorf("%d probes in 100 s at %d distances", n, len(distances))
		}
	})
}

// TestDeviceAndMark: what this host cannot do is said so.
func TestDeviceAndMark(t *testing.T) {
	for _, o := range []Options{&TCPOptions{}, &HTTPOptions{}, &ICMPOptions{}, &UDPOptions{Send: "x"}} {
		p, err := o.Prober(Target{Host: "127.0.0.1", Port: 9, Device: "no-such-if", Limit: probeLimit})
		if err != nil {
			t.Fatal(err)
		}
		res := probeWithin(t, p, probeLimit)
		if res.Cause != CauseInternal || res.Detail != "interface no-such-if is not on this host" {
			t.Errorf("%T: %s: %s", o, res.Cause, res.Detail)
		}
	}
}
