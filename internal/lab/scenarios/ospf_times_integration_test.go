//go:build integration

package scenarios

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"rhid/internal/lab"
)

const (
	timesAbove = 5 * time.Millisecond    // what rhid may add to the median of the bare route
	timesFew   = 10                      // figures are needed for that: the bare route alone varies by more
	timesGross = 30 * time.Millisecond   // what it may add to the least of fewer
	timesMore  = 3                       // times that fewer are taken at most: the routers' own timers add to one at times
	timesRest  = 1500 * time.Millisecond // FRR puts off what follows a change of the network by up to a second
	timesPause = 6200 * time.Millisecond // BIRD keeps 5 s between two LSAs of a prefix, and looks once a second
)

// ospfPath is one way from lb1 to the branch over two OSPF hops.
type ospfPath struct {
	daemon string // beside rhid
	dev    string // at the branch
	other  string // lb1's link of the other daemon, cut meanwhile
	pause  time.Duration
}

func ospfPaths() []ospfPath {
	return []ospfPath{
		{"FRR", "eth3", "lb1:eth4", timesRest},
		{"BIRD", "eth4", "lb1:eth3", timesPause},
	}
}

// TestOSPFTimes measures a route from lb1's kernel to the branch's, over two OSPF
// hops, through FRR and through BIRD, IPv4 and IPv6: bare, by somebody who adds
// and deletes it, and by rhid, from its decision. rhid adds at most 5 ms to the
// median of RHID_RUNS=10; less often than that only something gross shows, and
// not in one figure, which a router or a machine that stands still may spoil.
func TestOSPFTimes(t *testing.T) {
	s := &ospfTimes{siteLab: startSite(t, lab.Options{}), figures: map[string]spread{}, far: map[string]*lab.FIBWatch{}}
	s.host = watchKernel(t, s.lb)
	for _, v := range []string{siteCounter, siteCounter6} {
		s.far[v] = s.branch.WatchFIB(v)
	}
	health := s.srv1.Serve("10.9.1.1:9300")
	for _, p := range ospfPaths() {
		s.Cut(p.other)
		s.WaitFor("the way by "+p.dev, siteUp, func() bool { return s.adjacent(p) })
		for try := 1; ; try++ {
			s.bare(p)
			rhid := s.run(p.config(s.config(10, 10)))
			s.byRhid(p, health)
			s.lb.StopRhid(rhid, siteUp)
			wrong := s.compare(p)
			if len(wrong) == 0 {
				break
			}
			t.Log(strings.Join(wrong, "\n"))
			if try == timesMore || s.runs() >= timesFew {
				t.Errorf("%s: rhid adds too much", p.daemon)
				break
			}
		}
		s.Heal(p.other)
		s.lb.Must("sh", "-c", "ip addr replace fd00:1:3::1/64 dev eth3; ip addr replace fd00:1:4::1/64 dev eth4")
	}
	s.costs()
	for _, name := range slices.Sorted(maps.Keys(s.figures)) {
		t.Logf("%-42s %v", name, s.figures[name])
	}
}

// adjacent says whether lb1's daemon has its neighbour in both families.
func (s *ospfTimes) adjacent(p ospfPath) bool {
	s.t.Helper()
	if p.daemon == "BIRD" {
		return strings.Contains(s.lb.Must("birdc", "show ospf neighbors o4"), "Full") &&
			strings.Contains(s.lb.Must("birdc", "show ospf neighbors o6"), "Full")
	}
	return slices.Contains(s.vias(s.lb, "10.3.0.0/24"), "10.1.3.2") &&
		strings.Contains(s.lb.Must("vtysh", "-c", "show ipv6 ospf6 neighbor"), "Full")
}

type ospfTimes struct {
	*siteLab
	host    *siteKernel
	far     map[string]*lab.FIBWatch // at branch
	figures map[string]spread
}

// config has rhid ask one daemon only, so that the spacing is that of this one.
func (p ospfPath) config(text string) string {
	return strings.Replace(text, "from: [frr, bird]", "from: ["+strings.ToLower(p.daemon)+"]", 1)
}

