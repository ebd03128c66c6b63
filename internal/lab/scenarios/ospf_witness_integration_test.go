//go:build integration

package scenarios

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/internal/lab"
)

const (
	ospfUp   = 40 * time.Second // until everything is announced: BIRD waits up to 5 s between two LSAs
	ospfHold = 3 * time.Second  // kernel.witness_hold, where it is set

	ospfRest  = 6 * time.Second // until BIRD announces a prefix again without delay: 5 s, and it looks once a second
	ospfTrial = 3 * time.Second // how long a host that has started is on trial
)

// ospfVIP is a VIP of a service with its next host.
type ospfVIP struct{ prefix, service, next, family string }

// ospfVIPs are those of atm, which lb1 holds, then lb2, FRR on both, and of pos,
// which lb1 holds, then bird. IPv6 is for long runs.
func ospfVIPs() []ospfVIP {
	vips := []ospfVIP{{"10.255.0.10/32", "atm", "lb2", "IPv4"}, {"10.255.0.11/32", "pos", "bird", "IPv4"}}
	if os.Getenv("RHID_FULL") != "" {
		vips = append(vips, ospfVIP{"fd00:255::10/128", "atm", "lb2", "IPv6"}, ospfVIP{"fd00:255::11/128", "pos", "bird", "IPv6"})
	}
	return vips
}

// ospfLab is three hosts that announce over OSPF alone; lb1 holds all VIPs.
type ospfLab struct {
	*lab.Lab
	t     *testing.T
	procs map[string]*lab.Proc
	file  string // the configuration, in each host
	vips  []ospfVIP
	via   map[ospfVIP]*lab.FIBWatch // at core
	seen  map[ospfVIP]*lab.FIBWatch // at the next host
}

// ospfHosts are the hosts with core's device towards them.
func ospfHosts() map[string]string {
	return map[string]string{"lb1": "eth1", "lb2": "eth2", "bird": "eth3"}
}

// newOSPFLab starts the network without rhid.
func newOSPFLab(t *testing.T) *ospfLab {
	t.Helper()
	l := &ospfLab{
		Lab: lab.Start(t, "testdata/ospf/ospf.clab.yml", lab.Options{Rhid: lab.BuildRhid(t, false)}), t: t,
		procs: map[string]*lab.Proc{}, vips: ospfVIPs(),
		via: map[ospfVIP]*lab.FIBWatch{}, seen: map[ospfVIP]*lab.FIBWatch{},
	}
	for _, v := range l.vips {
		l.via[v] = l.Node("core").WatchFIB(v.prefix)
		l.seen[v] = l.Node(v.next).WatchFIB(v.prefix)
	}
	return l
}

func startOSPF(t *testing.T) *ospfLab {
	t.Helper()
	l := newOSPFLab(t)
	l.startAll("/tmp/rhid.yaml", l.config())
	l.settled()
	return l
}

// config is the shipped configuration, with the VIPs that the test looks at.
func (l *ospfLab) config() string {
	l.t.Helper()
	text, err := l.Node("lb1").ReadFile("/etc/rhid/rhid.yaml")
	if err != nil {
		l.t.Fatal(err)
	}
	if !slices.ContainsFunc(l.vips, func(v ospfVIP) bool { return v.family == "IPv6" }) {
		text = regexp.MustCompile(`, "fd00:[^]]*`).ReplaceAllString(text, "")
	}
	return text
}

// startAll starts rhid on hosts, all of them by default.
func (l *ospfLab) startAll(file, text string, hosts ...string) {
	l.t.Helper()
	l.file = file
	if hosts == nil {
		hosts = slices.Collect(maps.Keys(ospfHosts()))
	}
	for _, host := range hosts {
		l.Node(host).WriteFile(file, text)
		l.start(host)
	}
}

func (l *ospfLab) start(host string) {
	l.t.Helper()
	l.procs[host] = l.Node(host).StartRhid(l.file, "--node", host)
}

// leads says whether core's route for a VIP goes to exactly one host.
func (l *ospfLab) leads(v ospfVIP, host string) bool {
	hops := l.Node("core").Kernel(v.prefix)
	return len(hops) == 1 && hops[0].Dev == ospfHosts()[host]
}

