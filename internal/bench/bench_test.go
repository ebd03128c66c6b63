//go:build bench

package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rhid/internal/control"
)

const (
	services = 1000
	asn      = 65000
)

// rig is a daemon with its neighbour and business servers.
type rig struct {
	sink    *sink
	client  *control.Client
	cmd     *exec.Cmd
	started time.Time
	servers []*server
}

// server is a TCP server that can be taken away and put back.
type server struct {
	addr string
	l    net.Listener
}

func (s *server) open() error {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.l, s.addr = l, l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return nil
}

func vip(i int) string { return fmt.Sprintf("10.200.%d.%d/32", i/250, i%250+1) }

// build compiles the daemon once for the whole run.
var build = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(os.TempDir(), fmt.Sprintf("rhid-bench-%d", os.Getpid()))
	out, err := exec.Command("go", "build", "-o", bin, "rhid/cmd/rhid").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building rhid: %w: %s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := build(); err == nil {
		os.Remove(bin) //nolint:errcheck // in the temporary directory
	}
	os.Exit(code)
}

// start runs a daemon with n servers; services use them in turn.
func start(t *testing.T, servers int) *rig {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{}
	if r.sink, err = newSink("127.100.1.1:0", asn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.sink.l.Close() })
	for i := range servers {
		s := &server{addr: fmt.Sprintf("127.100.%d.%d:0", 2+i/250, 1+i%250)}
		if err := s.open(); err != nil {
			t.Fatal(err)
		}
		r.servers = append(r.servers, s)
		t.Cleanup(func() { s.l.Close() })
	}
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "rhid.yaml"), filepath.Join(dir, "s")
	var b strings.Builder
	fmt.Fprintf(&b, `control: {socket: %s}
log: {level: warn}
bgp: {asn: 65010, port: -1, hold: 90s}
vip: {bind: never}
stop: {drain_time: 0s, timeout: 5s}
nodes: [{name: lb, address: 127.100.1.2, routers: [{address: 127.100.1.1, asn: %d, port: %d, source: 127.100.1.2, multihop: 2}]}]
checks: {tcp: {type: tcp, interval: 1s, timeout: 500ms, fall: 1, rise: 1}}
services:
`, socket, asn, r.sink.l.Addr().(*net.TCPAddr).Port)
	for i := range services {
		fmt.Fprintf(&b, "  - {name: s%d, vips: [%s], check: tcp, servers: {addresses: [%q]}}\n", i, vip(i), r.servers[i%servers].addr)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r.cmd = exec.Command(bin, "run", "-c", file)
	r.cmd.Stderr, r.cmd.Stdout = os.Stderr, os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.started = time.Now()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		r.cmd.Wait() //nolint:errcheck // killed
	})
	r.client = control.NewClient(socket)
	if _, err := r.sink.wait(services, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	return r
}

// figure prints durations as one line, and fails when the goal is missed.
func figure(t *testing.T, name string, d []time.Duration, goal time.Duration) {
	t.Helper()
	slices.Sort(d)
	p50, p99 := d[len(d)/2], d[len(d)*99/100]
	fmt.Fprintf(os.Stdout, "%-58s n=%-5d p50 %-10s p99 %-10s max %-10s goal %s\n",
		name, len(d), p50.Round(time.Microsecond), p99.Round(time.Microsecond), d[len(d)-1].Round(time.Microsecond), goal)
	if p99 > goal {
		t.Errorf("%s: p99 %s misses the goal of %s", name, p99, goal)
	}
}