// config has one service, with a cost for FRR and one for
// BIRD. FRR's costs are those of the next hop and of the device.
func (s *ospfTimes) config(tier, metric int) string {
	s.t.Helper()
	head, _, _ := strings.Cut(s.shipped(), "checks:\n")
	if tier == 100 {
		head = strings.Replace(head, "tiers: [10, 100, 200]", "tiers: [100, 10, 200]", 1)
		head = strings.Replace(head, siteDevices, "tier_devices: [rhid-t1, rhid-t0, rhid-t2]", 1)
	}
	return head + fmt.Sprintf(`vip: {linger: 500ms}
checks:
  health: {type: tcp, interval: 300ms, timeout: 250ms, fall: 2, rise: 2}
services:
  - {name: counter, vips: [%s, %q], via: [kernel], servers: {addresses: ["10.9.1.1:9300"]}, check: health, metric: {base: %d, step: 90}, damping: {penalty: 0}}
`, siteCounter, siteCounter6, metric)
}

func (s *ospfTimes) note(p ospfPath, who, what, vip string, took time.Duration) {
	family := "IPv4"
	if netip.MustParsePrefix(vip).Addr().Is6() {
		family = "IPv6"
	}
	name := fmt.Sprintf("%s %s, %s, %s", p.daemon, family, what, who)
	s.figures[name] = append(s.figures[name], took)
}

// bare adds and deletes the routes as rhid would.
func (s *ospfTimes) bare(p ospfPath) {
	s.t.Helper()
	device, err := s.host.nl.LinkByName("rhid-t0")
	if err != nil {
		s.t.Fatal(err)
	}
	routes := map[string]*netlink.Route{siteCounter: bareRoute(siteCounter, 1), siteCounter6: bareRoute(siteCounter6, device.Attrs().Index)}
	time.Sleep(p.pause)
	for range s.runs() {
		for _, vip := range []string{siteCounter, siteCounter6} {
			s.far[vip].Reset()
			began := time.Now()
			if err := s.host.nl.RouteAdd(routes[vip]); err != nil {
				s.t.Fatal(err)
			}
			s.note(p, "bare", "announce", vip, s.far[vip].WaitThere(siteUp).At.Sub(began))
		}
		time.Sleep(p.pause)
		for _, vip := range []string{siteCounter, siteCounter6} {
			s.far[vip].Reset()
			began := time.Now()
			if err := s.host.nl.RouteDel(routes[vip]); err != nil {
				s.t.Fatal(err)
			}
			s.note(p, "bare", "withdraw", vip, s.far[vip].WaitGone(siteUp).At.Sub(began))
		}
		time.Sleep(p.pause)
	}
}

func bareRoute(vip string, link int) *netlink.Route {
	prefix := netip.MustParsePrefix(vip)
	r := &netlink.Route{
		Dst:       &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())},
		LinkIndex: link, Protocol: siteProto, Priority: 10, Table: unix.RT_TABLE_MAIN,
	}
	if prefix.Addr().Is4() {
		r.Gw, r.Flags = net.IPv4(169, 254, 100, 10), int(netlink.FLAG_ONLINK)
	}
	return r
}

func (s *ospfTimes) runs() int { return runs(s.t) }

// byRhid has the pool live and die. The figures begin with rhid's decision.
func (s *ospfTimes) byRhid(p ospfPath, health *lab.Server) {
	s.t.Helper()
	s.announced(true)
	for range s.runs() {
		time.Sleep(p.pause)
		s.decided(p, "withdraw", health.Stop, func(w *lab.FIBWatch) time.Time { return w.WaitGone(siteUp).At })
		s.announced(false)
		time.Sleep(p.pause)
		s.decided(p, "announce", health.Resume, func(w *lab.FIBWatch) time.Time { return w.WaitThere(siteUp).At })
		s.announced(true)
	}
}

