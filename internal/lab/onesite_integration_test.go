//go:build integration

package lab_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"rhid/internal/lab"
)

const oneSite = "../../lab/containerlab/one-site/one-site.clab.yml"

// vias are the gateways of a prefix in a node's kernel.
func vias(n *lab.Node, prefix string) []string {
	var out []string
	for _, r := range n.Kernel(prefix) {
		out = append(out, r.Via.String())
	}
	return out
}

// TestOneSiteWithoutRhid puts in by hand what rhid's kernel backend would, and
// looks at what the routing daemons of the scenario make of it.
func TestOneSiteWithoutRhid(t *testing.T) {
	l := lab.Start(t, oneSite, lab.Options{Rhid: "/bin/true"})
	lb1, branch := l.Node("lb1"), l.Node("branch")
	for _, peer := range []string{"10.2.1.1", "10.2.2.1", "fd00:2:1::1", "fd00:2:2::1"} {
		l.WaitFor("branch's session with "+peer, time.Minute, func() bool { return branch.BGPUp(peer) })
	}
	for node, peers := range map[string][]string{"tor-frr": {"10.1.1.1", "fd00:1:1::1"}, "tor-bird": {"10.1.2.1", "fd00:1:2::1"}} {
		for _, p := range peers {
			if l.Node(node).BGPUp(p) {
				t.Errorf("%s has a session with %s, where nobody is yet", node, p)
			}
		}
	}
	l.WaitFor("the way back at lb1 by OSPF", time.Minute, func() bool {
		return slices.Contains(vias(lb1, "10.3.0.0/24"), "10.1.3.2") && len(lb1.Kernel("fd00:3::/64")) == 1
	})
	client := l.Node("client").ProbeHTTP("10.255.0.20:9200", 50*time.Millisecond)
	const vip, vip6 = "10.255.0.20/32", "fd00:255::20/128"
	if got := branch.Kernel(vip); len(got) != 0 {
		t.Fatalf("branch has the VIP before it is there: %+v", got)
	}
	wire := lb1.Capture("")
	fib := branch.WatchFIB(vip)
	lb1.Must("ip", "route", "add", "local", vip, "dev", "lo", "table", "local", "proto", "151")
	lb1.Must("ip", "route", "add", "local", vip6, "dev", "lo", "table", "local", "proto", "151")
	lb1.Must("ip", "route", "add", vip, "via", "169.254.100.10", "dev", "lo", "onlink", "proto", "151", "metric", "10")
	lb1.Must("ip", "route", "add", vip6, "dev", "rhid-t0", "proto", "151", "metric", "10")
	lsa := wire.Wait("an LSA of the VIP", time.Minute, func(e lab.Event) bool { return e.Kind == lab.OSPFUpdate && e.Sent && e.Announces(vip) })
	wire.Wait("an LSA of the IPv6 VIP", time.Minute, func(e lab.Event) bool { return e.Kind == lab.OSPFUpdate && e.Sent && e.Announces(vip6) })
	if there := fib.WaitThere(time.Minute); there.At.Before(lsa.At) {
		t.Errorf("branch had the route %v before the LSA left lb1", lsa.At.Sub(there.At))
	}
	both := func() bool { return slices.Equal(vias(branch, vip), []string{"10.2.3.1", "10.2.4.1"}) }
	l.WaitFor("the VIP at branch by both cores", time.Minute, both)
	l.WaitFor("the IPv6 VIP at branch by both cores", time.Minute, func() bool { return len(branch.Kernel(vip6)) == 2 })
	for node, want := range map[string]int{"branch": 30, "core-frr": 20, "core-bird": 20} {
		for _, p := range []string{vip, vip6} {
			l.WaitFor(fmt.Sprintf("cost %d of %s at %s", want, p, node), time.Minute, func() bool { // BIRD works out its routes once a second
				cost, ok := l.Node(node).OSPFCost(p)
				return ok && cost == want
			})
		}
	}
	l.WaitFor("answers of both servers", time.Minute, func() bool {
		r := client.Result()
		return r.Who["srv1"] > 2 && r.Who["srv2"] > 2
	})
	testOneCoreEach(t, l, vip)

	fib.Reset()
	wire.Reset()
	lb1.Must("ip", "route", "del", vip, "proto", "151")
	gone := wire.Wait("the LSA's withdrawal", time.Minute, func(e lab.Event) bool { return e.Kind == lab.OSPFUpdate && e.Sent && e.Withdraws(vip) })
	// What came before may be of the link that was healed last.
	if e := fib.WaitGone(time.Minute); e.At.Before(gone.At) {
		t.Errorf("branch lost its route %v before the withdrawal left lb1: %+v", gone.At.Sub(e.At), e)
	}
	client.Stop()
}

// testOneCoreEach cuts lb1 off from one core after the other.
func testOneCoreEach(t *testing.T, l *lab.Lab, vip string) {
	t.Helper()
	branch := l.Node("branch")
	for cut, left := range map[string]string{"lb1:eth3": "10.2.4.1", "lb1:eth4": "10.2.3.1"} {
		l.Cut(cut)
		l.WaitFor("the VIP at branch by "+left+" only", time.Minute, func() bool { return slices.Equal(vias(branch, vip), []string{left}) })
		l.Heal(cut)
		l.WaitFor("the VIP at branch by both again", time.Minute, func() bool { return len(vias(branch, vip)) == 2 })
	}
}
