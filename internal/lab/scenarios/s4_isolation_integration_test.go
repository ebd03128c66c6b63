//go:build integration

package scenarios

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rhid/internal/control"
	"rhid/internal/lab"
)

// The timing of every check in this scenario.
const (
	isoInterval = 500 * time.Millisecond
	isoTimeout  = 400 * time.Millisecond
	isoFall     = 2
	isoServices = 200
	isoLimit    = isoFall*isoInterval + isoTimeout // from a death until it is seen
	isoStill    = 50 * time.Millisecond            // a machine that stands still for longer spoils that

	isoVictim, isoVictimK = "10.255.0.1/32", "10.255.0.2/32" // of the services that fail, over BGP and by the kernel
	isoPort, isoHolePort  = 9300, 9400
)

// isoServicesText are 200 services with a server each: the first two have the
// server that fails, every fifth goes out by kernel routes.
func isoServicesText() string {
	var b strings.Builder
	for i := 1; i <= isoServices; i++ {
		via, target := "bgp", fmt.Sprintf("10.9.2.%d:%d", i, isoPort)
		if i%5 == 2 {
			via = "kernel"
		}
		if i <= 2 {
			target = fmt.Sprintf("10.9.1.1:%d", isoPort+1)
		}
		fmt.Fprintf(&b, "  - {name: svc-%03d, vips: [10.255.0.%d/32], via: [%s], servers: {addresses: [%q]}, check: shop}\n", i, i, via, target)
	}
	return b.String()
}

// isoMonsters are services whose checks do all that a check must not.
const isoMonsters = `
  - name: deaf
    vips: [10.255.0.201/32]
    check: {type: exec, interval: 500ms, timeout: 400ms, shell: true, command: ["trap '' TERM; (trap '' TERM; exec sleep 611) & while :; do sleep 612; done"]}
  - name: loud
    vips: [10.255.0.202/32]
    check: {type: exec, interval: 500ms, timeout: 400ms, command: [yes, without end]}
  - name: holes
    vips: [10.255.0.203/32]
    servers: {addresses: [%s]}
    check: shop
`

func isoConfig(monsters bool) string {
	text := `
bgp: {asn: 65010, hold: 3s}
vip: {linger: 100ms}
sites:
  - name: beijing
    routers:
      - {name: tor-frr, address: 10.1.1.2, asn: 65001, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4]}
nodes:
  - {name: lb1, site: beijing, address: 10.1.0.11}
checks:
  shop: {type: tcp, interval: 500ms, timeout: 400ms, fall: 2, rise: 2}
services:
` + isoServicesText()
	if monsters {
		var holes []string
		for i := 1; i <= 10; i++ {
			holes = append(holes, fmt.Sprintf("%q", fmt.Sprintf("10.9.3.%d:%d", i, isoHolePort)))
		}
		text += fmt.Sprintf(isoMonsters, strings.Join(holes, ", "))
	}
	return text
}

// iso is the scenario under way.
type iso struct {
	*siteLab
	rhid      *lab.Proc
	server    *lab.Server // of the victims
	wire      *lab.Capture
	host, far *siteKernel
	bgp       siteSession // at tor-frr, once all is up
}

// TestS4Isolation: a check that behaves badly, or a service that is down, has
// no effect on another service.
func TestS4Isolation(t *testing.T) {
	s := startIso(t)
	quiet := s.flaps("without monsters", 4)

	s.reload(true, func() { s.WaitFor("the monsters' checks being down", siteUp, s.monstersDown) })
	growth := s.watchGrowth(20 * time.Second)
	loud := s.flaps("with monsters", 8)
	growth.report()

	ratio := float64(median(loud)) / float64(median(quiet))
	t.Logf("median with monsters / without: %.2f", ratio)
	if ratio > 1.25 {
		t.Errorf("the monsters delay the detection of another service's failure: %v to %v", median(quiet), median(loud))
	}
	s.reload(false, s.tamed)
}

