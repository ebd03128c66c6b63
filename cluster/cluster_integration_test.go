//go:build integration

package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// These tests run in real time and print what they measured. They need no
// root; traffic stays on the loopback interface.

// patience is how long a test waits for what is to happen: a machine that is busy
// with something else may take a while.
const patience = 2 * time.Minute

type realNode struct {
	*Cluster
	name   string
	cancel context.CancelFunc
	ended  chan error
}

func startReal(t *testing.T, s Settings) *realNode {
	t.Helper()
	c, err := Start(s, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &realNode{c, s.Self, cancel, make(chan error, 1)}
	go func() { n.ended <- c.Run(ctx) }()
	return n
}

func (n *realNode) stop() {
	n.cancel()
	if err := <-n.ended; err != nil {
		panic(err)
	}
}

func waitFor(t *testing.T, d time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > d {
			t.Fatalf("not within %s: %s", d, what)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

func (n *realNode) lives(name string) Liveness {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.liveness(n.peers[name])
}

func (n *realNode) holds(name string) (version, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.current(recordKey{recordState, name})
	if e == nil {
		return version{}, false
	}
	return e.ver, true
}

type figures []time.Duration

func (f figures) String() string {
	if len(f) == 0 {
		return "none"
	}
	s := slices.Sorted(slices.Values(f))
	at := func(p float64) time.Duration { return s[int(float64(len(s)-1)*p)].Round(10 * time.Microsecond) }
	return fmt.Sprintf("n=%d p50=%v p99=%v max=%v", len(s), at(.5), at(.99), at(1))
}

func manyServices(n int) map[string]ServiceState {
	m := map[string]ServiceState{}
	for i := range n {
		m[fmt.Sprintf("service-%03d", i)] = ServiceState{
			Readiness: "ready", Code: "healthy", Evidence: fmt.Sprintf("2 of 2 servers up, 10.9.%d.1:8080 answered in %d ms", i, i%9),
			Announcing: i%4 == 0, Exported: 2, Of: 2, Since: time.Unix(1790000000+int64(i)*37, 0),
		}
	}
	return m
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// spread publishes a change on one node and returns when each other had it.
func spread(t *testing.T, list []*realNode, from *realNode, s State) figures {
	t.Helper()
	began := time.Now()
	if err := from.Publish(s); err != nil {
		t.Fatal(err)
	}
	want, _ := from.holds(from.name)
	var took figures
	left := slices.Clone(list)
	for len(left) > 0 {
		left = slices.DeleteFunc(left, func(n *realNode) bool {
			got, ok := n.holds(from.name)
			if !ok || got.compare(want) < 0 {
				return false
			}
			if n != from {
				took = append(took, time.Since(began))
			}
			return true
		})
		if time.Since(began) > patience {
			t.Fatalf("%d nodes do not have the change", len(left))
		}
		time.Sleep(500 * time.Microsecond)
	}
	return took
}

func TestSimulated64Nodes200Services(t *testing.T) {
	const nodes, services = 64, 200
	mem := newMemnet()
	key, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	configured := nodeList(nodes)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var list []*realNode
	for _, n := range configured {
		s := Settings{Cluster: "sim", Self: n.Name, Nodes: configured, Port: testPort, Keys: [][]byte{key}}
		// Two cores for 64 nodes: with fast they would take each other for dead.
		s.Detection = "lan"
		s.Transport = mem.transport(n.Address, testPort)
		list = append(list, startReal(t, s))
	}
	defer func() {
		var wg sync.WaitGroup
		for _, n := range list {
			wg.Add(1)
			go func() { defer wg.Done(); n.stop() }()
		}
		wg.Wait()
	}()
	for _, n := range list {
		if err := n.Publish(State{Site: "a", Version: "1", Digest: "d", Services: manyServices(services)}); err != nil {
			t.Fatal(err)
		}
	}
	settle := waitFor(t, patience, "all are settled", func() bool {
		return !slices.ContainsFunc(list, func(n *realNode) bool { return n.View().Certainty != Settled })
	})
	full := waitFor(t, patience, "all know all", func() bool {
		for _, n := range list {
			for _, o := range list {
				if _, ok := n.holds(o.name); !ok {
					return false
				}
			}
		}
		return true
	})
	time.Sleep(5 * time.Second)
	runtime.GC()
	runtime.ReadMemStats(&after)
	packets, bytes, cpu, began := mem.packets.Load(), mem.bytes.Load(), cpuTime(), time.Now()
	time.Sleep(time.Duration(rounds(10, 5)) * time.Second)
	d := time.Since(began).Seconds()
	t.Logf("cold start of all: settled after %v, all states everywhere %v later", settle.Round(time.Millisecond), full.Round(time.Millisecond))
	t.Logf("idle, a node sends: %.0f packets/s, %.1f kB/s; CPU of all %d nodes: %.2f cores; heap a node: %.2f MiB",
		float64(mem.packets.Load()-packets)/d/nodes, float64(mem.bytes.Load()-bytes)/d/nodes/1000, nodes,
		(cpuTime()-cpu).Seconds()/d, float64(after.HeapAlloc-before.HeapAlloc)/nodes/(1<<20))

	var each, last figures
	for i := range rounds(60, 20) {
		from := list[rand.IntN(nodes)]
		m := manyServices(services)
		m["service-000"] = ServiceState{Readiness: "down", Code: "check-down", Evidence: fmt.Sprint("round ", i)}
		took := spread(t, list, from, State{Site: "a", Version: "1", Digest: "d", Services: m})
		each, last = append(each, took...), append(last, slices.Max(took))
		time.Sleep(200 * time.Millisecond)
	}
	t.Logf("one change of %d services: each node %v", services, each)
	t.Logf("one change of %d services: last of %d nodes %v", services, nodes-1, last)
	gone := 0
	for _, n := range list {
		for _, v := range n.View().Nodes {
			if v.Liveness != Alive {
				gone++
			}
		}
	}
	t.Logf("live nodes taken for dead at the end: %d", gone)
	if f := slices.Sorted(slices.Values(each)); f[len(f)/2] > time.Second {
		t.Errorf("half of the nodes needed more than a second")
	}
}

// loop is 16 nodes on loopback with real sockets, some of which can be cut.
type loop struct {
	t     *testing.T
	nodes []Node
	key   []byte
	port  int
	dir   string
	cuts  *cuts
	list  []*realNode
}

// cuts says what does not get through: packets one way, streams both ways.
type cuts struct {
	mu sync.RWMutex
	f  func(from, to netip.Addr, stream bool) bool
}

func (c *cuts) set(f func(from, to netip.Addr, stream bool) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f = f
}

func (c *cuts) cut(from netip.Addr, to string, stream bool) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	ap, err := netip.ParseAddrPort(to)
	return err == nil && c.f != nil && (c.f(from, ap.Addr(), stream) || stream && c.f(ap.Addr(), from, stream))
}

type cutTransport struct {
	*netTransport
	me   netip.Addr
	cuts *cuts
}

func (t *cutTransport) WriteTo(b []byte, a string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: a})
}

func (t *cutTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if t.cuts.cut(t.me, a.Addr, false) {
		return time.Now(), nil
	}
	return t.netTransport.WriteToAddress(b, a)
}

func (t *cutTransport) DialTimeout(a string, d time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: a}, d)
}

