//go:build integration

package lab_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"rhid/internal/lab"
)

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
	l.WaitFor("all VIPs at branch, each by two routers", 30*time.Second, everywhere)
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
		l.WaitFor("answers of both servers", 30*time.Second, func() bool { r := p.Result(); return r.Who["srv1"] > 2 && r.Who["srv2"] > 2 })
		if r := p.Stop(); r.Failed > 0 {
			t.Errorf("%+v", r)
		}
	}
	for _, srv := range []string{"srv1", "srv2"} {
		l.Node(srv).KillAll("haproxy")
	}
	l.WaitFor("the VIPs to be withdrawn", 20*time.Second, nowhere)
	for _, srv := range []string{"srv1", "srv2"} {
		l.Node(srv).Must("haproxy", "-D", "-f", "/etc/haproxy/haproxy.cfg")
	}
	l.WaitFor("the VIPs to come back", 30*time.Second, everywhere)
	rhid.Signal(syscall.SIGTERM)
	l.WaitFor("the drain at tor-frr (RFC 8326)", 30*time.Second, func() bool {
		return slices.Contains(l.Node("tor-frr").BGP("10.255.0.10/32").Communities, "65535:0")
	})
	if err := rhid.Wait(20 * time.Second); err != nil {
		t.Errorf("rhid ended with %v", err)
	}
	l.WaitFor("the VIPs to be gone with rhid", 30*time.Second, nowhere)
}

// TestKilledRhidIsForgotten kills rhid as soon as its VIP is at the branch, when
// the routers have only just come up: none of them may hold on to it.
func TestKilledRhidIsForgotten(t *testing.T) {
	l := lab.Start(t, oneSite, lab.Options{Rhid: lab.BuildRhid(t, false)})
	branch := l.Node("branch")
	rhid := l.Node("lb1").StartRhid("/etc/rhid/rhid.yaml")
	for _, p := range []string{"10.255.0.10/32", "fd00:255::10/128"} {
		l.WaitFor(p+" at branch", 20*time.Second, func() bool { return len(branch.Kernel(p)) > 0 })
	}
	began := time.Now()
	rhid.Kill()
	for _, p := range []string{"10.255.0.10/32", "fd00:255::10/128"} {
		l.WaitFor(p+" to be gone", 3*time.Second, func() bool { return len(branch.Kernel(p)) == 0 })
	}
	t.Logf("gone from the branch after %v", time.Since(began).Round(time.Millisecond))
}
