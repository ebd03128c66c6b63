//go:build integration

// Package twodc holds the tests of the cluster on real routers: the two-dc
// scenario, four hosts in two data centres. What it asserts about who serves, it
// reads from the routers, never from rhid.
package twodc

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rhid/internal/lab"
	"rhid/services"
)

const (
	dcFile   = "../../../lab/containerlab/two-dc/two-dc.clab.yml"
	dcConfig = "/tmp/rhid.yaml"
	dcUp     = 40 * time.Second // until a fresh network has learned everything
)

// service is a service of the scenario.
type service struct {
	name  string
	vip   string
	port  int      // HAProxy on the hosts, and on the servers
	order []string // of takeover
}

// dcServices are all of them, as rhid.yaml of the scenario has them.
func dcServices() []service {
	return []service{
		{"atm", "10.255.0.10/32", 9101, []string{"a1", "a2", "b1", "b2"}},
		{"pos", "10.255.0.20/32", 9102, []string{"a2", "a1", "b2", "b1"}},
		{"counter", "10.255.0.30/32", 9103, []string{"b1", "b2", "a1", "a2"}},
		{"esign", "10.255.0.40/32", 9104, []string{"b2", "b1", "a2", "a1"}},
	}
}

// serviceOf finds one by its name.
func serviceOf(name string) service {
	all := dcServices()
	return all[slices.IndexFunc(all, func(s service) bool { return s.name == name })]
}

// addr is where clients find the service.
func (s service) addr() string { return strings.TrimSuffix(s.vip, "/32") + ":" + strconv.Itoa(s.port) }

// dcHosts are the load balancers: where each is plugged into its core, and its
// address there.
func dcHosts() []host {
	return []host{
		{"a1", "core-a", "eth1", "10.1.1.1"}, {"a2", "core-a", "eth2", "10.1.2.1"},
		{"b1", "core-b", "eth1", "10.2.1.1"}, {"b2", "core-b", "eth2", "10.2.2.1"},
	}
}

type host struct{ name, core, iface, addr string }

// hostAt names the host that has an address towards its core; "" is none.
func hostAt(addr string) string {
	for _, h := range dcHosts() {
		if h.addr == addr {
			return h.name
		}
	}
	return ""
}

// dc is the running scenario, and what one test of it uses.
type dc struct {
	*lab.Lab
	t *testing.T
	*daemons
	fib    map[string]*fibJournal  // by service
	wire   map[string]*wireJournal // by service
	pauses *lab.Pauses
}

// daemons are the rhid processes, by host.
type daemons struct {
	mu   sync.Mutex
	proc map[string]*lab.Proc
}

// TestTwoDC builds the network once and runs the scenarios on it one after
// another, each with daemons and a configuration of its own.
func TestTwoDC(t *testing.T) {
	l := lab.Start(t, dcFile, lab.Options{Rhid: lab.BuildRhid(t, false)})
	d := &dc{Lab: l, t: t, daemons: &daemons{proc: map[string]*lab.Proc{}}, pauses: lab.WatchPauses()}
	defer func() {
		t.Logf("the longest time that the machine stood still: %v", d.pauses.Stop().Round(time.Millisecond))
	}()
	d.watchRouters()
	d.waitNetwork()
	scenario := func(name string, f func(*dc)) {
		t.Run(name, func(t *testing.T) {
			sub := *d
			sub.t = t
			defer func() {
				if t.Failed() || d.t.Failed() {
					sub.tell()
				}
				sub.clear()
			}()
			f(&sub)
		})
	}
	scenario("RouteCount", testRouteCount)
	scenario("Death", testDeath)
	scenario("ColdStart", testColdStart)
	scenario("FailbackAuto", testFailbackAuto)
	scenario("PlannedReturn", testPlannedReturn)
	scenario("FailbackManual", testFailbackManual)
	scenario("FailbackNever", testFailbackNever)
	scenario("Flapping", testFlapping)
	scenario("Drain", testDrain)
	scenario("Stop", testStop)
	scenario("Weights", testWeights)
	scenario("AllDown", testAllDown)
	scenario("Brake", testBrake)
	scenario("Stall", testStall)
	scenario("Partition", testPartition)
	scenario("DataCut", testDataCut)
}

// waitNetwork waits until all parts of the network reach each other.
func (d *dc) waitNetwork() {
	d.t.Helper()
	for _, at := range []struct{ node, prefix string }{
		{"core-a", "10.3.1.0/24"}, {"core-a", "10.3.2.0/24"}, {"core-a", "10.9.2.0/24"},
		{"core-b", "10.3.1.0/24"}, {"core-b", "10.3.2.0/24"}, {"core-b", "10.9.1.0/24"},
		{"branch-a", "10.2.2.0/30"}, {"branch-b", "10.1.2.0/30"}, {"branch-b", "10.9.1.0/24"},
	} {
		d.WaitFor(at.prefix+" at "+at.node, dcUp, func() bool { return len(d.Node(at.node).Kernel(at.prefix)) > 0 })
	}
	for _, h := range []string{"a1", "b1"} {
		for _, srv := range []string{"10.9.1.1", "10.9.2.1"} {
			d.WaitFor(srv+" answers "+h, dcUp, func() bool {
				_, err := d.Node(h).Run("ping", "-c1", "-W2", srv)
				return err == nil
			})
		}
	}
}

