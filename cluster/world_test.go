package cluster

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const testPort = 7946

// world is a cluster in memory, in a synctest bubble: time is virtual, and
// passes only when nobody has anything left to do.
type world struct {
	t     *testing.T
	net   *memnet
	nodes []Node
	keys  [][]byte
	log   *slog.Logger
	live  map[string]*member
}

type member struct {
	*Cluster
	w      *world
	name   string
	cancel context.CancelFunc
	ended  chan error
}

func inWorld(t *testing.T, n int, f func(w *world)) {
	t.Helper()
	// With -race, Go 1.26 lets all processors use one context of the race
	// detector for a bubble's timers, and about one run in fifteen ends with a
	// SIGSEGV in it (golang/go#78156). The detector goes by the order of
	// events, not by chance, so one processor finds as much.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		level := slog.LevelError + 8
		if os.Getenv("CLUSTER_TEST_LOG") != "" {
			level = slog.LevelDebug
		}
		w := &world{
			t: t, net: newMemnet(), nodes: nodeList(n), live: map[string]*member{},
			keys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
			log:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
		}
		defer func() {
			for _, m := range w.live {
				m.kill()
			}
			// memberlist's probes under way end by their own timers.
			w.pass(10 * time.Second)
		}()
		f(w)
	})
}

// start starts a node; change, when given, changes its settings.
func (w *world) start(name string, change ...func(*Settings)) *member {
	w.t.Helper()
	s := Settings{Cluster: "test", Self: name, Nodes: slices.Clone(w.nodes), Port: testPort, Keys: w.keys}
	for _, f := range change {
		f(&s)
	}
	if s.Transport == nil {
		s.Transport = w.net.transport(s.self().Address, s.Port)
	}
	c, err := Start(s, w.log.With("at", name))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{c, w, name, cancel, make(chan error, 1)}
	go func() { m.ended <- c.Run(ctx) }()
	w.live[name] = m
	return m
}

func (w *world) startAll(change ...func(*Settings)) []*member {
	w.t.Helper()
	var list []*member
	for _, n := range w.nodes {
		list = append(list, w.start(n.Name, change...))
	}
	return list
}

// kill ends a node without a word.
func (m *member) kill() {
	m.w.t.Helper()
	m.cancel()
	if err := <-m.ended; err != nil {
		m.w.t.Errorf("%s: %v", m.name, err)
	}
	if m.w.live[m.name] == m {
		delete(m.w.live, m.name)
	}
}

func (m *member) see(name string) NodeView {
	v := m.View()
	i := slices.IndexFunc(v.Nodes, func(n NodeView) bool { return n.Name == name })
	if i < 0 {
		m.w.t.Fatalf("%s does not know %s at all", m.name, name)
	}
	return v.Nodes[i]
}

func (m *member) told() string {
	var b strings.Builder
	for _, p := range m.View().Problems {
		b.WriteString(string(p.Code) + " " + p.Node + " " + p.Address + ": " + p.Evidence + "\n")
	}
	return b.String()
}

// pass lets virtual time pass.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// within waits until ok holds and returns how long it took; it fails after d.
func (w *world) within(d time.Duration, what string, ok func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for {
		synctest.Wait()
		if ok() {
			return time.Since(began)
		}
		if time.Since(began) > d {
			for _, m := range w.live {
				v := m.View()
				w.t.Logf("%s: %s", m.name, v.Certainty)
				for _, n := range v.Nodes {
					w.t.Logf("   %s %s synced=%t state=%v sees=%v contact=%q", n.Name, n.Liveness, n.Synced, n.State, n.Sees, n.Contact)
				}
			}
			w.t.Fatalf("not within %s: %s", d, what)
		}
		<-time.After(time.Millisecond)
	}
}

func all(list []*member, ok func(*member) bool) func() bool {
	return func() bool {
		return !slices.ContainsFunc(list, func(m *member) bool { return !ok(m) })
	}
}

// lost is how long it may take until all know something that gossip lost by
// chance: each node exchanges all it knows with another one each 5 s, which may
// have lost it as well.
const lost = 21 * time.Second

func settled(m *member) bool { return m.View().Certainty == Settled }

// ready settles all and publishes a first state of each.
func (w *world) ready(list []*member) {
	w.t.Helper()
	for _, m := range list {
		w.publish(m, 1)
	}
	w.within(3*time.Second+lost, "all are settled and know each other's state", all(list, func(m *member) bool {
		for _, o := range list {
			if v := m.see(o.name); v.State == nil || v.State.Load != 1 {
				return false
			}
		}
		return settled(m)
	}))
}

func (w *world) publish(m *member, load int) {
	w.t.Helper()
	if err := m.Publish(State{Site: "a", Version: "1", Digest: "d", Load: load}); err != nil {
		w.t.Fatal(err)
	}
}