func startIso(t *testing.T) *iso {
	t.Helper()
	used := []string{"lb1", "tor-frr", "srv1", "srv2", "sw"}
	s := &iso{siteLab: startSite(t, lab.Options{Skip: func(node, line string) bool {
		return !slices.Contains(used, node) || node == "lb1" && !strings.HasPrefix(line, "ip ")
	}})}
	s.lb.Must("ip", "route", "add", "10.9.2.0/24", "via", "10.9.1.1")
	s.lb.Must("ip", "route", "add", "10.9.3.0/24", "via", "10.9.1.2")
	s.srv1.Must("ip", "route", "add", "local", "10.9.2.0/24", "dev", "lo")
	s.srv2.Must("ip", "route", "add", "local", "10.9.3.0/24", "dev", "lo")
	s.srv2.DropTCP(isoHolePort)
	s.srv1.Serve(fmt.Sprintf(":%d", isoPort))
	s.server = s.srv1.Serve(fmt.Sprintf(":%d", isoPort+1))
	s.host, s.far = watchKernel(t, s.lb), watchKernel(t, s.torFRR)
	s.wire = s.torFRR.Capture("eth1")
	s.rhid = s.run(isoConfig(false))
	s.WaitFor("all BGP services at tor-frr", siteUp, func() bool {
		there := map[netip.Prefix]bool{}
		for _, c := range s.far.where(isVIP) {
			if there[c.Prefix] = true; c.Gone {
				delete(there, c.Prefix)
			}
		}
		return len(there) == isoServices*4/5
	})
	s.WaitFor("all kernel services on lb1", siteUp, func() bool { return s.announcedHere() == isoServices/5 })
	s.allAnnounced()
	time.Sleep(time.Second) // for what this process has yet to be told of that
	return s
}

// allAnnounced waits until all services are, but for the monsters, and takes down
// how the session is then.
func (s *iso) allAnnounced() {
	s.t.Helper()
	s.WaitFor("every service settled", siteUp, func() bool { return !slices.ContainsFunc(s.status().Services, unsettled) })
	s.bgp = s.session(s.torFRR, "10.1.1.1")
}

// unsettled says whether a service, no monster, is not announced, or rhid has not
// seen yet that it is.
func unsettled(v control.Service) bool {
	if !strings.HasPrefix(v.Name, "svc-") {
		return false
	}
	for _, vip := range v.VIPs {
		for _, r := range vip.Routes {
			if !r.Wanted || !r.Here || !r.Differs.IsZero() {
				return true
			}
		}
	}
	return v.Verdict.String() != "announce"
}

func isVIP(c siteChange) bool {
	return netip.MustParsePrefix("10.255.0.0/24").Contains(c.Prefix.Addr())
}

// announcedHere counts the announcement routes on lb1.
func (s *iso) announcedHere() int {
	n := 0
	for i := 2; i <= isoServices; i += 5 {
		n += len(s.lb.Kernel(fmt.Sprintf("10.255.0.%d/32", i)))
	}
	return n
}

func (s *iso) forget() {
	s.wire.Reset()
	s.host.reset()
	s.far.reset()
}

// touched says what happened to any VIP but the victims', on the wire, in the
// router's kernel and on the host.
func (s *iso) touched(when string) (wrong []string) {
	s.t.Helper()
	victim := func(p netip.Prefix) bool { return p.String() == isoVictim || p.String() == isoVictimK }
	updates := s.wire.Events(func(e lab.Event) bool {
		return e.Kind == lab.BGPUpdate && slices.ContainsFunc(slices.Concat(e.Announced, e.Withdrawn), func(p netip.Prefix) bool { return !victim(p) })
	})
	other := func(c siteChange) bool { return isVIP(c) && !victim(c.Prefix) }
	fib, host := s.far.where(other), s.host.where(other)
	if len(updates)+len(fib)+len(host) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: other services were touched: UPDATEs %v, router's kernel %v, host's kernel %v", when, updates, fib, host))
	}
	if now := s.session(s.torFRR, "10.1.1.1"); !now.same(s.bgp) {
		wrong = append(wrong, fmt.Sprintf("%s: the BGP session was disturbed: %+v, was %+v", when, now, s.bgp))
	}
	return wrong
}

