//go:build integration

package bgp

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/announce"
)

// fullTable is how many prefixes BIRD sends, as if somebody had forgotten its
// export filter.
const fullTable = 200_000

// birdFlood is BIRD with a table of n prefixes and one session.
func birdFlood(n int) string {
	var b strings.Builder
	b.WriteString(`
router id 192.0.2.254;
protocol device { }
protocol bgp near {
  local as 65000; neighbor 192.0.2.1 as 65010; password "s3cret-bank"; ttl security on;
  hold time 60; connect retry time 1; connect delay time 1; error wait time 1, 2;
  ipv4 { import all; export all; };
}
protocol static {
  ipv4;
`)
	for i := range n {
		a := netip.AddrFrom4([4]byte{20, byte(i >> 16), byte(i >> 8), byte(i)})
		fmt.Fprintf(&b, "  route %v/32 blackhole;\n", a)
	}
	b.WriteString("}\n")
	return b.String()
}

// cost is what the process holds, and how long withdraws take.
type cost struct {
	heap     uint64 // bytes in use
	p50, p99 time.Duration
}

func (c cost) String() string {
	return fmt.Sprintf("heap %.1f MB, withdraw p50 %v p99 %v", float64(c.heap)/1e6, c.p50.Round(time.Microsecond), c.p99.Round(time.Microsecond))
}

// measure announces and withdraws a VIP again and again and times how long the
// withdraw takes to arrive at r.
func (b *bench) measure(r *router) cost {
	b.t.Helper()
	var took []time.Duration
	for range 200 {
		b.put(vip4, announce.Attrs{Metric: 100})
		r.update()
		began := time.Now()
		b.remove(vip4)
		r.update()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cost{m.HeapAlloc, took[len(took)/2], took[len(took)*99/100]}
}

// A neighbour that sends a whole table: what it costs is bounded by the limit
// of prefixes, and nobody else waits longer for a withdraw.
func TestFullTable(t *testing.T) {
	if !inside(t) {
		return
	}
	h := newHost(t)
	run(t, "ip", "addr", "add", "127.0.1.1/8", "dev", "lo")
	conf := h.file("bird.conf", birdFlood(fullTable))
	h.daemon("bird", "-f", "-c", conf, "-s", filepath.Join(h.dir, "bird.ctl"), "-P", filepath.Join(h.dir, "bird.pid"))

	r := newRouter(t, "127.0.1.1", routeASN)
	st := routerSettings()
	st.Neighbours = []Neighbour{r.neighbour()}
	b := startWith(t, st)
	b.addr = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 179)
	b.join(r)
	alone := b.measure(r)
	t.Logf("without it:                 %v", alone)

	within := func(what string, c cost, megabytes float64) {
		t.Helper()
		heap := float64(c.heap) - float64(alone.heap)
		t.Logf("%-27s %v: %.1f MB more, withdraw p50 × %.2f, p99 × %.2f", what+":", c, heap/1e6, ratio(c.p50, alone.p50), ratio(c.p99, alone.p99))
		if heap > megabytes*1e6 {
			t.Errorf("%s: %.1f MB more, want %.0f at most", what, heap/1e6, megabytes)
		}
		if c.p50 > 3*alone.p50+time.Millisecond {
			t.Errorf("%s: withdraws take %v, without it %v", what, c.p50, alone.p50)
		}
	}

	noisy := routerNeighbours()[0]
	noisy.Hold, noisy.Keepalive, noisy.IPv6 = 60*time.Second, 20*time.Second, false
	st.Neighbours = append(st.Neighbours, noisy)
	if err := b.Configure(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	wait(t, b, "the session to be ended for too many prefixes", func(st NeighbourStatus) bool {
		return st.LastDown != nil && st.LastDown.Kind == DownPrefixes
	})
	t.Logf("after %v: %s", time.Since(began).Round(time.Millisecond), b.Neighbours()[1].LastDown.Text)
	within("default limit, cut off", b.measure(r), 10)

	noisy.MaxPrefixes = fullTable + 1
	st.Neighbours[1] = noisy
	if err := b.Configure(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	wait(t, b, "all prefixes", func(st NeighbourStatus) bool { return st.Received == fullTable })
	t.Logf("all %d prefixes are there after %v", fullTable, time.Since(began).Round(time.Millisecond))
	within("limit above it, all taken", b.measure(r), 250)
	if got := len(b.Overlaps()) + len(b.Sightings()); got != 0 {
		t.Errorf("%d of them are kept", got)
	}
}

// wait waits longer than other tests: BIRD has much to send.
func wait(t *testing.T, b *bench, what string, ok func(NeighbourStatus) bool) {
	t.Helper()
	for began := time.Now(); !ok(b.Neighbours()[1]); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("waited for %s: %+v", what, b.Neighbours()[1])
		}
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
