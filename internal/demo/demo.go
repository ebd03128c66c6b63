// Package demo shows rhid at work on one machine, without root and without
// routers: a cluster of four rhid daemons in two data centres as child
// processes, business servers, and a BGP branch router in this process, all on
// loopback addresses. What it prints was seen at the router.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"rhid/announce/bgp/router"
)

// Options of a demonstration.
type Options struct {
	Exe  string    // the rhid binary
	Keep bool      // go on after the script, until ctx ends
	Out  io.Writer // what people see
}

const (
	limit      = 2 * time.Minute // of one step, also on a slow machine
	routerAddr = "127.100.0.1"
	routerASN  = 65000
	hostASN    = 65010
)

// place is a host of the demo, with the address it has.
type place struct{ name, site, addr string }

func places() []place {
	return []place{
		{"a1", "beijing", "127.100.0.11"}, {"a2", "beijing", "127.100.0.12"},
		{"b1", "shanghai", "127.100.0.21"}, {"b2", "shanghai", "127.100.0.22"},
	}
}

// business is a service of the demo: its VIP and its takeover order.
type business struct{ name, vip, order string }

func businesses() []business {
	return []business{
		{"atm", "10.255.0.10/32", "a1, a2, b1, b2"},
		{"pos", "10.255.0.20/32", "a2, a1, b2, b1"},
		{"counter", "10.255.0.30/32", "b1, b2, a1, a2"},
		{"esign", "10.255.0.40/32", "b2, b1, a2, a1"},
	}
}

// demo is a running demonstration.
type demo struct {
	opts     Options
	dir      string
	watch    *watcher
	ports    ports
	hosts    map[string]*host
	backends map[string]*backend // by service and host
	table    []line
}

// line is one row of the timeline.
type line struct {
	at, took   time.Duration
	what, seen string
}

// Run shows the script and returns an error when a step did not happen.
func Run(ctx context.Context, opts Options) (err error) {
	dir, err := os.MkdirTemp("", "rhid-demo-")
	if err != nil {
		return fmt.Errorf("making a directory for the demo: %w", err)
	}
	d := &demo{opts: opts, dir: dir, hosts: map[string]*host{}, backends: map[string]*backend{}}
	defer func() { err = errors.Join(err, d.cleanup(err)) }()
	if err := d.build(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := d.watch.run(ctx); err != nil {
			cancel(err)
		}
	}()
	if err := d.script(ctx); err != nil {
		return err
	}
	d.timeline()
	if opts.Keep {
		return d.keep(ctx)
	}
	return nil
}

// build starts the servers and the router, and writes the configuration.
func (d *demo) build(ctx context.Context) error {
	var err error
	if d.ports, err = freePorts(ctx); err != nil {
		return err
	}
	set := router.Settings{ASN: routerASN, Address: netip.MustParseAddr(routerAddr), Port: d.ports.bgp}
	for _, p := range places() {
		set.Hosts = append(set.Hosts, router.Host{Name: p.name, Address: netip.MustParseAddr(p.addr), ASN: hostASN})
		d.hosts[p.name] = &host{exe: d.opts.Exe, name: p.name, file: d.file(p.name), dir: d.dir}
		for _, b := range businesses() {
			srv, err := newBackend(ctx, p.addr, d.ports.service[b.name])
			if err != nil {
				return err
			}
			d.backends[b.name+"@"+p.name] = srv
		}
	}
	r, err := router.Start(ctx, set)
	if err != nil {
		return err
	}
	d.watch = newWatcher(r, d.opts.Out)
	d.say("Branch router AS %d on %s:%d. Four rhid hosts, AS %d, with a web server for each service:", routerASN, routerAddr, d.ports.bgp, hostASN)
	for _, p := range places() {
		d.say("  %s in %-8s %s", p.name, p.site, p.addr)
	}
	d.say("Four services, each bound to one host and taken over in its order:")
	for _, b := range businesses() {
		d.say("  %-8s %-15s %s", b.name, b.vip, b.order)
	}
	d.say("A line with +, ~ or - is a path that the router got, got anew, or lost.\n")
	return d.configure("all")
}

func (d *demo) file(host string) string { return filepath.Join(d.dir, host+".yaml") }

// configure writes the configuration of every host. It is the same for all but
// for the directories, which on real hosts are no part of it. VIPs stay off
// the host (bind: never), because putting them there needs root. Without
// damping a host returns in time, also where a slow machine fails some checks.
func (d *demo) configure(announcers string) error {
	for _, p := range places() {
		text := fmt.Sprintf(`cluster: {name: demo, port: %d, settle_timeout: 2s, state_dir: %s}
control: {socket: %s}
bgp: {asn: %d, port: -1, hold: 3s}
vip: {bind: never}
stop: {drain_time: 1s, timeout: 8s}
sites: [{name: beijing}, {name: shanghai}]
nodes:
`, d.ports.gossip, filepath.Join(d.dir, p.name), filepath.Join(d.dir, p.name+".sock"), hostASN)
		for _, n := range places() {
			text += fmt.Sprintf("  - {name: %s, site: %s, address: %s, routers: [{name: branch, address: %s, asn: %d, port: %d, source: %s, multihop: 2}]}\n",
				n.name, n.site, n.addr, routerAddr, routerASN, d.ports.bgp, n.addr)
		}
		text += "checks:\n  web: {type: http, path: /health, interval: 500ms, timeout: 450ms, fall: 2, rise: 2}\nservices:\n"
		for _, b := range businesses() {
			text += fmt.Sprintf("  - {name: %s, vips: [%s], order: [%s], announcers: %s, failback: {delay: 2s}, damping: {penalty: 0}, check: web, servers: {addresses: [\"self:%d\"]}}\n",
				b.name, b.vip, b.order, announcers, d.ports.service[b.name])
		}
		if err := os.WriteFile(d.file(p.name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing the demo's configuration: %w", err)
		}
	}
	return nil
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.opts.Out, format+"\n", args...) }

// cleanup ends everything; after a failure it shows what the daemons said.
func (d *demo) cleanup(failed error) error {
	var errs []error
	for _, p := range places() {
		if h := d.hosts[p.name]; h != nil {
			errs = append(errs, h.end(syscall.SIGKILL, limit))
			if failed != nil && !errors.Is(failed, context.Canceled) {
				if b, err := os.ReadFile(h.log()); err == nil {
					d.say("\nlog of %s:\n%s", h.name, b)
				}
			}
		}
	}
	if d.watch != nil {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		errs = append(errs, d.watch.router.Stop(ctx))
	}
	for _, b := range d.backends {
		errs = append(errs, b.close())
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}

// timeline prints what was measured.
func (d *demo) timeline() {
	d.say("\nTimeline (times from the cause to the router's table):\n")
	tw := tabwriter.NewWriter(d.opts.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  AT\tWHAT HAPPENED\tWHAT THE ROUTER SAW\tAFTER")
	for _, l := range d.table {
		fmt.Fprintf(tw, "  %.3fs\t%s\t%s\t%.3fs\n", l.at.Seconds(), l.what, l.seen, l.took.Seconds())
	}
	tw.Flush() //nolint:errcheck,gosec // the terminal is gone; nobody is left to tell
}
