// Package daemon is rhid at run time: one goroutine that owns all state, the
// backends and checks around it, and the order in which they start and stop.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"rhid/announce"
	"rhid/announce/bfd"
	"rhid/announce/bgp"
	"rhid/announce/kernel"
	"rhid/checks"
	"rhid/cluster"
	"rhid/internal/config"
	"rhid/internal/control"
)

// Options are what a daemon is started with.
type Options struct {
	File    string // the configuration
	Node    string // the node's name in it
	Version string
	Log     *slog.Logger
	Stop    <-chan struct{} // each value asks to stop; the second skips the drain
	Reload  <-chan struct{} // each value asks to read the configuration again
	// Wall is the wall clock that other nodes compare with theirs; nil is
	// time.Now. Nothing is decided by it.
	Wall func() time.Time
	// Guard is the command line of a process that runs kernel.Guard, to which the
	// flags of its settings are added; without one, only the kernel itself takes
	// routes out when the lease lapses.
	Guard []string
}

// Daemon is one running daemon.
type Daemon struct {
	opts      Options
	log       *slog.Logger
	journal   *journal
	notify    *notifier
	runner    *checks.Runner
	announcer *announce.Announcer
	speaker   *bgp.Speaker // nil without BGP
	bfd       *bfd.Speaker // nil without BGP
	pulse     *pulse       // what BFD vouches for
	world     *kernel.World
	cluster   *cluster.Cluster // nil with a single node
	endpoint  *endpoint        // nil without one
	loop      *loop
	turns     atomic.Uint64                       // of the loop
	reported  atomic.Pointer[map[string][]string] // see model.reportChecks; of the model in force
	stopBy    time.Time                           // when the end must be over; set by the loop
}

// Run loads the configuration and runs until asked to stop, with everything
// withdrawn as far as stop.timeout allows, or until something fails for good.
// When ctx ends it stops at once, without withdrawing.
func Run(ctx context.Context, opts Options) error {
	cfg, err := config.Load(opts.File)
	if err != nil {
		return err
	}
	m, err := newModel(cfg, opts.Node, nil)
	if err != nil {
		return err
	}
	d := &Daemon{opts: opts, log: opts.Log, journal: newJournal(opts.Log), notify: newNotifier(opts.Log)}
	d.pulse = &pulse{moved: d.alive()}
	closers := &teardown{log: opts.Log}
	err = d.start(ctx, m, closers)
	if err == nil {
		err = d.serve(ctx, m, closers)
	}
	return errors.Join(err, closers.run())
}

// start opens what can fail, before anything is announced.
func (d *Daemon) start(ctx context.Context, m *model, closers *teardown) error {
	world, err := kernel.Open(m.kernel, d.log)
	if err != nil {
		return fmt.Errorf("opening the kernel's routing tables: %w", err)
	}
	d.world = world
	closers.add("kernel", func(context.Context) error { return world.Close() })
	targets := []announce.Target{world.Routes()}
	if m.bgp != nil {
		closers.add("bfd", d.stopBFD) // after BGP: the other neighbours' sessions must stand while one takes its time
		s, err := bgp.Start(ctx, *m.bgp, d.log)
		if err != nil {
			return fmt.Errorf("starting the BGP speaker: %w", err)
		}
		d.speaker = s
		targets = append(targets, s)
		closers.add("bgp", func(ctx context.Context) error { return s.Stop(ctx, "rhid stopped on "+m.self.Name) })
		closers.add("bfd, from now on only as long as BGP", d.endBFD)
	}
	if len(m.nodes) > 1 {
		if err := d.join(m); err != nil {
			return err
		}
	}
	d.announcer = announce.New(world.Addresses(), targets, announce.DefaultPace(), d.log)
	d.runner = checks.NewRunner(d.log, checks.RunnerOptions{Sessions: d.session})
	if err := d.runner.Update(m.specs); err != nil {
		return fmt.Errorf("setting up the checks: %w", err)
	}
	d.endpoint = newEndpoint(m, d.log)
	d.loop = newLoop(d, m)
	if d.speaker == nil {
		return nil
	}
	return d.startBFD(m)
}

// join enters the cluster. Nothing is published before the first decision.
func (d *Daemon) join(m *model) error {
	set, err := clusterSettings(m)
	if err != nil {
		return err
	}
	set.Wall = d.opts.Wall
	set.Answer = d.answer
	c, err := cluster.Start(set, d.log)
	if err != nil {
		return fmt.Errorf("joining the cluster: %w", err)
	}
	d.cluster = c
	return nil
}

// leave says farewell to the other nodes once everything is withdrawn.
func (d *Daemon) leave(ctx context.Context) {
	if d.cluster == nil || d.stopBy.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := d.cluster.Leave(ctx, "stopped"); err != nil {
		d.log.Warn("nobody may have heard the farewell", "error", err)
	}
}

// serve runs every task; the first that fails ends all.
func (d *Daemon) serve(ctx context.Context, m *model, closers *teardown) error {
	l, err := control.Listen(m.cfg.Control.Socket, m.cfg.Control.Group)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	task := func(name string, f func(context.Context) error) {
		g.Go(func() error {
			if err := f(ctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	task("control", func(ctx context.Context) error { return control.Serve(ctx, l, d, d.log) })
	if d.endpoint != nil {
		task("reports", func(ctx context.Context) error { return d.endpoint.serve(ctx, d) })
	}
	task("kernel", d.world.Run)
	task("lease", func(ctx context.Context) error { return d.keepLease(ctx, m.kernel) })
	task("announcer", d.announcer.Run)
	task("checks", d.runner.Run)
	if d.speaker != nil {
		task("bgp", d.speaker.Run)
	}
	if d.cluster != nil {
		task("cluster", d.cluster.Run)
	}
	if d.speaker != nil {
		task("routers", func(ctx context.Context) error { return d.findRouters(ctx, m.interfaces()) })
	}
	task("loop", func(ctx context.Context) error {
		defer cancel()
		defer d.leave(ctx)
		return d.loop.run(ctx, d.opts.Stop, d.opts.Reload)
	})
	d.log.Info("started", "node", m.self.Name, "version", d.opts.Version, "config", d.opts.File, "services", len(m.services))
	err = g.Wait()
	closers.by = d.stopBy
	return err
}
