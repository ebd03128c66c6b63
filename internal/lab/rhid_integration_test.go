//go:build integration

package lab_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"rhid/internal/lab"
)

// still is how long the machine may stand still for a bound to count.
const still = 200 * time.Millisecond

// TestOneSiteWithRhid walks through what the scenario's README shows.
func TestOneSiteWithRhid(t *testing.T) {
	l := lab.Start(t, oneSite, lab.Options{Rhid: lab.BuildRhid(t, false)})
	lb1, branch := l.Node("lb1"), l.Node("branch")
	rhid := lb1.StartRhid("/etc/rhid/rhid.yaml")
	gateways := map[string][]string{
		"10.255.0.10/32": {"10.2.1.1", "10.2.2.1"}, // both top-of-rack routers
		"10.255.0.20/32": {"10.2.3.1", "10.2.4.1"}, // both cores
	}
	everywhere := func() bool {
		for prefix, want := range gateways {
			if !slices.Equal(vias(branch, prefix), want) {
				return false
			}
		}
		return len(branch.Kernel("fd00:255::10/128")) == 2 && len(branch.Kernel("fd00:255::20/128")) == 2
	}
	nowhere := func() bool {
		n := 0
		for _, p := range []string{"10.255.0.10/32", "10.255.0.20/32", "fd00:255::10/128", "fd00:255::20/128"} {
			n += len(branch.Kernel(p))
		}
		return n == 0
	}
	l.WaitFor("all VIPs at branch, each by two routers", time.Minute, everywhere)
	for _, tor := range []string{"tor-frr", "tor-bird"} {
		for _, p := range []string{"10.255.0.10/32", "fd00:255::10/128"} {
			path := l.Node(tor).BGP(p)
			if path.MED != 100 || !slices.Equal(path.ASPath, []uint32{65010}) || !slices.Contains(path.LargeCommunities, "65010:1:0") {
				t.Errorf("%s at %s: %+v", p, tor, path)
			}
		}
	}
	client := l.Node("client")
	probers := []*lab.Prober{
		client.Probe("10.255.0.10:9100", tick), client.Probe("[fd00:255::10]:9100", tick),
		client.ProbeHTTP("10.255.0.20:9200", tick), client.ProbeHTTP("[fd00:255::20]:9200", tick),
	}
	for _, p := range probers {
		both := func() bool { r := p.Result(); return r.Who["srv1"] > 2 && r.Who["srv2"] > 2 }
		l.WaitFor("answers of both servers", time.Minute, both)
		since := time.Now() // before, a router may have told of a route that its own kernel did not have yet
		p.Reset()
		l.WaitFor("answers of both servers again", time.Minute, both)
		p.Stop()
		for _, a := range p.Attempts() {
			if a.Error != "" && a.Start.After(since) {
				t.Errorf("%+v", a)
			}
		}
	}
	for _, srv := range []string{"srv1", "srv2"} {
		l.Node(srv).KillAll("haproxy")
	}
	l.WaitFor("the VIPs to be withdrawn", time.Minute, nowhere)
	for _, srv := range []string{"srv1", "srv2"} {
		l.Node(srv).Must("haproxy", "-D", "-f", "/etc/haproxy/haproxy.cfg")
	}
	l.WaitFor("the VIPs to come back", time.Minute, everywhere)
	rhid.Signal(syscall.SIGTERM)
	l.WaitFor("the drain at tor-frr (RFC 8326)", time.Minute, func() bool {
		return slices.Contains(l.Node("tor-frr").BGP("10.255.0.10/32").Communities, "65535:0")
	})
	if err := rhid.Wait(time.Minute); err != nil {
		t.Errorf("rhid ended with %v", err)
	}
	l.WaitFor("the VIPs to be gone with rhid", time.Minute, nowhere)
}

// TestKilledRhidIsForgotten kills rhid as soon as its VIP is at the branch, when
// the routers have only just come up: none of them may hold on to it.
func TestKilledRhidIsForgotten(t *testing.T) {
	bin := lab.BuildRhid(t, false)
	lab.Steady(t, still, func() (misses []string) {
		l := lab.Start(t, oneSite, lab.Options{Rhid: bin})
		branch := l.Node("branch")
		rhid := l.Node("lb1").StartRhid("/etc/rhid/rhid.yaml")
		prefixes := []string{"10.255.0.10/32", "fd00:255::10/128"}
		for _, p := range prefixes {
			l.WaitFor(p+" at branch", time.Minute, func() bool { return len(branch.Kernel(p)) > 0 })
		}
		began := time.Now()
		rhid.Kill()
		for _, p := range prefixes {
			l.WaitFor(p+" to be gone", time.Minute, func() bool { return len(branch.Kernel(p)) == 0 })
			took := time.Since(began)
			t.Logf("%s gone from the branch after %v", p, took.Round(time.Millisecond))
			if took > 3*time.Second {
				misses = append(misses, fmt.Sprintf("%s was at the branch for %v after rhid was killed", p, took))
			}
		}
		return misses
	})
}
