//go:build integration

package scenarios

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rhid/checks"
	"rhid/internal/control"
	"rhid/internal/lab"
)

const healthConfig = `
bgp: {asn: 65010, hold: 3s}
vip: {linger: 100ms}
sites:
  - name: beijing
    routers:
      - {name: tor-frr, address: 10.1.1.2, asn: 65001, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4]}
nodes:
  - {name: lb1, site: beijing, address: 10.1.0.11}
checks:
  shop: {type: tcp, interval: 200ms, timeout: 150ms, fall: 2, rise: 2}
  five: {type: http, interval: 200ms, timeout: 150ms, window: {size: 5, fail: 3}}
  hundred: {type: http, interval: 50ms, timeout: 40ms, rate: {over: 10m, last: 100, min: 90%, recover: 95%, min_samples: 60}}
  reports: {type: report, rate: {over: 3s, min: 90%, min_samples: 20}}
  here: {type: tcp, interval: 200ms, timeout: 150ms, fall: 2, rise: 2, address: "self:9334"}
  vip: {type: tcp, interval: 200ms, timeout: 150ms, fall: 2, rise: 2, address: "10.255.0.35:9335", allow_vip: true}
services:
  - name: pool
    vips: [10.255.0.30/32]
    servers: {addresses: ["10.9.1.1:9301", "10.9.1.1:9302", "10.9.1.2:9301", "10.9.1.2:9302"], min_healthy: 2, recover_healthy: 3}
    check: shop
  - {name: window, vips: [10.255.0.31/32], servers: {addresses: ["10.9.1.1:9311"]}, check: five}
  - {name: evidence, vips: [10.255.0.33/32], servers: {addresses: ["10.9.1.1:9303"]}, check: {all: [shop, reports]}}
  - {name: here, vips: [10.255.0.34/32], check: here}
  - {name: vip, vips: [10.255.0.35/32], vip: {bind: always}, check: vip}
`

// healthStill is how long the machine may stand still without a probe of these
// checks being late for it.
const healthStill = 50 * time.Millisecond

// healthRate is a service that is added once the routers listen, because its
// first results matter.
const healthRate = `  - {name: rate, vips: [10.255.0.32/32], servers: {addresses: ["10.9.1.1:9312"]}, check: hundred}
`

// healthLab is a load balancer with services of its own and one real router.
type healthLab struct {
	*siteLab
	watches map[string]*lab.FIBWatch // at the router, by VIP
}

// startHealth starts the network, the servers and rhid.
func startHealth(t *testing.T) *healthLab {
	t.Helper()
	used := []string{"lb1", "tor-frr", "srv1", "srv2", "sw"}
	return &healthLab{watches: map[string]*lab.FIBWatch{}, siteLab: startSite(t, lab.Options{Skip: func(node, line string) bool {
		return !slices.Contains(used, node) || node == "lb1" && !strings.HasPrefix(line, "ip ")
	}})}
}

func healthVIP(n int) string { return fmt.Sprintf("10.255.0.%d/32", n) }

// watch begins to watch a VIP at the router.
func (h *healthLab) watch(n int) { h.watches[healthVIP(n)] = h.torFRR.WatchFIB(healthVIP(n)) }

// comes, comesAfter and goes wait for the router's next change of a VIP.
func (h *healthLab) comes(n int) time.Time {
	h.t.Helper()
	return h.watches[healthVIP(n)].Wait("the route of "+healthVIP(n), siteUp, func(e lab.FIBEvent) bool { return e.Kind != lab.FIBDelete }).At
}

func (h *healthLab) comesAfter(n int, gone time.Time) time.Time {
	h.t.Helper()
	return h.watches[healthVIP(n)].Wait("the route of "+healthVIP(n)+" again", siteUp, func(e lab.FIBEvent) bool { return e.Kind != lab.FIBDelete && e.At.After(gone) }).At
}

func (h *healthLab) goes(n int) time.Time {
	h.t.Helper()
	return h.watches[healthVIP(n)].Wait("the end of the route of "+healthVIP(n), siteUp, isDelete).At
}

// still fails the test when anything happens to a VIP for a while.
func (h *healthLab) still(n int, d time.Duration, when string) {
	h.t.Helper()
	time.Sleep(d)
	if events := h.watches[healthVIP(n)].Events(); len(events) > 0 {
		h.t.Errorf("%s: the route of %s changed: %+v", when, healthVIP(n), events)
	}
}

// there waits until a VIP is at the router, and forgets how it came.
func (h *healthLab) there(n int) {
	h.t.Helper()
	h.WaitFor("the route of "+healthVIP(n), siteUp, func() bool { return len(h.torFRR.Kernel(healthVIP(n))) == 1 })
	time.Sleep(100 * time.Millisecond) // until this process has been told, too
	h.forget(n)
}

func (h *healthLab) forget(n int) { h.watches[healthVIP(n)].Reset() }

// pattern is an HTTP server that answers as it is told: . is 200, x is 500;
// and over and over again with what it was told to repeat.
type pattern struct {
	mu     sync.Mutex
	queue  string
	repeat string
	asked  []time.Time
}

