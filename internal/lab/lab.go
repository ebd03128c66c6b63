package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options change how a topology is started.
type Options struct {
	// Rhid is the rhid binary to bind at /usr/bin/rhid where the topology binds
	// one (see BuildRhid); "" takes the topology's own.
	Rhid string
	// Binds replaces the host's side of binds: from the path in the node to a
	// file or folder of the host. A path that the topology does not bind is
	// bound in every node.
	Binds map[string]string
	// Skip says which exec lines to leave out; nil leaves out none.
	Skip func(node, line string) bool
	// Env is added to the environment of every command.
	Env map[string]string
	// Log receives one line for each step; nil says nothing.
	Log io.Writer
}

// Lab is a running topology.
type Lab struct {
	Topology *Topology

	opts   Options
	tb     testing.TB
	ctx    context.Context
	cancel context.CancelFunc
	nodes  map[string]*Node
	peers  map[endpoint]endpoint
}

// Start builds the topology of a containerlab file for a test and takes it down
// when the test ends. What goes wrong fails the test.
func Start(tb testing.TB, file string, opts Options) *Lab {
	tb.Helper()
	began := time.Now()
	l, err := up(context.Background(), tb, file, opts)
	if err != nil {
		tb.Fatalf("starting the lab: %v", err)
	}
	tb.Logf("lab %s is up after %v", l.Topology.Name, time.Since(began).Round(time.Millisecond))
	tb.Cleanup(func() {
		if tb.Failed() {
			l.dump()
		}
		if err := l.Close(); err != nil {
			tb.Errorf("taking the lab down: %v", err)
		}
	})
	return l
}

// Up builds the topology outside a test; the caller closes the lab.
func Up(ctx context.Context, file string, opts Options) (*Lab, error) {
	return up(ctx, outside{}, file, opts)
}

func up(ctx context.Context, tb testing.TB, file string, opts Options) (*Lab, error) {
	t, err := ReadTopology(file)
	if err != nil {
		return nil, err
	}
	l := &Lab{Topology: t, opts: opts, tb: tb, nodes: map[string]*Node{}, peers: map[endpoint]endpoint{}}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := l.build(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// build makes nodes, then links, then runs what the file says, all nodes at once.
func (l *Lab) build(ctx context.Context) error {
	for _, name := range l.Topology.names() {
		spec := l.Topology.Topology.Nodes[name]
		binds, err := l.binds(spec)
		if err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		n, err := newNode(l, name, spec, binds)
		if err != nil {
			return err
		}
		l.nodes[name] = n
	}
	for _, spec := range l.Topology.Topology.Links {
		if err := l.link(spec); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range l.nodes {
		g.Go(func() error { return n.boot(ctx) })
	}
	return g.Wait()
}

// boot runs the node's cmd and exec lines, in order.
func (n *Node) boot(ctx context.Context) error {
	if n.spec.Cmd != "" {
		argv, err := splitWords(n.spec.Cmd)
		if err != nil {
			return err
		}
		if _, err := n.start("cmd", argv); err != nil {
			return err
		}
	}
	for _, line := range n.spec.Exec {
		if n.lab.opts.Skip != nil && n.lab.opts.Skip(n.Name, line) {
			continue
		}
		argv, err := splitWords(line)
		if err != nil {
			return err
		}
		n.lab.logf("%s: %s", n.Name, line)
		if _, err := n.RunContext(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}

// binds returns the node's binds with the replacements of the options.
func (l *Lab) binds(spec NodeSpec) ([]bind, error) {
	var binds []bind
	replace := joinMaps(nil, l.opts.Binds)
	for _, s := range spec.Binds {
		b, err := parseBind(l.Topology.dir, s)
		if err != nil {
			return nil, err
		}
		if b.target == rhidInNode && l.opts.Rhid != "" {
			b.source = l.opts.Rhid
		}
		if src, ok := replace[b.target]; ok {
			b.source = src
			delete(replace, b.target)
		}
		binds = append(binds, b)
	}
	for target, source := range replace {
		binds = append(binds, bind{source: source, target: target, readOnly: true})
	}
	return binds, nil
}

// Close takes the lab down. Nothing of it is left when it returns.
func (l *Lab) Close() error {
	l.cancel()
	var errs []error
	for _, n := range l.nodes {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}

// Find returns the node with a name, and whether there is one.
func (l *Lab) Find(name string) (*Node, bool) {
	n, ok := l.nodes[name]
	return n, ok
}

// Node returns the node with a name; that there is none fails the test.
func (l *Lab) Node(name string) *Node {
	l.tb.Helper()
	n, ok := l.Find(name)
	if !ok {
		l.tb.Fatalf("lab %s has no node %q", l.Topology.Name, name)
	}
	return n
}

// Nodes returns all nodes, by name.
func (l *Lab) Nodes() []*Node {
	var nodes []*Node
	for _, n := range l.nodes {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// WaitFor asks cond every 10 ms until it is true, and fails the test when it is
// not within limit. It returns how long it took.
func (l *Lab) WaitFor(what string, limit time.Duration, cond func() bool) time.Duration {
	l.tb.Helper()
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Since(began) > limit {
			l.tb.Fatalf("waited %v in vain: %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// outside stands for the test where there is none: what would fail it panics.
type outside struct{ testing.TB }

func (outside) Helper() {}

func (outside) Cleanup(func()) {}

func (outside) Fatalf(format string, a ...any) { panic(fmt.Sprintf("lab: "+format, a...)) }

func (l *Lab) logf(format string, a ...any) {
	if l.opts.Log != nil {
		fmt.Fprintf(l.opts.Log, format+"\n", a...)
	}
}