// flaps has the victims' server die and live again, and returns how long each
// death took to be seen, from the death to the withdraw at the router. Where the
// machine stood still meanwhile, what went wrong is tried again: any check may have
// missed its time.
func (s *iso) flaps(when string, count int) []time.Duration {
	s.t.Helper()
	var bgp, kernel []time.Duration
	for i := range count {
		lab.Steady(s.t, isoStill, func() []string {
			b, k, wrong := s.flap(when, i)
			if len(wrong) == 0 {
				bgp, kernel = append(bgp, b), append(kernel, k)
			}
			return wrong
		})
	}
	s.t.Logf("%s: death to withdraw over BGP %v, by the kernel %v (limit %v)", when, bgp, kernel, isoLimit)
	return bgp
}

// flap is one death and the return.
func (s *iso) flap(when string, number int) (bgp, kernel time.Duration, wrong []string) {
	s.t.Helper()
	s.allAnnounced()
	s.forget()
	s.sleepToMidSlot()
	died := time.Now()
	s.server.Stop()
	gone := s.wire.Wait("the withdraw", siteUp, func(e lab.Event) bool { return e.Kind == lab.BGPUpdate && e.Withdraws(isoVictim) })
	s.WaitFor("the kernel route going", siteUp, func() bool { return len(s.hostRoutes(true)) > 0 })
	bgp, kernel = gone.At.Sub(died), s.hostRoutes(true)[0].At.Sub(died)
	time.Sleep(200 * time.Millisecond) // linger, and the addresses
	s.server.Resume()
	s.wire.Wait("the announcement", siteUp, func(e lab.Event) bool { return e.Kind == lab.BGPUpdate && e.Announces(isoVictim) })
	s.WaitFor("the kernel route coming", siteUp, func() bool { return len(s.hostRoutes(false)) > 0 })
	time.Sleep(100 * time.Millisecond)
	if max(bgp, kernel) > isoLimit {
		wrong = append(wrong, fmt.Sprintf("%s, death %d: seen after %v over BGP and %v by the kernel, limit interval × fall + timeout = %v", when, number, bgp, kernel, isoLimit))
	}
	updates := s.wire.Events(func(e lab.Event) bool {
		return e.Kind == lab.BGPUpdate && !e.Sent && len(e.Announced)+len(e.Withdrawn) > 0
	}) // no End-of-RIB
	if n := len(updates); n != 2 {
		wrong = append(wrong, fmt.Sprintf("%s, death %d: tor-frr received %d UPDATEs, want 2: the withdraw and the announcement", when, number, n))
	}
	return bgp, kernel, append(wrong, s.touched(when)...)
}

// hostRoutes are the changes of the second victim's announcement on lb1.
func (s *iso) hostRoutes(gone bool) []siteChange {
	s.t.Helper()
	return s.host.where(func(c siteChange) bool {
		return c.Prefix.String() == isoVictimK && c.Kind == "route" && c.Table == 254 && c.Gone == gone
	})
}

// sleepToMidSlot waits until the victims' next probe is half an interval away,
// so that the time to the detection does not depend on luck.
func (s *iso) sleepToMidSlot() {
	s.t.Helper()
	var e control.Explanation
	if err := json.Unmarshal([]byte(s.lb.Rhid("explain", "svc-001", "-o", "json")), &e); err != nil {
		s.t.Fatalf("rhid explain: %v", err)
	}
	at := e.Checks[0].NextRun.Add(isoInterval / 2)
	for time.Until(at) < 0 {
		at = at.Add(isoInterval)
	}
	time.Sleep(time.Until(at))
}

