//go:build integration

package scenarios

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/internal/lab"
)

const (
	attrPatience = time.Minute      // with a machine that has other things to do
	attrStop     = 15 * time.Second // stop.timeout and some more
)

// attrConfig has lb1 behind two more hosts, which run on the servers. Each
// router has an eBGP session for IPv4 and an iBGP session for IPv6, and is not
// told of the other's service.
const attrConfig = `
cluster: {name: attributes, detection: fast, settle_timeout: 2s}
bgp: {asn: 65010, hold: 3s}
vip: {bind: never}
stop: {drain_time: 1m, timeout: 2m}
sites: [{name: far}, {name: near, attributes: {
  ranks: [
    {med: 11, local_preference: 300, communities: ["65000:1"]},
    {prepend: 2, local_preference: 200, origin: egp, communities: ["65000:2", "65010:9:2"]}],
  worst: {med: 99, prepend: 4, local_preference: 50, origin: incomplete, communities: ["65000:9"]},
  draining: {med: 77, prepend: 5, local_preference: 10, communities: ["65000:7"]},
  degraded: {prepend: 3, local_preference: 20, origin: incomplete, communities: ["65000:8"]}}}]
nodes:
  - name: lb1
    site: near
    id: 1
    address: 10.9.1.254
    routers:
      - {name: tor-frr, address: 10.1.1.2, asn: 65001, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4], services: [atm, for-frr]}
      - {name: tor-frr-6, address: "fd00:1:1::2", asn: 65010, families: [ipv6], next_hop6: "fd00:1:1::99"}
      - {name: tor-bird, address: 10.1.2.2, asn: 65002, ttl_security: true, password_file: /etc/rhid/bgp.pw, families: [ipv4], services: [atm, for-bird]}
      - {name: tor-bird-6, address: "fd00:1:2::2", asn: 65010, families: [ipv6], next_hop6: "fd00:1:2::99"}
  - {name: lb2, site: far, id: 2, address: 10.9.1.1, routers: [{name: tor-frr, address: 10.1.1.2, asn: 65001, multihop: 3, next_hop6: "fd00:9:1::1"}]}
  - {name: lb3, site: far, id: 3, address: 10.9.1.2, routers: [{name: tor-frr, address: 10.1.1.2, asn: 65001, multihop: 3, next_hop6: "fd00:9:1::2"}]}
checks:
  pool: {type: tcp, interval: 200ms, timeout: 150ms, fall: 2, rise: 2}
services:
  - {name: atm, vips: [10.255.0.10/32, "fd00:255::10/128"], order: [lb2, lb3, lb1], announcers: 3, all_down: keep, communities: ["65010:7"],
     failback: {delay: 300ms}, servers: {addresses: ["10.9.1.1:9500"]}, check: pool, metric: {base: 100, step: 100}}
  - {name: for-frr, vips: [10.255.0.30/32], order: [lb1], servers: {addresses: ["10.9.1.1:9100"]}, check: pool}
  - {name: for-bird, vips: [10.255.0.31/32], order: [lb1], servers: {addresses: ["10.9.1.1:9100"]}, check: pool}
`

// attrState is what all routers must have of atm from lb1 in a state, over eBGP
// and iBGP. Of the next hops one router has lb1's own, and one that was given.
type attrState struct{ name, ebgp, ibgp string }

// attrLab is the one-site scenario with three hosts.
type attrLab struct {
	*siteLab
	rhids map[string]*lab.Proc
	lines []string // of the table
}