func (t *cutTransport) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	if t.cuts.cut(t.me, a.Addr, true) {
		select {
		case <-t.ctx.Done():
		case <-time.After(d):
		}
		return nil, os.ErrDeadlineExceeded
	}
	return t.netTransport.DialAddressTimeout(a, d)
}

func newLoop(t *testing.T, n, port int) *loop {
	t.Helper()
	l := &loop{t: t, port: port, dir: t.TempDir(), cuts: &cuts{}}
	var err error
	if l.key, err = GenerateKey(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		site := []string{"a", "b"}[i%2]
		l.nodes = append(l.nodes, Node{fmt.Sprintf("n%02d", i), site, netip.AddrFrom4([4]byte{127, 0, 0, byte(10 + i)})})
	}
	for i := range n {
		l.list = append(l.list, l.start(i))
	}
	t.Cleanup(func() {
		for _, n := range l.list {
			n.stop()
		}
	})
	took := waitFor(t, patience, "all are settled", l.whole)
	t.Logf("%d nodes on loopback: settled after %v", n, took.Round(time.Millisecond))
	return l
}

func (l *loop) start(i int) *realNode {
	l.t.Helper()
	s := Settings{
		Cluster: "loop", Self: l.nodes[i].Name, Nodes: l.nodes, Port: l.port, Keys: [][]byte{l.key},
		Dir: l.dir + "/" + l.nodes[i].Name,
	}
	c := &Cluster{log: slog.New(slog.DiscardHandler)}
	t, err := listen(l.nodes[i].Address, l.port, c.libraryLog())
	if err != nil {
		l.t.Fatal(err)
	}
	s.Transport = &cutTransport{t, l.nodes[i].Address, l.cuts}
	n := startReal(l.t, s)
	if err := n.Publish(State{Site: l.nodes[i].Site, Version: "1", Digest: "d", Services: manyServices(4)}); err != nil {
		l.t.Fatal(err)
	}
	return n
}

