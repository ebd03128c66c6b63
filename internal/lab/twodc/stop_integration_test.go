//go:build integration

package twodc

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"rhid/internal/lab"
)

// testStop takes a1 out of service by hand and then by stopping its daemon,
// while clients connect all the time: nobody is lost, the routers are told with
// GRACEFUL_SHUTDOWN first, and the session stands until everything is withdrawn.
func testStop(d *dc) {
	connects := 3000
	if os.Getenv("RHID_FULL") != "" {
		connects = 10_000
	}
	d.up(settings{detection: patient, announcers: "announcers: 2", failback: "failback: {mode: auto, delay: 1s}"})
	d.forget()
	core := d.Node("core-a")
	wire := core.Capture("eth1")
	notified := func(e lab.Event) bool { return e.Kind == lab.BGPNotification }
	l := d.load("atm", 4*time.Millisecond, "client-a", "client-b")

	seen := d.watchShutdown()
	d.Node("b2").Must("rhid", "drain", "node:a1", "--wait", "30s", "--why", "S2")
	d.t.Logf("drain: FRR has seen %s", seen())
	d.waitHolder("atm", "a2+b1") // the two announcers then: each client goes to the nearer one
	if !core.BGPUp("10.1.1.1") || len(wire.Events(notified)) > 0 {
		d.t.Errorf("drain: the session of core-a with a1 is not what it was")
	}
	d.Node("b2").Must("rhid", "undrain", "node:a1")
	d.waitHolder("atm", "a1")
	d.calm(time.Second)

	wire.Reset()
	seen = d.watchShutdown()
	began := time.Now()
	a1 := d.proc["a1"]
	a1.Signal(syscall.SIGTERM)
	if err := a1.Wait(20 * time.Second); err != nil {
		d.t.Errorf("SIGTERM: rhid ended with %v", err)
	}
	took := time.Since(began)
	d.t.Logf("SIGTERM: FRR has seen %s", seen())
	end := wire.Wait("the end of the session", 30*time.Second, notified)
	gone := wire.Events(func(e lab.Event) bool { return !e.Sent && e.Withdraws(serviceOf("atm").vip) })
	if len(gone) == 0 || !end.At.After(gone[len(gone)-1].At) {
		d.t.Errorf("SIGTERM: the session ended at %v, the withdraw was %v", end.At.Sub(began), gone)
	} else {
		d.t.Logf("SIGTERM: withdraw after %s, NOTIFICATION after %s, end after %s", ms(gone[0].At.Sub(began)), ms(end.At.Sub(began)), ms(took))
	}
	d.waitHolder("atm", "a2+b1")
	d.connections(l, connects)
	d.t.Logf("atm: %s", d.fib["atm"])
	d.noneLost("drain, then SIGTERM of a1", l)
}

// watchShutdown looks at core-a until its result is asked for: what a1's path
// of atm looked like with GRACEFUL_SHUTDOWN. Never to have seen it is an error.
func (d *dc) watchShutdown() func() string {
	d.t.Helper()
	stop, found := make(chan struct{}), ""
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			for _, p := range d.Node("core-a").BGPPaths(serviceOf("atm").vip) {
				if p.From.String() == "10.1.1.1" && slices.Contains(p.Communities, "65535:0") {
					found = fmt.Sprintf("communities %v, local preference %d, MED %d, path %v", p.Communities, p.LocalPref, p.MED, p.ASPath)
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return func() string {
		d.t.Helper()
		close(stop)
		wg.Wait()
		if found == "" {
			d.t.Error("core-a has never had a1's path with GRACEFUL_SHUTDOWN")
		}
		return found
	}
}

// hopWeight matches a next hop of ip route.
var hopWeight = regexp.MustCompile(`nexthop via (\S+) dev \S+ .*?weight (\d+)`)

// testWeights: two announcers of the same rank share the traffic as the
// bandwidths say that they tell.
func testWeights(d *dc) {
	d.configure(settings{detection: patient, announcers: "announcers: 2"})
	for _, h := range dcHosts() {
		text, err := d.Node(h.name).ReadFile(dcConfig)
		if err != nil {
			d.t.Fatal(err)
		}
		text = strings.Replace(text, "    check: tcp\n", "    check: tcp\n    metric: {base: 100, step: 0}\n    prepend: 0\n    link_bandwidth: {a2: 30000}\n", 1)
		text = strings.Replace(text, "    address: 10.7.0.11\n", "    address: 10.7.0.11\n    link_bandwidth: 10000\n", 1)
		d.Node(h.name).WriteFile(dcConfig, text)
	}
	core := d.Node("core-a")
	multipath := func(n int) {
		core.Must("vtysh", "-c", "configure terminal", "-c", "router bgp 65001", "-c", "address-family ipv4 unicast", "-c", "maximum-paths "+strconv.Itoa(n))
	}
	multipath(2)
	defer multipath(1)
	d.start("a1", "a2", "b1", "b2")
	weights := map[string]int{}
	took := d.until("core-a's kernel has both next hops, with weights of 1 to 3", func() string {
		clear(weights)
		for _, m := range hopWeight.FindAllStringSubmatch(core.Must("ip", "route", "show", serviceOf("atm").vip), -1) {
			weights[m[1]], _ = strconv.Atoi(m[2])
		}
		if a1, a2 := weights["10.1.1.1"], weights["10.1.2.1"]; a1 > 0 && 10*a2 >= 27*a1 && 10*a2 <= 33*a1 { // FRR makes percentages of them
			return ""
		}
		return fmt.Sprintf("it has %v", weights)
	})
	for _, line := range strings.Split(core.Must("vtysh", "-c", "show bgp ipv4 unicast "+serviceOf("atm").vip), "\n") {
		if strings.Contains(line, "LB:") {
			d.t.Logf("core-a: %s", strings.TrimSpace(line))
		}
	}
	d.t.Logf("weights in core-a's kernel after %v: %v, of 10 and 30 Gbit/s", took.Round(time.Millisecond), weights)
}