// startAttributes starts the network with iBGP sessions besides, and two more
// hosts' way to tor-frr.
func startAttributes(t *testing.T) *attrLab {
	t.Helper()
	s := &attrLab{siteLab: startSite(t, lab.Options{}), rhids: map[string]*lab.Proc{}}
	(&guards{siteLab: s.siteLab}).frr("ip route 10.9.1.0/24 10.1.1.1", "router bgp 65001", "no neighbor fd00:1:1::1",
		"neighbor 10.9.1.1 remote-as 65010", "neighbor 10.9.1.1 ebgp-multihop 3", "neighbor 10.9.1.1 timers connect 1",
		"neighbor 10.9.1.2 remote-as 65010", "neighbor 10.9.1.2 ebgp-multihop 3", "neighbor 10.9.1.2 timers connect 1",
		"address-family ipv4 unicast", "neighbor 10.9.1.1 activate", "neighbor 10.9.1.1 route-map VIPS in", "neighbor 10.9.1.1 route-map VIPS out",
		"neighbor 10.9.1.2 activate", "neighbor 10.9.1.2 route-map VIPS in", "neighbor 10.9.1.2 route-map VIPS out", "exit-address-family",
		"address-family ipv6 unicast", "neighbor 10.9.1.1 activate", "neighbor 10.9.1.1 route-map VIPS in", "neighbor 10.9.1.1 route-map VIPS out",
		"neighbor 10.9.1.2 activate", "neighbor 10.9.1.2 route-map VIPS in", "neighbor 10.9.1.2 route-map VIPS out", "exit-address-family", "exit",
		"router bgp 65010 view INNER", "no bgp default ipv4-unicast", "bgp router-id 10.1.0.1", "timers bgp 1 3",
		"neighbor fd00:1:1::1 remote-as 65010", "neighbor fd00:1:1::1 timers connect 1",
		"address-family ipv6 unicast", "neighbor fd00:1:1::1 activate", "neighbor fd00:1:1::1 route-map VIPS in", "neighbor fd00:1:1::1 route-map VIPS out")
	bird, err := s.torBird.ReadFile("/etc/bird/bird.conf")
	if err != nil {
		t.Fatal(err)
	}
	bird = strings.Replace(bird, "protocol bgp rhid6 from rhid {\n", "protocol bgp rhid6 from timing {\n  local as 65010;\n", 1)
	s.torBird.WriteFile("/tmp/bird.conf", bird)
	s.torBird.Must("birdc", `configure "/tmp/bird.conf"`)

	s.lb.Sysctl("net.ipv4.ip_forward", "1")
	binary, err := os.ReadFile(lab.BuildRhid(t, false))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*lab.Node{s.srv1, s.srv2} {
		n.Must("ip", "route", "add", "10.1.1.0/30", "via", "10.9.1.254")
		n.WriteFile("/usr/bin/rhid", string(binary))
		n.Must("chmod", "755", "/usr/bin/rhid")
		n.WriteFile("/etc/rhid/bgp.pw", "lab-only-password\n")
	}
	return s
}

// start starts rhid on a host.
func (s *attrLab) start(name, config string) {
	s.t.Helper()
	n := map[string]*lab.Node{"lb1": s.lb, "lb2": s.srv1, "lb3": s.srv2}[name]
	n.WriteFile(siteConfig, config)
	s.rhids[name] = n.StartRhid(siteConfig, "--node", name)
}

// attrText is a path as the table has it. An eBGP session carries no local
// preference, so it does not count there.
func attrText(session string, p lab.BGPPath) string {
	slices.Sort(p.Communities)
	slices.Sort(p.LargeCommunities)
	path := strings.Trim(fmt.Sprint(p.ASPath), "[]")
	text := fmt.Sprintf("med %d, path [%s], %s, %s, %s", p.MED, path, p.Origin, strings.Join(p.Communities, " "), strings.Join(p.LargeCommunities, " "))
	if strings.HasSuffix(session, "iBGP") {
		text += fmt.Sprintf(", preference %d", p.LocalPref)
	}
	return text
}

// paths are what the routers have of atm from lb1.
func (s *attrLab) paths() map[string]lab.BGPPath {
	s.t.Helper()
	out := map[string]lab.BGPPath{}
	take := func(session string, all []lab.BGPPath, from string) {
		for _, p := range all {
			if p.From == netip.MustParseAddr(from) {
				out[session] = p
			}
		}
	}
	take("FRR eBGP", s.torFRR.FRRBGP(siteATM), "10.1.1.1")
	take("FRR iBGP", s.torFRR.FRRView("INNER", siteATM6), "fd00:1:1::1")
	take("BIRD eBGP", s.torBird.BirdBGP(siteATM), "10.1.2.1")
	take("BIRD iBGP", s.torBird.BirdBGP(siteATM6), "fd00:1:2::99") // the next hop that lb1 was given
	return out
}