// whole says that all see all, with states, and are settled.
func (l *loop) whole() bool {
	for _, n := range l.list {
		if n.View().Certainty != Settled {
			return false
		}
		for _, o := range l.list {
			if o == n {
				continue
			}
			if _, ok := n.holds(o.name); !ok || n.lives(o.name) != Alive {
				return false
			}
		}
	}
	return true
}

// gone returns how long each other node takes to see that one as wanted.
func (l *loop) until(i int, want Liveness) figures {
	began := time.Now()
	var took figures
	left := slices.Clone(l.list)
	left = slices.Delete(left, i, i+1)
	for len(left) > 0 {
		left = slices.DeleteFunc(left, func(n *realNode) bool {
			if n.lives(l.nodes[i].Name) != want {
				return false
			}
			if want == Alive {
				if _, ok := n.holds(l.nodes[i].Name); !ok {
					return false
				}
			}
			took = append(took, time.Since(began))
			return true
		})
		if time.Since(began) > patience {
			l.t.Fatalf("%d nodes do not see %s as %s", len(left), l.nodes[i].Name, want)
		}
		time.Sleep(time.Millisecond)
	}
	return took
}

// rounds is how often a thing is measured: often when RHID_FULL is set, for the
// figures of DESIGN.md, and seldom in CI.
func rounds(full, ci int) int {
	if os.Getenv("RHID_FULL") != "" {
		return full
	}
	return ci
}

