//go:build integration

package bgp

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/announce"
	"rhid/internal/lab"
)

// fullTable is how many prefixes BIRD sends, as if somebody had forgotten its
// export filter.
const fullTable = 200_000

const (
	// shortestHold is what no withdraw may take, even while GoBGP drops all that
	// it took: with the shortest hold time a router would have noticed by itself.
	shortestHold = 3 * time.Second
	// attempts are made at a steady measurement: something else on the machine
	// may spoil one, but what spoils all of them is rhid.
	attempts = 5
)

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
	heap, peak    uint64 // bytes: at the end, and the most meanwhile, garbage included
	p50, p99, max time.Duration
	n             int
}

func (c cost) String() string {
	return fmt.Sprintf("heap %.1f MB (peak %.1f), %d withdraws: p50 %v p99 %v max %v", float64(c.heap)/1e6, float64(c.peak)/1e6,
		c.n, c.p50.Round(time.Microsecond), c.p99.Round(time.Microsecond), c.max.Round(time.Microsecond))
}

// measure announces and withdraws a VIP again and again until done, and times
// how long the withdraw takes to arrive at r. The pauses spread the withdraws
// over all that the process does meanwhile.
func (b *bench) measure(r *router, done func() bool) cost {
	b.t.Helper()
	var c cost
	var took []time.Duration
	runtime.GC()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for began := time.Now(); !done(); {
		if time.Since(began) > 3*time.Minute {
			b.t.Fatalf("still waiting: %+v", b.Neighbours())
		}
		if len(took)%100 == 0 {
			r.keepalive() // a measurement may last longer than the hold time
		}
		b.put(vip4, announce.Attrs{Metric: 100})
		r.update()
		time.Sleep(3 * time.Millisecond)
		at := time.Now()
		b.remove(vip4)
		r.update()
		took = append(took, time.Since(at))
		metrics.Read(heap)
		c.peak = max(c.peak, heap[0].Value.Uint64())
	}
	slices.Sort(took)
	c.n, c.p50, c.p99, c.max = len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	debug.FreeOSMemory()
	metrics.Read(heap)
	c.heap = heap[0].Value.Uint64()
	return c
}

// times ends a measurement after n withdraws.
func times(n int) func() bool { return func() bool { n--; return n < 0 } }

// A neighbour that sends a whole table: what it costs is bounded by the limit
// of prefixes, and nobody else waits longer for a withdraw, neither while the
// table arrives nor after that.
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
	alone := b.measure(r, times(500))
	t.Logf("%-28s %v", "without it:", alone)

	within := func(what string, c cost, megabytes float64) (misses []string) {
		t.Helper()
		more := (float64(c.heap) - float64(alone.heap)) / 1e6
		t.Logf("%-28s %v: %.1f MB more, withdraw p50 × %.2f, p99 × %.2f", what+":", c, more, ratio(c.p50, alone.p50), ratio(c.p99, alone.p99))
		if c.max > shortestHold {
			misses = append(misses, fmt.Sprintf("%s: a withdraw took %v", what, c.max))
		}
		if more > megabytes {
			misses = append(misses, fmt.Sprintf("%s: %.1f MB more than without it, at most %.0f are right", what, more, megabytes))
		}
		return misses
	}
	steady := func(what string, megabytes float64) {
		t.Helper()
		p50, p99 := 3*alone.p50+time.Millisecond, 3*alone.p99+5*time.Millisecond
		for range attempts {
			c := b.measure(r, times(500))
			if len(within(what, c, megabytes)) == 0 && c.p50 <= p50 && c.p99 <= p99 {
				return
			}
		}
		t.Errorf("%s: more than %.0f MB, or withdraws take longer than p50 %v, p99 %v", what, megabytes, p50, p99)
	}

	quiet := st
	noisy := routerNeighbours()[0]
	noisy.Hold, noisy.Keepalive, noisy.IPv6 = 60*time.Second, 20*time.Second, false
	flood := func(what string, megabytes float64, done func() bool) {
		t.Helper()
		st.Neighbours = []Neighbour{r.neighbour(), noisy}
		lab.Steady(t, still, func() []string {
			for _, set := range []Settings{quiet, st} { // the session begins anew
				if err := b.Configure(t.Context(), set); err != nil {
					t.Fatal(err)
				}
			}
			return within(what, b.measure(r, done), megabytes)
		})
	}
	// The end comes in GoBGP's books before the last of what it read is let go.
	flood("default limit, until cut off", 200, func() bool { return b.cutOff(noisy) })
	t.Log(b.Neighbours()[1].LastDown.Text)
	steady("after that", 10)

	noisy.MaxPrefixes = fullTable + 1
	flood("limit lifted, while it comes", 100, func() bool { return b.Neighbours()[1].Received == fullTable })
	steady("all taken", 100)
	if got := len(b.Overlaps()) + len(b.Sightings()); got != 0 {
		t.Errorf("%d of them are kept", got)
	}
}

// cutOff says whether GoBGP has nothing of a neighbour any more that sent too
// much.
func (b *bench) cutOff(c Neighbour) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.byKey[c.Address.String()]
	return n.ended != nil && n.ended.Kind == DownPrefixes && !n.deaf && !n.established()
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