// expect waits until every session has what belongs to a state.
func (s *attrLab) expect(want attrState) {
	s.t.Helper()
	hops := map[string]string{"FRR eBGP": "10.1.1.1", "BIRD eBGP": "10.1.2.1", "FRR iBGP": "fd00:1:1::99", "BIRD iBGP": "fd00:1:2::99"}
	wanted := func(session string) string {
		if strings.HasSuffix(session, "iBGP") {
			return want.ibgp
		}
		return want.ebgp
	}
	var got map[string]lab.BGPPath
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		got = s.paths()
		wrong := 0
		for session, hop := range hops {
			if p := got[session]; attrText(session, p) != wanted(session) || p.NextHop.String() != hop {
				wrong++
			}
		}
		if wrong == 0 || time.Since(began) > attrPatience {
			break
		}
	}
	for _, session := range slices.Sorted(maps.Keys(hops)) {
		p := got[session]
		if is := attrText(session, p); is != wanted(session) || p.NextHop.String() != hops[session] {
			s.t.Errorf("%s at %s: next hop %v, %s; want %s, %s", want.name, session, p.NextHop, is, hops[session], wanted(session))
		}
		s.lines = append(s.lines, fmt.Sprintf("%-13s %-9s via %-12s %s", want.name, session, p.NextHop, attrText(session, p)))
	}
}

// TestAttributesAtRouters drives one host through its ranks and states and reads
// what FRR and BIRD have, over eBGP and iBGP. Which services a router is told of
// is read there, too.
func TestAttributesAtRouters(t *testing.T) {
	s := startAttributes(t)
	pool := s.srv1.Serve("10.9.1.1:9500")
	for _, n := range []string{"lb2", "lb3", "lb1"} {
		s.start(n, attrConfig)
	}
	s.expect(attrState{
		"rank 2, worst", "med 99, path [65010 65010 65010 65010 65010], incomplete, 65000:9 65010:7, 65010:1:2",
		"med 99, path [], incomplete, 65000:9 65010:7, 65010:1:2, preference 50",
	})
	s.toldApart()
	s.lb.Rhid("drain", "node:lb3")
	s.expect(attrState{
		"rank 1", "med 200, path [65010 65010 65010], egp, 65000:2 65010:7, 65010:1:1 65010:9:2",
		"med 200, path [], egp, 65000:2 65010:7, 65010:1:1 65010:9:2, preference 200",
	})
	s.lb.Rhid("drain", "node:lb2")
	best := attrState{
		"rank 0", "med 11, path [65010], igp, 65000:1 65010:7, 65010:1:0",
		"med 11, path [], igp, 65000:1 65010:7, 65010:1:0, preference 300",
	}
	s.expect(best)
	for _, n := range []string{"lb2", "lb3"} { // else these are the last holders as well
		s.rhids[n].Signal(syscall.SIGKILL)
	}
	s.WaitFor("lb1 to be alone", siteUp, func() bool { return len(s.status().Services[0].Holders) == 1 })
	pool.Stop()
	s.expect(attrState{
		"degraded", "med 400, path [65010 65010 65010 65010], incomplete, 65000:8 65010:7, 65010:0:1 65010:1:3",
		"med 400, path [], incomplete, 65000:8 65010:7, 65010:0:1 65010:1:3, preference 20",
	})
	s.srv1.Serve("10.9.1.1:9500")
	s.expect(best)
	s.rhids["lb1"].Signal(syscall.SIGTERM)
	s.expect(attrState{
		"draining", "med 77, path [65010 65010 65010 65010 65010 65010], igp, 65000:7 65010:7 65535:0, 65010:1:3",
		"med 77, path [], igp, 65000:7 65010:7 65535:0, 65010:1:3, preference 10",
	})
	t.Logf("what the routers have of lb1 by rank and state: MED, path, origin, communities, large communities\n%s", strings.Join(s.lines, "\n"))
}

// toldApart sees to it that each router has its own service and not the other's.
func (s *attrLab) toldApart() {
	s.t.Helper()
	for _, tt := range []struct {
		router *lab.Node
		has    string
		lacks  string
	}{{s.torFRR, "10.255.0.30/32", "10.255.0.31/32"}, {s.torBird, "10.255.0.31/32", "10.255.0.30/32"}} {
		s.WaitFor(tt.has+" at "+tt.router.Name, siteUp, func() bool { return tt.router.BGP(tt.has).Present })
		if tt.router.BGP(tt.lacks).Present {
			s.t.Errorf("%s has %s, which is not for it", tt.router.Name, tt.lacks)
		}
	}
}