// decided makes rhid decide and takes the time from then.
func (s *ospfTimes) decided(p ospfPath, what string, cause func(), seen func(*lab.FIBWatch) time.Time) {
	s.t.Helper()
	for _, w := range s.far {
		w.Reset()
	}
	last := s.lastEvent()
	cause()
	at := map[string]time.Time{}
	for vip, w := range s.far {
		at[vip] = seen(w)
	}
	decision := s.waitEvent(last, "service", what, siteUp).Time
	for vip := range s.far {
		s.note(p, "rhid", what, vip, at[vip].Sub(decision))
	}
}

// costs makes one daemon's cost worse and better again, with both ways open: the
// branch leaves that way and comes back. The figures begin with the new route in
// lb1's kernel. rhid asks FRR only, so that changes which do not concern BIRD need
// not be as far apart as BIRD's.
func (s *ospfTimes) costs() {
	s.t.Helper()
	asking := ospfPaths()[0]
	near := map[string]*lab.FIBWatch{siteCounter: s.lb.WatchFIB(siteCounter), siteCounter6: s.lb.WatchFIB(siteCounter6)}
	good := asking.config(s.config(10, 10))
	rhid := s.run(good)
	s.waitBranch(siteCounter, siteCounter6)
	for range max(1, s.runs()/2) {
		for _, p := range ospfPaths() {
			worse := s.config(100, 10)
			if p.daemon == "BIRD" {
				worse = s.config(10, 100)
			}
			s.cost(p, near, "cost up", asking.config(worse), false)
			s.cost(p, near, "cost down", good, true)
		}
	}
	s.lb.StopRhid(rhid, siteUp)
}

// cost is one change of cost, after which the branch's way by a daemon is open or
// not.
func (s *ospfTimes) cost(p ospfPath, near map[string]*lab.FIBWatch, what, text string, open bool) {
	s.t.Helper()
	time.Sleep(p.pause)
	for vip := range near {
		near[vip].Reset()
		s.far[vip].Reset()
	}
	s.configure(text)
	s.lb.Rhid("reload")
	for vip := range near {
		began := near[vip].Wait("the new form", siteUp, func(e lab.FIBEvent) bool { return !isDelete(e) }).At
		moved := s.far[vip].Wait("the way by "+p.dev+" changed", siteUp, func(e lab.FIBEvent) bool {
			return !isDelete(e) && open == slices.ContainsFunc(e.Hops, func(r lab.KernelRoute) bool { return r.Dev == p.dev })
		}).At
		s.note(p, "kernel to kernel", what, vip, moved.Sub(began))
	}
}

// announced waits until rhid's status has the routes as wanted in both kernels
// and databases.
func (s *ospfTimes) announced(wanted bool) {
	s.t.Helper()
	for _, vip := range []string{siteCounter, siteCounter6} {
		s.WaitFor(fmt.Sprintf("status of %s: %v and so", vip, wanted), siteUp, func() bool {
			for _, svc := range s.status().Services {
				for _, v := range svc.VIPs {
					if st := v.Routes["kernel"]; v.Prefix.String() == vip {
						return st.Wanted == wanted && st.Here == wanted && st.Differs.IsZero()
					}
				}
			}
			return false
		})
	}
}

// compare holds the medians together, of a path's figures so far, and returns
// what is too much.
func (s *ospfTimes) compare(p ospfPath) (wrong []string) {
	s.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.figures)) {
		what, ok := strings.CutSuffix(name, ", rhid")
		if !ok || !strings.HasPrefix(name, p.daemon) {
			continue
		}
		by := s.figures[name]
		middle, limit := median[time.Duration], timesAbove
		if len(by) < timesFew {
			middle, limit = slices.Min[[]time.Duration], timesGross
		}
		bare := middle(s.figures[what+", bare"])
		above := middle(by) - bare
		s.t.Logf("%-42s rhid adds %s to %s", what, ms(above), ms(bare))
		if above > limit {
			wrong = append(wrong, fmt.Sprintf("%s: rhid adds %v, want at most %v", what, above, limit))
		}
	}
	return wrong
}