// settled waits until lb1 alone holds all VIPs and the others' kernels show it.
func (l *ospfLab) settled() {
	l.t.Helper()
	for _, v := range l.vips {
		l.WaitFor("lb1 holding "+v.prefix+", and "+v.next+" seeing it", ospfUp, func() bool {
			return l.leads(v, "lb1") && l.learned(v)
		})
	}
}

// learned says whether the next host's kernel has a VIP's route from OSPF and
// none of its own.
func (l *ospfLab) learned(v ospfVIP) bool {
	hops := l.Node(v.next).Kernel(v.prefix)
	return len(hops) == 1 && hops[0].Dev == "eth1" && hops[0].Proto != siteProto
}

// takeover is how long after began core led a VIP to its next host.
func (l *ospfLab) takeover(v ospfVIP, began time.Time) time.Duration {
	l.t.Helper()
	e := l.via[v].Wait("leading to "+v.next, ospfUp, func(e lab.FIBEvent) bool {
		return e.At.After(began) && e.Kind != lab.FIBDelete &&
			slices.ContainsFunc(e.Hops, func(h lab.KernelRoute) bool { return h.Dev == ospfHosts()[v.next] })
	})
	return e.At.Sub(began)
}

// reaction is how long after its kernel lost the last route of a service the next
// host put its own in: a host that has one VIP in the network is there.
func (l *ospfLab) reaction(v ospfVIP, began time.Time) time.Duration {
	l.t.Helper()
	var gone time.Time
	for _, other := range l.vips {
		if other.service != v.service {
			continue
		}
		e := l.seen[other].Wait("deleted", ospfUp, func(e lab.FIBEvent) bool {
			return e.At.After(began) && e.Kind == lab.FIBDelete && e.Hops[0].Proto != siteProto
		})
		gone = latest(gone, e.At)
	}
	own := l.seen[v].Wait("added by rhid", ospfUp, func(e lab.FIBEvent) bool {
		return e.At.After(began) && e.Kind == lab.FIBAdd && e.Hops[0].Proto == siteProto
	})
	return max(0, own.At.Sub(gone))
}

// rested waits until BIRD announces each prefix again without delay: it lets 5 s
// pass between two LSAs of one prefix. And until no host is on trial any more.
func (l *ospfLab) rested() {
	l.t.Helper()
	var last time.Time
	for _, v := range l.vips {
		for _, e := range l.via[v].Events() {
			last = latest(last, e.At)
		}
	}
	<-time.After(max(ospfTrial, time.Until(last.Add(ospfRest))))
}

// powerOff kills rhid on lb1 and cuts all its links.
func (l *ospfLab) powerOff() time.Time {
	l.t.Helper()
	began := time.Now()
	l.procs["lb1"].Signal(syscall.SIGKILL)
	l.Cut("lb1:eth2")
	l.Cut("lb1:eth1")
	return began
}

// powerOn brings lb1 back as after a boot, and waits until it holds the VIPs.
func (l *ospfLab) powerOn() {
	l.t.Helper()
	if err := l.procs["lb1"].Wait(5 * time.Second); err == nil {
		l.t.Error("rhid on lb1 was not killed")
	}
	l.Node("lb1").Must("ip", "route", "flush", "proto", "151")
	l.Heal("lb1:eth2")
	l.Heal("lb1:eth1")
	l.start("lb1")
	l.settled()
}

// hold starts rhid anew on all hosts, with kernel.witness_hold and without the
// lease, which takes the routes of a dead daemon out.
func (l *ospfLab) hold() {
	l.t.Helper()
	for host := range ospfHosts() {
		l.Node(host).StopRhid(l.procs[host], 10*time.Second)
	}
	l.startAll("/tmp/hold.yaml", strings.Replace(l.config(), "kernel: {", "kernel: {lease: false, witness_hold: "+ospfHold.String()+", ", 1))
	l.trusted()
}

// ospfRuns is how often each death is measured.
func ospfRuns(t *testing.T) int {
	t.Helper()
	switch text := os.Getenv("RHID_RUNS"); {
	case text != "":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("RHID_RUNS=%q is no number of runs", text)
		}
		return n
	case os.Getenv("RHID_FULL") != "":
		return 20
	default:
		return 1
	}
}

