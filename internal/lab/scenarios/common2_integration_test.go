//go:build integration

package scenarios

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/internal/control"
	"rhid/internal/lab"
)

const (
	siteFile = "../../../lab/containerlab/one-site/one-site.clab.yml"

	// The VIPs of the one-site scenario: atm is an address on lo and goes out by
	// BGP, counter is a local route (AnyIP) and goes out by kernel routes.
	siteATM, siteATM6         = "10.255.0.10/32", "fd00:255::10/128"
	siteCounter, siteCounter6 = "10.255.0.20/32", "fd00:255::20/128"

	// The devices of the tiers, of rank 0, 1 and all that follow.
	siteDevices = "tier_devices: [rhid-t0, rhid-t1, rhid-t2]"

	siteLease = "169.254.151.1/32" // the address that announcement routes are leased by

	siteProto = 151              // rhid's protocol number
	siteUp    = 30 * time.Second // until a fresh network has learned everything

	// stood is how long the machine must have stood still for a bound that was
	// missed meanwhile to be measured again.
	stood = 100 * time.Millisecond
)

// siteVIPs are all of them.
func siteVIPs() []string { return []string{siteATM, siteATM6, siteCounter, siteCounter6} }

// siteLab is the one-site scenario with names for what the tests use of it.
type siteLab struct {
	*lab.Lab
	t                          *testing.T
	lb, torFRR, torBird        *lab.Node
	coreFRR, coreBird          *lab.Node
	branch, client, srv1, srv2 *lab.Node
}

func startSite(t *testing.T, opts lab.Options) *siteLab {
	t.Helper()
	opts.Rhid = lab.BuildRhid(t, false)
	l := lab.Start(t, siteFile, opts)
	return &siteLab{
		Lab: l, t: t,
		lb: l.Node("lb1"), torFRR: l.Node("tor-frr"), torBird: l.Node("tor-bird"),
		coreFRR: l.Node("core-frr"), coreBird: l.Node("core-bird"),
		branch: l.Node("branch"), client: l.Node("client"), srv1: l.Node("srv1"), srv2: l.Node("srv2"),
	}
}

// run starts rhid with a configuration of the test's own, in a file that can
// be changed.
func (s *siteLab) run(config string) *lab.Proc {
	s.t.Helper()
	s.configure(config)
	return s.lb.StartRhid(siteConfig)
}

const siteConfig = "/tmp/rhid.yaml"

func (s *siteLab) configure(config string) {
	s.t.Helper()
	s.lb.WriteFile(siteConfig, config)
}

// shipped is the configuration that the scenario brings along.
func (s *siteLab) shipped() string {
	s.t.Helper()
	text, err := s.lb.ReadFile("/etc/rhid/rhid.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// vias are the gateways of a prefix in the main table of a node, in order.
func (s *siteLab) vias(n *lab.Node, prefix string) []string {
	s.t.Helper()
	var out []string
	for _, r := range n.Kernel(prefix) {
		out = append(out, r.Via.String())
	}
	return out
}

// waitBranch waits until the branch router has each VIP by both of its ways:
// those of BGP by the top-of-rack routers, those of OSPF by the cores.
func (s *siteLab) waitBranch(vips ...string) time.Duration {
	s.t.Helper()
	began := time.Now()
	for _, v := range vips {
		s.WaitFor(v+" at branch by both ways", siteUp, func() bool { return len(s.branch.Kernel(v)) == 2 })
	}
	return time.Since(began)
}

// settled waits until the branch has every VIP by both ways, and the routers on
// these ways have them from lb1. BIRD is slow: it sends an LSA again only 5 s
// after the last time (MinLSInterval, RFC 2328) and then looks once a second,
// while the branch sends half of its packets there.
func (s *siteLab) settled() {
	s.t.Helper()
	s.waitBranch(siteVIPs()...)
	s.overBGP()
	for _, n := range []*lab.Node{s.coreFRR, s.coreBird} {
		s.fromHost(n, siteCounter, siteCounter6)
	}
	time.Sleep(50 * time.Millisecond) // for what was on its way when the last router turned
}

// overBGP waits until both BGP routers have the VIPs of atm.
func (s *siteLab) overBGP() {
	s.t.Helper()
	for _, n := range []*lab.Node{s.torFRR, s.torBird} {
		s.fromHost(n, siteATM, siteATM6)
	}
}

// fromHost waits until a router has VIPs from lb1 and from nobody else.
func (s *siteLab) fromHost(n *lab.Node, vips ...string) {
	s.t.Helper()
	for _, v := range vips {
		s.WaitFor(v+" at "+n.Name+" from lb1", siteUp, func() bool {
			rs := n.Kernel(v)
			return len(rs) == 1 && rs[0].Dev == "eth1"
		})
	}
}

// status asks the daemon. An alarm makes the command end with status 1.
func (s *siteLab) status() control.Status {
	s.t.Helper()
	out, err := s.lb.Run("/usr/bin/rhid", "status", "-o", "json")
	var st control.Status
	if jerr := json.Unmarshal([]byte(out), &st); jerr != nil {
		s.t.Fatalf("rhid status: %v (%v)", jerr, err)
	}
	return st
}

// events are what the daemon noted since the one numbered since.
func (s *siteLab) events(since uint64) []control.Event {
	s.t.Helper()
	var out []control.Event
	for line := range strings.Lines(s.lb.Rhid("events", "-o", "json", "--since", fmt.Sprint(since))) {
		var e control.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatalf("rhid events: %v in %q", err, line)
		}
		out = append(out, e)
	}
	return out
}

// lastEvent is the number of the newest event.
func (s *siteLab) lastEvent() uint64 {
	s.t.Helper()
	all := s.events(0)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Seq
}

// waitEvent waits for an event after since of a kind and what it says.
func (s *siteLab) waitEvent(since uint64, kind, what string, limit time.Duration) control.Event {
	s.t.Helper()
	var found control.Event
	s.WaitFor("event "+kind+" "+what, limit, func() bool {
		all := s.events(since)
		i := slices.IndexFunc(all, func(e control.Event) bool { return e.Kind == kind && e.What == what })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// siteSession is what an FRR router knows of a session's life.
type siteSession struct {
	State       string `json:"bgpState"`
	Established int    `json:"connectionsEstablished"` // how often
	Dropped     int    `json:"connectionsDropped"`
}

func (s *siteLab) session(n *lab.Node, neighbour string) siteSession {
	s.t.Helper()
	var reply map[string]siteSession
	if err := json.Unmarshal([]byte(n.Must("vtysh", "-c", "show bgp neighbors "+neighbour+" json")), &reply); err != nil {
		s.t.Fatalf("%s: neighbour %s: %v", n.Name, neighbour, err)
	}
	return reply[neighbour]
}

// same says whether nothing happened to the session between o and n.
func (o siteSession) same(n siteSession) bool { return o == n }

// ms is a duration for people.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