func TestLoopback16(t *testing.T) {
	l := newLoop(t, 16, 17950)

	var each, last figures
	bytes := l.list[0].packetLimit()
	for i := range 100 {
		from := l.list[rand.IntN(len(l.list))]
		m := manyServices(4)
		m["service-000"] = ServiceState{Readiness: "down", Evidence: fmt.Sprint("round ", i)}
		took := spread(t, l.list, from, State{Site: "a", Version: "1", Digest: "d", Services: m})
		each, last = append(each, took...), append(last, slices.Max(took))
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("one change (4 services, packet limit %d): each node %v; last %v", bytes, each, last)

	cpu, began := cpuTime(), time.Now()
	gone := 0
	idle := time.Duration(rounds(60, 5)) * time.Second
	for time.Since(began) < idle {
		for _, n := range l.list {
			for _, o := range l.list {
				if n != o && n.lives(o.name) != Alive {
					gone++
				}
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("idle for %s: live nodes seen as dead in %d of about %d looks; CPU of all %.2f cores", idle, gone, int(idle.Seconds())*20*16*15, (cpuTime()-cpu).Seconds()/idle.Seconds())

	var first, death, restart, quick, farewell figures
	for range rounds(20, 5) {
		i := 1 + rand.IntN(15)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		l.list[i].stop()
		took := l.until(i, Dead)
		first, death = append(first, slices.Min(took)), append(death, took...)
		l.list[i] = l.start(i)
		restart = append(restart, l.until(i, Alive)...)
		waitFor(t, patience, "whole again", l.whole)

		l.list[i].stop()
		l.list[i] = l.start(i)
		quick = append(quick, waitFor(t, patience, "whole after a quick restart", l.whole))

		left := make(chan error, 1)
		go func() { left <- l.list[i].Leave(t.Context(), "test") }()
		farewell = append(farewell, l.until(i, Left)...)
		if err := <-left; err != nil { // it is not sure, but all have heard it
			t.Log(err)
		}
		l.list[i].stop()
		l.list[i] = l.start(i)
		waitFor(t, patience, "whole after a farewell", l.whole)
	}
	t.Logf("process death: first observer %v; every observer %v", first, death)
	t.Logf("restart under the same name: every observer %v", restart)
	t.Logf("restart within the detection time: all whole and settled %v", quick)
	t.Logf("graceful leave: every observer %v", farewell)
	// What gossip lost comes with an exchange of all, of which there is one each 5 s.
	if slices.Sort(restart); restart[len(restart)/2] > time.Second || restart[len(restart)-1] > 21*time.Second {
		t.Errorf("a restarted node was back after %v", restart)
	}
}

func TestLoopbackSilence(t *testing.T) {
	l := newLoop(t, 16, 17951)
	var death, healed figures
	for range rounds(10, 3) {
		i := 1 + rand.IntN(15)
		dead := l.nodes[i].Address
		l.cuts.set(func(from, to netip.Addr, _ bool) bool { return from == dead || to == dead })
		death = append(death, l.until(i, Dead)...)
		waitFor(t, patience, "it knows that it is alone", func() bool { return l.list[i].View().Certainty == Isolated })
		l.cuts.set(nil)
		healed = append(healed, waitFor(t, patience, "whole again", l.whole))
	}
	t.Logf("silent host: every observer %v; healed: all whole and settled %v", death, healed)
}

func TestLoopbackPartition(t *testing.T) {
	l := newLoop(t, 16, 17952)
	side := func(a netip.Addr) bool { return a.As4()[3]%2 == 0 }
	// memberlist remembers the dead for 30 s.
	for _, d := range []time.Duration{3 * time.Second, 35 * time.Second} {
		l.cuts.set(func(from, to netip.Addr, _ bool) bool { return side(from) != side(to) })
		apart := waitFor(t, patience, "the sides are apart", func() bool {
			return l.list[0].lives("n01") == Dead && l.list[1].lives("n00") == Dead
		})
		time.Sleep(d)
		if err := l.list[0].SetIntent(Intent{Kind: "freeze", Subject: d.String()}); err != nil {
			t.Fatal(err)
		}
		l.cuts.set(nil)
		took := waitFor(t, patience, "whole, and the intent everywhere", func() bool {
			return l.whole() && !slices.ContainsFunc(l.list, func(n *realNode) bool {
				v := n.View()
				return len(v.Intents) == 0 || v.Intents[len(v.Intents)-1].Subject != d.String()
			})
		})
		t.Logf("two halves cut apart for %v: noticed after %v, healed after %v", d, apart.Round(time.Millisecond), took.Round(time.Millisecond))
	}
}

func TestLoopbackLoss(t *testing.T) {
	l := newLoop(t, 16, 17953)
	a, b := l.nodes[0].Address, l.nodes[1].Address
	side := func(a netip.Addr) bool { return a.As4()[3]%2 == 0 }
	for _, tt := range []struct {
		name string
		f    func(from, to netip.Addr, stream bool) bool
	}{
		{"one way between two nodes", func(from, to netip.Addr, _ bool) bool { return from == a && to == b }},
		{"one way between the halves", func(from, to netip.Addr, stream bool) bool { return !stream && side(from) && !side(to) }},
		{"UDP between the halves", func(from, to netip.Addr, stream bool) bool { return !stream && side(from) != side(to) }},
		{"10 % of all packets", func(_, _ netip.Addr, stream bool) bool { return !stream && rand.IntN(10) == 0 }},
	} {
		l.cuts.set(tt.f)
		gone := 0
		var last figures
		for i := range rounds(50, 10) {
			took := spread(t, l.list, l.list[i%2], State{Site: "a", Digest: "d", Load: i, Services: manyServices(4)})
			last = append(last, slices.Max(took))
			for _, n := range l.list {
				for _, o := range l.list {
					if n != o && n.lives(o.name) != Alive {
						gone++
					}
				}
			}
			time.Sleep(300 * time.Millisecond)
		}
		l.cuts.set(nil)
		t.Logf("loss: %s: live nodes seen as dead in %d of %d looks; a change at the last node %v", tt.name, gone, rounds(50, 10)*16*15, last)
		waitFor(t, patience, "whole again", l.whole)
	}
}