// TestStart: how soon after a start are 1,000 routes at the neighbour?
func TestStart(t *testing.T) {
	var afterUp, afterStart []time.Duration
	for range 5 {
		t.Run("run", func(t *testing.T) {
			r := start(t, services)
			at, err := r.sink.wait(services, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			afterUp = append(afterUp, at.Sub(r.sink.up))
			afterStart = append(afterStart, at.Sub(r.started))
		})
	}
	figure(t, "session up -> 1,000 routes at the neighbour", afterUp, 3*time.Second)
	figure(t, "process start -> 1,000 routes at the neighbour", afterStart, 10*time.Second)
}

// TestReaction: from the end of the deciding probe to the UPDATE off the
// neighbour's socket, one service at a time among 1,000.
func TestReaction(t *testing.T) {
	const rounds = 300
	r := start(t, services)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ends := make(chan control.Event, 10000)
	go follow(ctx, r.client, ends)
	perm := rand.Perm(services)[:rounds]
	seen := r.sink.count()
	for _, up := range []bool{false, true} {
		for _, i := range perm {
			if up {
				if err := r.servers[i].open(); err != nil {
					t.Fatal(err)
				}
			} else {
				r.servers[i].l.Close()
			}
			time.Sleep(20 * time.Millisecond)
		}
		want := services
		if !up {
			want -= rounds
		}
		if _, err := r.sink.wait(want, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	cancel()
	var down, back []time.Duration
	decided := map[string]time.Time{}
	for len(ends) > 0 {
		e := <-ends
		decided[e.Subject+e.What] = e.Time
	}
	for _, n := range r.sink.since(seen) {
		i := index(n.prefix.String())
		if n.announced {
			back = append(back, n.at.Sub(decided["tcp@"+r.servers[i].addr+"up"]))
		} else {
			down = append(down, n.at.Sub(decided["tcp@"+r.servers[i].addr+"down"]))
		}
	}
	if len(down) != rounds || len(back) != rounds {
		t.Fatalf("%d withdraws and %d announcements, want %d each", len(down), len(back), rounds)
	}
	figure(t, "end of the deciding probe -> withdraw at the neighbour", down, 5*time.Millisecond)
	figure(t, "end of the deciding probe -> announcement at the neighbour", back, 5*time.Millisecond)
}

func index(prefix string) int {
	var a, b int
	if _, err := fmt.Sscanf(prefix, "10.200.%d.%d/32", &a, &b); err != nil {
		panic(err)
	}
	return a*250 + b - 1
}

func follow(ctx context.Context, c *control.Client, to chan<- control.Event) {
	var since uint64
	for ctx.Err() == nil {
		evs, err := c.Events(ctx, since, 5*time.Second)
		if err != nil {
			continue
		}
		for _, e := range evs {
			since = e.Seq
			if e.Kind == "check" {
				to <- e
			}
		}
	}
}

// TestMassDeath: one server behind 1,000 services dies; from the end of the
// deciding probe to the last withdraw.
func TestMassDeath(t *testing.T) {
	r := start(t, 1)
	var all []time.Duration
	var since uint64
	for range 10 {
		before := r.sink.count()
		r.servers[0].l.Close()
		if _, err := r.sink.wait(0, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		news := r.sink.since(before)
		evs, err := r.client.Events(t.Context(), since, 0)
		if err != nil {
			t.Fatal(err)
		}
		var decided time.Time
		for _, e := range evs {
			since = e.Seq
			if e.Kind == "check" && e.What == "down" {
				decided = e.Time
			}
		}
		all = append(all, news[len(news)-1].at.Sub(decided))
		if err := r.servers[0].open(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.sink.wait(services, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	figure(t, "1,000 services die at once -> last withdraw at the neighbour", all, time.Second)
}

// TestFootprint: CPU and memory of 1,000 TCP checks at 1 s, nothing changing.
func TestFootprint(t *testing.T) {
	r := start(t, services)
	time.Sleep(3 * time.Second)
	const rounds, each = 4, 5 * time.Second
	var share []float64
	for range rounds {
		before, began := cpu(t, r.cmd.Process.Pid), time.Now()
		time.Sleep(each)
		share = append(share, 100*float64(cpu(t, r.cmd.Process.Pid)-before)/float64(time.Since(began)))
	}
	slices.Sort(share)
	rss := peak(t, r.cmd.Process.Pid)
	fmt.Fprintf(os.Stdout, "%-58s p50 %.1f %% of a core, max %.1f %%, goal 15 %%\n", "1,000 TCP checks at 1 s, CPU", share[rounds/2], share[rounds-1])
	fmt.Fprintf(os.Stdout, "%-58s peak %.1f MiB, goal 80 MiB\n", "1,000 TCP checks at 1 s, 1,000 routes, memory", rss)
	if share[rounds/2] > 15 {
		t.Errorf("%.1f %% of a core", share[rounds/2])
	}
	if rss > 80 {
		t.Errorf("%.1f MiB", rss)
	}
}

// cpu returns the CPU time a process used (proc(5): utime and stime, in ticks
// of 10 ms).
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	var ticks int64
	for _, i := range []int{11, 12} {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// peak returns the largest resident set, in MiB.
func peak(t *testing.T, pid int) float64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	var kb float64
	for _, l := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(l, "VmHWM:"); ok {
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kb / 1024
}