func (p *pattern) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, time.Now())
	if p.queue == "" {
		p.queue = p.repeat
	}
	code := http.StatusOK
	if p.queue != "" {
		if p.queue[0] == 'x' {
			code = http.StatusInternalServerError
		}
		p.queue = p.queue[1:]
	}
	w.WriteHeader(code)
}

func (p *pattern) answer(queue, repeat string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue, p.repeat, p.asked = queue, repeat, nil
}

// done waits until the queue is used up and the answer taken in.
func (p *pattern) done() {
	for {
		p.mu.Lock()
		left := p.queue
		p.mu.Unlock()
		if left == "" {
			time.Sleep(100 * time.Millisecond)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// count is how many were asked for until a time.
func (p *pattern) count(until time.Time) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.asked {
		if at.Before(until) {
			n++
		}
	}
	return n
}

// servePattern serves HTTP on srv1.
func (h *healthLab) servePattern(addr string) *pattern {
	h.t.Helper()
	lis, err := h.srv1.Listen(addr)
	if err != nil {
		h.t.Fatal(err)
	}
	p := new(pattern)
	srv := &http.Server{Handler: p, ReadHeaderTimeout: time.Second}
	go srv.Serve(lis)                       //nolint:errcheck // it ends with the test
	h.t.Cleanup(func() { _ = srv.Close() }) // its connections are gone with the namespace
	return p
}

// TestHealthRules: the seed rules, evidence, a pool with watermarks and checks
// of the host itself, against real servers, with a real router that says when
// routes change.
func TestHealthRules(t *testing.T) {
	h := startHealth(t)
	five, hundred := h.servePattern("10.9.1.1:9311"), h.servePattern("10.9.1.1:9312")
	hundred.answer("", ".......x") // 87.5 % succeed, and there are never two failures in a row
	pool := []*lab.Server{
		h.srv1.Serve("10.9.1.1:9301"), h.srv1.Serve("10.9.1.1:9302"), h.srv2.Serve("10.9.1.2:9301"), h.srv2.Serve("10.9.1.2:9302"),
	}
	h.srv1.Serve("10.9.1.1:9303")
	own := h.lb.Serve("10.1.0.11:9334")
	// The next holder of the VIP answers wherever it is not local.
	h.lb.Must("ip", "route", "add", "10.255.0.35/32", "via", "10.9.1.1")
	h.srv1.Must("ip", "addr", "add", "10.255.0.35/32", "dev", "lo")
	h.srv1.Serve("10.255.0.35:9335")
	h.lb.Must("ip", "addr", "add", "10.255.0.35/32", "dev", "lo")
	onVIP := h.lb.Serve("10.255.0.35:9335")
	for n := 30; n <= 35; n++ {
		h.watch(n)
	}
	h.run(healthConfig)

	t.Run("seed: the last 100 within 10 minutes below 90 %", func(t *testing.T) { h.rate(t, hundred) })
	t.Run("seed: three of five", func(t *testing.T) { h.window(t, five) })
	t.Run("too few reports abstain", h.evidence)
	t.Run("a pool of four", func(t *testing.T) { h.pool(t, pool) })
	t.Run("S12: the service on the host itself is dead", func(t *testing.T) {
		h.local(t, 34, own)
		h.local(t, 35, onVIP)
	})
}

// rate: with 87.5 % the route comes, because fewer than 60 results are too few
// to judge, and goes with the 60th.
func (h *healthLab) rate(t *testing.T, p *pattern) {
	for _, n := range []int{30, 31, 33, 34, 35} {
		h.there(n)
	}
	last := h.lastEvent()
	h.configure(healthConfig + healthRate)
	h.lb.SignalAll("rhid", 1) // SIGHUP
	up := h.comes(32)
	down := h.goes(32)
	e := h.waitEvent(last, "check", "down", siteUp)
	t.Logf("withdrawn %s after it was announced: %s", down.Sub(up).Round(10*time.Millisecond), e.Detail)
	var good, n int
	if _, err := fmt.Sscanf(e.Detail, "%d of the last %d results", &good, &n); err != nil || n < 60 || n > 75 { // a failure is the eighth of each eight
		t.Errorf("withdrawn at probe %d (%v), want soon after the 60th", n, err)
	}
	h.forget(32)
	p.answer("", "")
	began := time.Now()
	back := h.comes(32)
	n = p.count(back)
	t.Logf("announced again %s and %d good probes after the server recovered", back.Sub(began).Round(10*time.Millisecond), n)
	if n < 20 {
		t.Errorf("announced after %d good probes, before 95 %% of the last results can be good", n)
	}
}

// window: two failures of five change nothing, three do, though no two of them
// are in a row; five good ones bring it back. How many probes rhid needed is told
// by its own word, since the router and this process take their time.
func (h *healthLab) window(t *testing.T, p *pattern) {
	judged := func(since uint64, what string) int { return p.count(h.waitEvent(since, "check", what, siteUp).Time) }
	lab.Steady(t, healthStill, func() (misses []string) {
		p.answer(".....", "") // what was before, be it another measurement, is forgotten
		p.done()
		h.there(31)
		p.answer("x.x..", "")
		p.done()
		time.Sleep(500 * time.Millisecond)
		if events := h.watches[healthVIP(31)].Events(); len(events) > 0 {
			return []string{fmt.Sprintf("two of five failed: the route changed: %+v", events)}
		}
		last := h.lastEvent()
		p.answer("x.x.x", "")
		began := time.Now()
		down, n := h.goes(31), judged(last, "down")
		t.Logf("withdrawn after %d probes, %s: three of five failed", n, down.Sub(began).Round(10*time.Millisecond))
		if n < 5 || n > 6 {
			misses = append(misses, fmt.Sprintf("withdrawn after %d probes, want 5", n))
		}
		good := judged(last, "up") - 5
		back := h.comesAfter(31, down)
		t.Logf("announced again after %d good probes, %s later", good, back.Sub(down).Round(10*time.Millisecond))
		if good < 4 || good > 7 {
			misses = append(misses, fmt.Sprintf("announced after %d good probes, want 5", good))
		}
		return misses
	})
}

// evidence: ten bad reports are too few, twenty more pull the service down,
// and once they are old it comes back.
func (h *healthLab) evidence(t *testing.T) {
	lab.Steady(t, healthStill, func() []string {
		h.there(33)
		h.lb.Rhid("report", "evidence", "fail", "--count", "10", "--detail", "declined")
		h.still(33, time.Second, "ten bad reports")
		began := time.Now()
		h.lb.Rhid("report", "evidence", "fail", "--count", "20", "--detail", "declined")
		down := h.goes(33)
		back := h.comes(33)
		t.Logf("withdrawn %s after 20 more bad reports; announced again %s later, when they were older than 3 s",
			down.Sub(began).Round(10*time.Millisecond), back.Sub(down).Round(10*time.Millisecond))
		if d := back.Sub(began); d < 2900*time.Millisecond || d > 4*time.Second {
			return []string{fmt.Sprintf("the evidence was in force for %s, want 3 s", d)}
		}
		return nil
	})
}

// pool: of four servers one, three and four die and return. Below two the
// route goes, with three it comes, and nothing else touches it.
func (h *healthLab) pool(t *testing.T, servers []*lab.Server) {
	const n = 30
	step := func(up int, what string, change func(), wait func(int) time.Time) {
		t.Helper()
		h.forget(n)
		began := time.Now()
		change()
		h.WaitFor(fmt.Sprintf("%s: rhid seeing that %d are up", what, up), siteUp, func() bool { return h.serversUp("pool") == up })
		if wait == nil {
			h.still(n, 300*time.Millisecond, what) // the router takes 60 ms
			t.Logf("%-44s no change at the router", what)
			return
		}
		at := wait(n)
		time.Sleep(300 * time.Millisecond)
		t.Logf("%-44s at the router after %s", what, at.Sub(began).Round(10*time.Millisecond))
		if events := h.watches[healthVIP(n)].Events(); len(events) != 1 {
			t.Errorf("%s: want one change, got %+v", what, events)
		}
	}
	step(3, "4 up: one dies", servers[0].Stop, nil)
	step(4, "3 up: it returns", servers[0].Resume, nil)
	step(2, "4 up: two die, min_healthy is 2", func() { servers[0].Stop(); servers[1].Stop() }, nil)
	step(1, "2 up: a third dies, the route goes", servers[2].Stop, h.goes)
	step(2, "1 up: one returns, recover_healthy is 3", servers[2].Resume, nil)
	step(3, "2 up: another returns, the route comes", servers[1].Resume, h.comes)
	step(0, "3 up: all die, the route goes", func() { servers[1].Stop(); servers[2].Stop(); servers[3].Stop() }, h.goes)
	step(2, "0 up: two return", func() { servers[0].Resume(); servers[1].Resume() }, nil)
	step(4, "2 up: the others return, the route comes", func() { servers[2].Resume(); servers[3].Resume() }, h.comes)
}

// serversUp is how many servers of a service rhid takes for up.
func (h *healthLab) serversUp(service string) (n int) {
	h.t.Helper()
	var e control.Explanation
	if err := json.Unmarshal([]byte(h.lb.Rhid("explain", service, "-o", "json")), &e); err != nil {
		h.t.Fatalf("rhid explain: %v", err)
	}
	for _, c := range e.Checks {
		if c.State == checks.Up {
			n++
		}
	}
	return n
}

// local: the service on the host dies, which is seen here although the next
// holder answers for the VIP; and so is its return.
func (h *healthLab) local(t *testing.T, n int, server *lab.Server) {
	h.forget(n)
	began := time.Now()
	server.Stop()
	down := h.goes(n)
	time.Sleep(100 * time.Millisecond)
	h.forget(n)
	h.still(n, time.Second, "the service is dead here") // vip.linger is long over
	again := time.Now()
	server.Resume()
	back := h.comes(n)
	t.Logf("%s: withdrawn %s after the death, announced %s after the return", healthVIP(n),
		down.Sub(began).Round(10*time.Millisecond), back.Sub(again).Round(10*time.Millisecond))
}
