// Package demo shows rhid at work on one machine, without root and without
// routers: rhid daemons as child processes, business servers, and a BGP branch
// router in this process, all on loopback addresses. What it prints was seen
// at the router.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	atmVIP = "10.255.0.10/32"
	posVIP = "10.255.0.20/32"
	limit  = 15 * time.Second // of one step
)

// demo is a running demonstration.
type demo struct {
	opts  Options
	dir   string
	watch *watcher
	host  *host
	atm   []*backend
	pos   *backend
	table []line
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
	d := &demo{opts: opts, dir: dir}
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
	for range 2 {
		b, err := newBackend(ctx)
		if err != nil {
			return err
		}
		d.atm = append(d.atm, b)
	}
	var err error
	if d.pos, err = newBackend(ctx); err != nil {
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	r, err := router.Start(ctx, router.Settings{
		ASN: 65000, Address: netip.MustParseAddr("127.100.0.1"), Port: port,
		Hosts: []router.Host{{Name: "lb-1", Address: netip.MustParseAddr("127.100.0.11"), ASN: 65010}},
	})
	if err != nil {
		return err
	}
	d.watch = newWatcher(r, d.opts.Out)
	file := filepath.Join(d.dir, "rhid.yaml")
	if err := os.WriteFile(file, []byte(d.config(port)), 0o600); err != nil {
		return fmt.Errorf("writing the demo's configuration: %w", err)
	}
	d.host = &host{exe: d.opts.Exe, name: "lb-1", file: file, dir: d.dir}
	d.say("Branch router AS 65000 on 127.100.0.1:%d, rhid host lb-1 AS 65010 on 127.100.0.11.", port)
	d.say("Service atm: VIP %s, servers %s and %s, one must be healthy.", atmVIP, d.atm[0].addr, d.atm[1].addr)
	d.say("Service pos: VIP %s, server %s.", posVIP, d.pos.addr)
	d.say("A line with +, ~ or - is a path that the router got, got anew, or lost.\n")
	return nil
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.100.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	return port, nil
}

// config keeps the VIPs off the host (bind: never), because that needs root.
func (d *demo) config(port int) string {
	return fmt.Sprintf(`
control: {socket: %s}
bgp: {asn: 65010, port: -1, hold: 3s}
vip: {bind: never}
stop: {drain_time: 1s, timeout: 5s}
nodes:
  - name: lb-1
    address: 127.100.0.11
    routers: [{name: branch, address: 127.100.0.1, asn: 65000, port: %d, source: 127.100.0.11, multihop: 2}]
checks:
  web: {type: http, path: /health, interval: 250ms, timeout: 200ms, fall: 2, rise: 2}
services:
  - {name: atm, vips: [%s], check: web, servers: {addresses: ["%s", "%s"], min_healthy: 1}}
  - {name: pos, vips: [%s], check: web, servers: {addresses: ["%s"]}}
`, filepath.Join(d.dir, "rhid.sock"), port, atmVIP, d.atm[0].addr, d.atm[1].addr, posVIP, d.pos.addr)
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.opts.Out, format+"\n", args...) }

// cleanup ends everything; after a failure it shows what the daemon said.
func (d *demo) cleanup(failed error) error {
	var errs []error
	if d.host != nil {
		errs = append(errs, d.host.end(syscall.SIGTERM, limit))
		if failed != nil && !errors.Is(failed, context.Canceled) {
			if b, err := os.ReadFile(d.host.log()); err == nil {
				d.say("\nlog of %s:\n%s", d.host.name, b)
			}
		}
	}
	if d.watch != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		errs = append(errs, d.watch.router.Stop(ctx))
	}
	for _, b := range append(d.atm, d.pos) {
		if b != nil {
			errs = append(errs, b.close())
		}
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