func (s *iso) monstersDown() bool {
	down := 0
	for _, v := range s.status().Services {
		if !strings.HasPrefix(v.Name, "svc-") && v.Verdict.String() == "withdraw" {
			down++
		}
	}
	return down == 3
}

// reload takes the monsters into the configuration, or out of it, and waits until
// that has happened: no other service is touched.
func (s *iso) reload(monsters bool, happened func()) {
	s.t.Helper()
	load := func(monsters bool) {
		since := s.lastEvent()
		s.configure(isoConfig(monsters))
		s.lb.SignalAll("rhid", 1) // SIGHUP
		s.waitEvent(since, "daemon", "reloaded", siteUp)
	}
	again := false
	lab.Steady(s.t, isoStill, func() []string {
		if again {
			load(!monsters)
		}
		again = true
		s.allAnnounced()
		s.forget()
		load(monsters)
		happened()
		return s.touched(fmt.Sprintf("reload, monsters: %v", monsters))
	})
}

// tamed waits until nothing of the monsters is left.
func (s *iso) tamed() {
	s.t.Helper()
	took := s.WaitFor("no process of the monsters being left", siteUp, func() bool {
		return len(s.lb.Pids("yes"))+len(s.lb.Pids("sleep"))+len(s.lb.Pids("sh")) == 1 // the node's own `sleep infinity`
	})
	s.t.Logf("the monsters' processes are gone %v after the reload", took.Round(time.Millisecond))
}

// growth is what a process has in use over time.
type growth struct {
	s                        *iso
	stop                     chan struct{}
	done                     chan struct{}
	files, threads, children []int
}

// watchGrowth counts twice a second, for as long as it is told at the least.
func (s *iso) watchGrowth(atLeast time.Duration) *growth {
	g := &growth{s: s, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(g.done)
		tick := time.NewTicker(300 * time.Millisecond) // not a part of the interval: no strobe effect
		defer tick.Stop()
		stop := g.stop
		for end := time.Now().Add(atLeast); stop != nil || time.Now().Before(end); {
			g.files = append(g.files, entries(s.rhid.Pid(), "fd"))
			g.threads = append(g.threads, entries(s.rhid.Pid(), "task"))
			g.children = append(g.children, descendants(s.rhid.Pid()))
			select {
			case <-stop:
				stop = nil
			case <-tick.C:
			}
		}
	}()
	return g
}

// report fails the test when the last third has more than the first, in its least
// count: what leaks is in all of them, probes under way are not.
func (g *growth) report() {
	close(g.stop)
	<-g.done
	for name, all := range map[string][]int{"descriptors": g.files, "processes": g.children} {
		third := len(all) / 3
		first, last := slices.Min(all[:third]), slices.Min(all[len(all)-third:])
		g.s.t.Logf("%s of rhid over %d counts: first third %d at least (most %d), last third %d at least (most %d)",
			name, len(all), first, slices.Max(all[:third]), last, slices.Max(all[len(all)-third:]))
		if last > first+3 {
			g.s.t.Errorf("%s grow from %d to %d: %v", name, first, last, all)
		}
	}
	g.s.t.Logf("threads of rhid: first %d, last %d, most %d", g.threads[0], g.threads[len(g.threads)-1], slices.Max(g.threads))
}

// entries counts what is in a folder of a process in /proc.
func entries(pid int, dir string) int {
	list, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), dir))
	if err != nil {
		return 0 // it has ended, which others notice
	}
	return len(list)
}

// descendants counts the processes below pid, zombies too.
func descendants(pid int) int {
	n := 0
	kids, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, k := range kids {
		text, err := os.ReadFile(k)
		if err != nil {
			continue // the thread has ended
		}
		for _, f := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(f); err == nil {
				n += 1 + descendants(child)
			}
		}
	}
	return n
}

func median[T int | time.Duration](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
