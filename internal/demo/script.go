package demo

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// step is one cause and what the router must see of it.
type step struct {
	what string
	do   func() error
	seen string
	want holders
}

// holders are who announces the four services, best first: "atm" → "a1".
type holders map[string]string

func bound(change ...string) holders {
	h := holders{"atm": "a1", "pos": "a2", "counter": "b1", "esign": "b2"}
	for i := 0; i < len(change); i += 2 {
		h[change[i]] = change[i+1]
	}
	return h
}

func everyone() holders {
	h := holders{}
	for _, b := range businesses() {
		h[b.name] = "a1 a2 b1 b2"
	}
	return h
}

// script goes through the life of the cluster.
func (d *demo) script(ctx context.Context) error {
	steps := []step{
		{"all four hosts are started, announcers: all", d.start("a1", "a2", "b1", "b2"), "16 routes: plain anycast", everyone()},
		{"announcers: 1 (SIGHUP)", d.bind, "4 routes: each service at its main host", bound()},
		{"the atm server at a1 answers 503", d.sick("atm@a1", true), "atm at a2", bound("atm", "a2")},
		{"it is well again", d.sick("atm@a1", false), "atm back at a1, after failback.delay", bound()},
		{"host a1 is killed (kill -9)", d.kill("a1"), "atm at a2", bound("atm", "a2")},
		{"a1 is started again", d.start("a1"), "atm back at a1", bound()},
		{"data centre beijing fails: a1 and a2 are killed", d.kill("a1", "a2"), "atm and pos in shanghai", bound("atm", "b1", "pos", "b2")},
		{"beijing is back", d.start("a1", "a2"), "atm and pos back in beijing", bound()},
		{"b2 is asked to stop (SIGTERM)", d.stop("b2"), "esign at b1, before b2 withdraws", bound("esign", "b1")},
		{"b2 is started again", d.start("b2"), "esign back at b2", bound()},
	}
	for _, s := range steps {
		if err := d.play(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) play(ctx context.Context, s step) error {
	d.say("%s", s.what)
	start := time.Now()
	if err := s.do(); err != nil {
		return err
	}
	at, err := d.watch.wait(ctx, s.seen, limit, s.want.hold)
	if err != nil {
		return fmt.Errorf("%s: %w", s.what, err)
	}
	d.table = append(d.table, line{start.Sub(d.watch.start), at.Sub(start), s.what, s.seen})
	return d.reap()
}

// hold says whether exactly the wanted hosts announce.
func (h holders) hold(rows map[string]string) bool {
	for _, b := range businesses() {
		if from(rows, b.vip) != h[b.name] {
			return false
		}
	}
	return true
}

func (d *demo) start(names ...string) func() error {
	return func() error {
		for _, n := range names {
			if err := d.hosts[n].start(); err != nil {
				return err
			}
		}
		return nil
	}
}

// bind lets every service be announced by one host only.
func (d *demo) bind() error {
	if err := d.configure("1"); err != nil {
		return err
	}
	for _, p := range places() {
		if err := d.hosts[p.name].signal(syscall.SIGHUP); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) sick(where string, sick bool) func() error {
	return func() error { d.backends[where].sick.Store(sick); return nil }
}

func (d *demo) kill(names ...string) func() error {
	return func() error {
		for _, n := range names {
			if err := d.hosts[n].end(syscall.SIGKILL, limit); err != nil {
				return err
			}
		}
		return nil
	}
}

func (d *demo) stop(name string) func() error {
	return func() error { return d.hosts[name].signal(syscall.SIGTERM) }
}

// reap waits for hosts that were asked to stop, and complains of others that
// ended by themselves.
func (d *demo) reap() error {
	for _, p := range places() {
		if err := d.hosts[p.name].reap(limit); err != nil {
			return err
		}
	}
	return nil
}

// keep lets the atm server of a1 fail and heal in turn until ctx ends.
func (d *demo) keep(ctx context.Context) error {
	d.say("\nGoing on until Ctrl-C; the atm server at a1 fails for 5 s in every 15 s.")
	const period, sickFor = 15 * time.Second, 5 * time.Second
	for sick := false; ; sick = !sick {
		d.backends["atm@a1"].sick.Store(sick)
		pause := period - sickFor
		if sick {
			pause = sickFor
			d.say("the atm server at a1 answers 503")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		if err := d.reap(); err != nil {
			return err
		}
	}
}