// ranksDrain is how long rhid drains at its end, which the test cuts short: long
// enough for kernel.spacing, and for BIRD, which lets 5 s pass between two LSAs.
const ranksDrain = 30 * time.Second

// TestCostOfRanks has rhid drain at its end, with orders of one and of two nodes,
// and so announce at rank 0, at 2, and with RHID_FULL at 1: the LSAs have the cost
// of each, in IPv4 and in IPv6, through FRR by the tier's next hop or device and
// through BIRD by the metric.
func TestCostOfRanks(t *testing.T) {
	s := startSite(t, lab.Options{})
	ranks := []int{0, 2}
	if os.Getenv("RHID_FULL") != "" {
		ranks = []int{0, 1, 2}
	}
	for _, rank := range ranks {
		metric := 10 + 90*rank
		frr := []int{10, 100, 200}[rank]
		nodes := "  - {name: lb1, site: beijing, address: 10.1.0.11}\n"
		for i := 1; i < rank; i++ {
			nodes += fmt.Sprintf("  - {name: other%d, site: beijing, address: 10.1.0.%d}\n", i, 100+i)
		}
		text := strings.Replace(s.shipped(), "  - {name: lb1, site: beijing, address: 10.1.0.11}\n", nodes, 1)
		drain := ranksDrain
		if rank == 0 {
			drain = 300 * time.Millisecond // nobody looks at it
		}
		text = strings.Replace(text, "cluster:\n", fmt.Sprintf("stop: {drain_time: %v, timeout: %v}\ncluster:\n  settle_timeout: 1s\n", drain, 2*ranksDrain), 1)
		text = strings.Replace(text, "    via: [kernel]\n", "    via: [kernel]\n    order: ["+order(rank)+"]\n", 1)
		p := s.run(text)
		s.waitBranch(siteCounter, siteCounter6)
		if rank > 0 {
			p.Signal(syscall.SIGTERM)
		}
		for _, c := range []struct {
			node *lab.Node
			vip  string
			cost int
		}{
			{s.coreFRR, siteCounter, frr}, {s.coreBird, siteCounter, metric},
			{s.coreFRR, siteCounter6, frr}, {s.coreBird, siteCounter6, metric},
		} {
			s.WaitFor(fmt.Sprintf("rank %d: cost %d of %s from the side of %s", rank, c.cost, c.vip, c.node.Name), ranksDrain, func() bool {
				got, ok := s.ownCost(c.node, c.vip)
				return ok && got == c.cost
			})
			t.Logf("rank %d: %-17s %s: external cost %d", rank, c.vip, c.node.Name, c.cost)
		}
		p.Signal(syscall.SIGTERM) // the second one skips the drain
		if err := p.Wait(ranksDrain); err != nil {
			t.Errorf("the end of rhid: %v", err)
		}
	}
}

// order is an order of so many nodes, one at the least.
func order(n int) string {
	out := "lb1"
	for i := 1; i < n; i++ {
		out += fmt.Sprintf(", other%d", i)
	}
	return out
}

// ownCost is the metric of the LSA that the daemon of lb1 on a router's side has
// originated.
func (s *siteLab) ownCost(n *lab.Node, vip string) (int, bool) {
	s.t.Helper()
	id, family := "10.1.0.11", "o4"
	if n == s.coreBird {
		id = "10.1.0.12"
	}
	if netip.MustParsePrefix(vip).Addr().Is6() {
		family = "o6"
	}
	// core-bird prints both daemons' LSAs, whichever is best.
	own := false
	for line := range strings.Lines(s.coreBird.Must("birdc", "show", "ospf", "state", "all", family)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "router" && strings.HasPrefix(line, "\trouter"):
			own = f[1] == id
		case own && len(f) > 3 && f[0] == "external" && f[1] == vip:
			var cost int
			_, err := fmt.Sscan(f[3], &cost)
			return cost, err == nil
		}
	}
	return 0, false
}