// settings are what a test changes in the shipped configuration. Empty ones
// leave it as it is.
type settings struct {
	announcers string
	failback   string
	detection  string
	drain      string // stop.drain_time, which is also how long a handover lasts
}

// patient is the detection for scenarios that are not about how soon gossip takes a
// host for dead: where it is fast, one that a busy machine keeps waiting for half a
// second is dead for a moment.
const patient = "detection: lan"

// config is the shipped configuration with changes. Checks are a little quicker, but
// patient: a busy machine that runs all hosts must not pass for dead servers.
func (d *dc) config(s settings) string {
	d.t.Helper()
	text, err := d.Node("a1").ReadFile("/etc/rhid/rhid.yaml")
	if err != nil {
		d.t.Fatal(err)
	}
	swap := func(old, to string) {
		d.t.Helper()
		if !strings.Contains(text, old) {
			d.t.Fatalf("the shipped configuration does not say %q", old)
		}
		if to != "" {
			text = strings.ReplaceAll(text, old, to)
		}
	}
	swap("interval: 500ms, timeout: 400ms", "interval: 400ms, timeout: 350ms")
	swap("announcers: 1", s.announcers)
	swap("failback: {mode: auto, delay: 10s}", s.failback)
	swap("detection: fast", s.detection)
	if s.drain != "" {
		text += "stop: {drain_time: " + s.drain + "}\n"
	}
	return text
}

// configure writes the configuration on all hosts.
func (d *dc) configure(s settings) {
	d.t.Helper()
	text := d.config(s)
	for _, h := range dcHosts() {
		d.Node(h.name).WriteFile(dcConfig, text)
	}
}

// start starts rhid on hosts, all at the same time.
func (d *dc) start(hosts ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range hosts {
		d.proc[h] = d.Node(h).Start("rhid", "/usr/bin/rhid", "run", "--config", dcConfig)
	}
}

// kill kills rhid on hosts (SIGKILL).
func (d *dc) kill(hosts ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range hosts {
		if p := d.proc[h]; p != nil {
			p.Kill()
			delete(d.proc, h)
		}
		d.ended(h)
	}
}

// up starts the whole cluster and waits until each service has its first
// announcers at the routers, nobody is on trial for having just started, and
// nothing moves any more. A node whose check rose a moment sooner than another's
// is ready a moment sooner, and would come before that in this moment.
func (d *dc) up(s settings) {
	d.t.Helper()
	least := services.Ready
	if strings.Contains(s.failback, "manual") {
		least = services.Standby // for good, but for what a node serves
	}
	d.configure(s)
	d.start("a1", "a2", "b1", "b2")
	for _, svc := range dcServices() {
		d.waitHolder(svc.name, svc.order[0])
	}
	d.able(least, "a1", "a2", "b1", "b2")
	d.calm(time.Second)
}

// clear ends all daemons and removes what they left, so that the next test
// begins with an empty network.
func (d *dc) clear() {
	d.kill("a1", "a2", "b1", "b2")
	for _, h := range dcHosts() {
		n := d.Node(h.name)
		n.Must("sh", "-c", "rm -rf /var/lib/rhid; rm -f /run/rhid/*; for a in 10 20 30 40; do ip addr del 10.255.0.$a/32 dev lo 2>/dev/null; done; true")
	}
	for _, svc := range dcServices() {
		for _, r := range []string{"core-a", "core-b", "branch-a", "branch-b"} {
			d.WaitFor(svc.vip+" gone at "+r, dcUp, func() bool { return len(d.Node(r).Kernel(svc.vip)) == 0 })
		}
	}
}

// tell prints what helps to understand a failure.
func (d *dc) tell() {
	for _, h := range dcHosts() {
		out, err := d.Node(h.name).Run("sh", "-c", "rhid status; for s in atm pos counter esign; do rhid explain $s; done")
		d.t.Logf("== %s: %v\n%s", h.name, err, out)
		d.mu.Lock()
		if p := d.proc[h.name]; p != nil {
			d.t.Logf("== %s: rhid printed:\n%s", h.name, p.Output())
		}
		d.mu.Unlock()
	}
	for name := range d.fib {
		d.t.Logf("== %s: FIB %s; wire %s", name, d.fib[name], d.wire[name])
	}
}

// runs is how often a figure is measured: for show by default.
func runs(t *testing.T) int {
	t.Helper()
	text := os.Getenv("RHID_RUNS")
	switch {
	case text != "":
	case os.Getenv("RHID_FULL") != "":
		text = "10"
	default:
		text = "2"
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("RHID_RUNS=%q is no number of runs", text)
	}
	return n
}

// spread are figures of one kind.
type spread []time.Duration

func (s spread) median() time.Duration { return slices.Sorted(slices.Values(s))[len(s)/2] }

func (s spread) String() string {
	if len(s) == 0 {
		return "none"
	}
	return fmt.Sprintf("min %s, median %s, max %s (%d)", ms(slices.Min(s)), ms(s.median()), ms(slices.Max(s)), len(s))
}

// ms is a duration for people.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
