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

// rested waits until BIRD announces a prefix again without delay: it lets 5 s
// pass between two LSAs of one prefix.
func (l *ospfLab) rested() { <-time.After(6 * time.Second) }

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
	off, cut, own := map[ospfVIP]spread{}, map[ospfVIP]spread{}, map[ospfVIP]spread{}
	var healed spread
	for range ospfRuns(t) {
		l.rested()
		began := l.powerOff()
		for _, v := range l.vips {
			off[v] = append(off[v], l.takeover(v, began))
		}
		l.powerOn()
		l.rested()
		began = time.Now()
		l.Cut("lb1:eth1")
		for _, v := range l.vips {
			cut[v] = append(cut[v], l.takeover(v, began))
			own[v] = append(own[v], l.reaction(v, began))
		}
		l.Heal("lb1:eth1")
		began = time.Now()
		l.settled()
		healed = append(healed, time.Since(began))
	}
	for _, v := range l.vips {
		limit := 4 * time.Second
		if v.next == "bird" {
			limit = 8 * time.Second
		}
		what := v.next + " takes over, " + v.family
		l.print("power off, "+what, off[v], 1500*time.Millisecond) // that gossip keeps its bounds is shown in two-dc
		l.print("data network cut, gossip intact, "+what, cut[v], limit)
		l.print("of that since the kernel lost the route, "+what, own[v], 300*time.Millisecond)
	}
	l.print("data network back, until there is one holder", healed, 15*time.Second)

	l.hold()
	l.daemonDies()
	l.rested()
	began := l.powerOff()
	for _, v := range l.vips {
		l.print(fmt.Sprintf("power off, with kernel.witness_hold %s, %s takes over, %s", ospfHold, v.next, v.family), spread{l.takeover(v, began)}, ospfHold+time.Second)
	}
}

// print prints the figures and holds them against a limit.
func (l *ospfLab) print(what string, all spread, limit time.Duration) {
	l.t.Helper()
	l.t.Logf("%s: %s", what, all)
	if worst := slices.Max(all); worst > limit {
		l.t.Errorf("%s: %s is longer than %s", what, worst, limit)
	}
}

// daemonDies: rhid is killed on lb1, whose route stays: gossip misses it, the
// kernel's table does not, and nothing moves.
func (l *ospfLab) daemonDies() {
	l.t.Helper()
	for _, w := range l.via {
		w.Reset()
	}
	began := time.Now()
	l.procs["lb1"].Signal(syscall.SIGKILL)
	l.WaitFor("lb2 saying that it still sees the route", ospfHold, func() bool {
		return strings.Contains(l.Node("lb2").Rhid("explain", "atm"), "route-seen")
	})
	for time.Since(began) < ospfHold-time.Second {
		<-time.After(50 * time.Millisecond)
	}
	for v, w := range l.via {
		if events := w.Events(); len(events) > 0 {
			l.t.Errorf("%s moved at core: %v", v.prefix, events)
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
	<-time.After(3 * time.Second)
	l.settled()
}