// TestOSPFWitness: hosts that speak OSPF alone, with rhid's routes in the hands
// of FRR and BIRD. The holder's host dies: gossip is first to know. Its data
// network alone is cut: only the kernel's table knows. Its daemon alone dies: with
// kernel.witness_hold nothing moves as long as its route is there, for which a
// host that dies is found out later.
func TestOSPFWitness(t *testing.T) {
	l := startOSPF(t)
	figures := map[string]spread{}
	for range ospfRuns(t) {
		l.steady(figures, l.deaths)
	}
	l.hold()
	l.daemonDies()
	off := false
	l.steady(figures, func() (all []ospfFigure) {
		if off {
			l.powerOn()
			l.trusted()
		}
		l.rested()
		began := l.powerOff()
		off = true
		for _, v := range l.vips {
			all = append(all, ospfFigure{fmt.Sprintf("power off, with kernel.witness_hold %s, %s takes over, %s", ospfHold, v.next, v.family), l.takeover(v, began), ospfHold + time.Second})
		}
		return all
	})
	for _, what := range slices.Sorted(maps.Keys(figures)) {
		t.Logf("%s: %s", what, figures[what])
	}
}

// ospfFigure is how long something took, and how long it may.
type ospfFigure struct {
	what        string
	took, limit time.Duration
}

// steady keeps figures that are within their limits. Where one is not, and the
// machine stood still meanwhile, all are taken anew.
func (l *ospfLab) steady(keep map[string]spread, measure func() []ospfFigure) {
	l.t.Helper()
	lab.Steady(l.t, ospfStill, func() (misses []string) {
		all := measure()
		for _, f := range all {
			if f.took > f.limit {
				misses = append(misses, fmt.Sprintf("%s: %s is longer than %s", f.what, ms(f.took), f.limit))
			}
		}
		if len(misses) == 0 {
			for _, f := range all {
				keep[f.what] = append(keep[f.what], f.took)
			}
		}
		return misses
	})
}

// deaths has the holder's host die and come back, and then its data network.
func (l *ospfLab) deaths() (all []ospfFigure) {
	l.t.Helper()
	note := func(what string, took, limit time.Duration) { all = append(all, ospfFigure{what, took, limit}) }
	l.rested()
	began := l.powerOff()
	for _, v := range l.vips {
		note("power off, "+v.taken(), l.takeover(v, began), 1500*time.Millisecond) // that gossip keeps its bounds is shown in two-dc
	}
	l.powerOn()
	l.rested()
	began = time.Now()
	l.Cut("lb1:eth1")
	for _, v := range l.vips {
		limit := 4 * time.Second
		if v.next == "bird" {
			limit = 8 * time.Second
		}
		note("data network cut, gossip intact, "+v.taken(), l.takeover(v, began), limit)
		note("of that since the kernel lost the route, "+v.taken(), l.reaction(v, began), 300*time.Millisecond)
	}
	l.Heal("lb1:eth1")
	began = time.Now()
	l.settled()
	note("data network back, until there is one holder", time.Since(began), 15*time.Second)
	return all
}

// taken is who takes a VIP over.
func (v ospfVIP) taken() string { return v.next + " takes over, " + v.family }

// daemonDies: rhid is killed on lb1, whose route stays: gossip misses it, the
// kernel's table does not, and nothing moves.
func (l *ospfLab) daemonDies() {
	l.t.Helper()
	began := time.Now()
	l.procs["lb1"].Signal(syscall.SIGKILL)
	l.WaitFor("lb2 saying that it still sees the route", ospfHold, func() bool {
		return strings.Contains(l.Node("lb2").Rhid("explain", "atm"), "route-seen")
	})
	for time.Since(began) < ospfHold-time.Second {
		<-time.After(50 * time.Millisecond)
	}
	for v, w := range l.via {
		for _, e := range w.Events() {
			if e.At.After(began) && e.At.Before(began.Add(ospfHold)) {
				l.t.Errorf("%s moved at core after %v: %v", v.prefix, e.At.Sub(began), e)
			}
		}
	}
	l.t.Logf("rhid was killed on the holder: nothing has moved for %s", time.Since(began).Round(100*time.Millisecond))
	l.start("lb1")
	l.trusted()
}

// trusted waits until the hosts know each other after a start. One that has
// started is on trial, and others may take over for that long; and it has no
// witness before it has seen the holder's route and heard who holds it.
func (l *ospfLab) trusted() {
	l.t.Helper()
	l.settled()
	<-time.After(ospfTrial)
	l.settled()
}
