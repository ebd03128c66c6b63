//go:build integration

package bgp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/announce"
	"rhid/internal/lab"
)

const frrConfig = `
bgp send-extra-data zebra
router bgp 65000
 bgp router-id 192.0.2.254
 bgp log-neighbor-changes
 no bgp ebgp-requires-policy
 bgp always-compare-med
 timers bgp 1 3
 neighbor LB peer-group
 neighbor LB remote-as 65010
 neighbor LB timers connect 1
 neighbor LB advertisement-interval 0
 neighbor 192.0.2.1 peer-group LB
 neighbor 192.0.2.1 password s3cret-bank
 neighbor 192.0.2.1 ttl-security hops 1
 neighbor 2001:db8:1::1 peer-group LB
 neighbor 2001:db8:1::1 password s3cret-bank
 neighbor 2001:db8:1::1 capability extended-nexthop
 neighbor 10.99.0.1 peer-group LB
 neighbor 10.99.0.1 ebgp-multihop 3
 neighbor 10.99.0.1 update-source 10.99.0.254
 address-family ipv4 unicast
  neighbor LB route-map NONE out
 exit-address-family
 address-family ipv6 unicast
  neighbor LB activate
  neighbor LB route-map NONE out
 exit-address-family
route-map NONE deny 10
`

const birdConfig = `
router id 192.0.2.254;
protocol device { }
template bgp lb {
  local as 65000;
  hold time 3; keepalive time 1; connect retry time 1; connect delay time 1; error wait time 1, 2;
  ipv4 { import all; export none; extended next hop on; };
  ipv6 { import all; export none; };
}
protocol bgp near from lb { neighbor 192.0.2.1 as 65010; password "s3cret-bank"; ttl security on; }
protocol bgp six from lb { neighbor 2001:db8:1::1 as 65010; password "s3cret-bank"; }
protocol bgp far from lb { source address 10.99.0.254; neighbor 10.99.0.1 as 65010; multihop 3; }
protocol bgp ll from lb { neighbor fe80::1%r0 as 65010; }
`

// path is what FRR says of one path of a prefix.
type path struct {
	ASPath struct {
		String string `json:"string"`
	} `json:"aspath"`
	MED       int  `json:"metric"`
	Valid     bool `json:"valid"`
	Community struct {
		String string `json:"string"`
	} `json:"community"`
	Large struct {
		String string `json:"string"`
	} `json:"largeCommunity"`
	Nexthops []struct {
		IP string `json:"ip"`
	} `json:"nexthops"`
	Peer struct {
		ID string `json:"peerId"`
	} `json:"peer"`
}

func (p path) String() string {
	hop := ""
	if len(p.Nexthops) > 0 {
		hop = p.Nexthops[0].IP
	}
	return fmt.Sprintf("from %s via %s path [%s] med %d communities [%s] large [%s]", p.Peer.ID, hop, p.ASPath.String, p.MED, p.Community.String, p.Large.String)
}

// frr is a host with zebra and bgpd.
type frr struct {
	*host
	bgpd *exec.Cmd
}

func startFRR(t *testing.T) *frr {
	f := &frr{host: newHost(t)}
	f.file("bgpd.conf", "log file "+filepath.Join(f.dir, "bgpd.log")+frrConfig)
	f.file("zebra.conf", "")
	f.daemon("/usr/lib/frr/zebra", f.args("zebra")...)
	f.startBGP()
	return f
}

func (f *frr) args(name string) []string {
	return []string{"-f", filepath.Join(f.dir, name+".conf"), "-i", filepath.Join(f.dir, name+".pid"),
		"-z", filepath.Join(f.dir, "zserv.api"), "--vty_socket", f.dir, "-P", "0"}
}

func (f *frr) startBGP() { f.bgpd = f.daemon("/usr/lib/frr/bgpd", f.args("bgpd")...) }

func (f *frr) killBGP() {
	f.t.Helper()
	if err := f.bgpd.Process.Kill(); err != nil {
		f.t.Fatal(err)
	}
	_ = f.bgpd.Wait()
}

// paths asks FRR for the paths of a prefix; nil also while bgpd does not answer.
func (f *frr) paths(prefix string) (out []path) {
	family := "ipv4"
	if strings.Contains(prefix, ":") {
		family = "ipv6"
	}
	b, err := exec.Command("vtysh", "--vty_socket", f.dir, "-d", "bgpd", "-c", "show bgp "+family+" unicast "+prefix+" json").Output()
	if err != nil {
		return nil
	}
	var answer struct {
		Paths []path `json:"paths"`
	}
	_ = json.Unmarshal(b, &answer) // no such prefix: {} or a sentence
	return answer.Paths
}

func routesText(paths []path) string {
	var lines []string
	for _, p := range paths {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func putBoth(b *bench) {
	a := announce.Attrs{Metric: 200, Prepend: 1, Communities: []uint32{65010<<16 | 7},
		LargeCommunities: []announce.LargeCommunity{{Global: ourASN, Local1: 3, Local2: 1}}}
	b.put(vip4, a)
	b.put(vip6, a)
}

func established(b *bench) {
	b.t.Helper()
	for _, n := range routerNeighbours() {
		b.state(n.Address.String(), stateEstablished)
	}
}

// still is how long the machine may stand still for a bound to count.
const still = 200 * time.Millisecond

// backSoon waits until a router that is being started has its three sessions, and
// says if that took too long. GoBGP alone would wait for 5 s.
func backSoon(b *bench, h *host) (misses []string) {
	b.t.Helper()
	begin := h.listening(b)
	established(b)
	took := time.Since(begin)
	b.t.Logf("three sessions established %v after the router listened", took)
	if took > 4*time.Second {
		misses = append(misses, fmt.Sprintf("sessions came back after %v", took))
	}
	return misses
}

func TestFRR(t *testing.T) {
	if !inside(t) {
		return
	}
	f := startFRR(t)
	b := startWith(t, routerSettings())
	established(b)
	putBoth(b)
	for _, n := range routerNeighbours() {
		b.place(vip4, n.Address.String(), "present", "")
	}
	const attrs = "path [65010 65010] med 200 communities [65010:7] large [65010:3:1]"
	b.until("FRR to have all paths", func() (bool, string) {
		v4, v6 := routesText(f.paths(vip4)), routesText(f.paths(vip6))
		for _, want := range []string{"from 192.0.2.1 via 192.0.2.1 " + attrs, "from 10.99.0.1 via 10.99.0.1 " + attrs, "from 2001:db8:1::1 via 2001:db8:1::1 " + attrs} {
			if !strings.Contains(v4, want) {
				return false, v4
			}
		}
		ok := strings.Contains(v6, "from 192.0.2.1 via 2001:db8:1::1 "+attrs) && strings.Contains(v6, "from 2001:db8:1::1 via 2001:db8:1::1 "+attrs)
		return ok, v6
	})

	b.put(vip4, announce.Attrs{Metric: 100})
	b.until("FRR to have the better metric", func() (bool, string) {
		got := routesText(f.paths(vip4))
		return strings.Count(got, "path [65010] med 100 communities [] large []") == 3, got
	})

	b.remove(vip4)
	b.until("FRR to have dropped the VIP", func() (bool, string) {
		got := routesText(f.paths(vip4))
		return got == "", got
	})
	for _, n := range routerNeighbours() {
		b.place(vip4, n.Address.String(), "", "")
	}

	lab.Steady(t, still, func() []string {
		f.killBGP()
		b.place(vip6, "192.0.2.254", "pending", "session not established")
		b.place(vip6, "2001:db8:1::254", "pending", "session not established")
		f.startBGP()
		return backSoon(b, f.host)
	})
	b.until("FRR to have the IPv6 VIP again", func() (bool, string) {
		got := routesText(f.paths(vip6))
		return strings.Count(got, "med 200") == 2, got
	})

	// Reload: a password is taken off one session; the others stay.
	since := b.state("2001:db8:1::254", stateEstablished).Since
	st := routerSettings()
	st.Neighbours[0].Password = ""
	if err := b.Configure(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	f.vty("configure terminal", "router bgp 65000", "no neighbor 192.0.2.1 password")
	b.until("the session without password", func() (bool, string) {
		s := b.state("192.0.2.254", stateEstablished)
		return s.Since.After(since), s.State
	})
	if got := b.state("2001:db8:1::254", stateEstablished).Since; !got.Equal(since) {
		t.Errorf("another session was touched: established %v, before %v", got, since)
	}

	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := b.Stop(ctx, "maintenance CHG123"); err != nil {
		t.Error(err)
	}
	b.until("FRR to log why the sessions ended", func() (bool, string) {
		log, err := os.ReadFile(filepath.Join(f.dir, "bgpd.log"))
		if err != nil {
			return false, err.Error()
		}
		got := strings.Count(string(log), `6/2 (Cease/Administrative Shutdown) "maintenance CHG123"`)
		return got == 3, string(log)
	})
}

func (f *frr) vty(commands ...string) string {
	f.t.Helper()
	args := []string{"--vty_socket", f.dir, "-d", "bgpd"}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	return run(f.t, "vtysh", args...)
}

// A withdraw that the router never reads: known to be unconfirmed, first
// because nothing was heard, then because the session ended, until the router
// is back.
func TestFRRLosesWithdraw(t *testing.T) {
	if !inside(t) {
		return
	}
	f := startFRR(t)
	b := startWith(t, routerSettings())
	established(b)
	putBoth(b)
	b.until("FRR to have the VIP", func() (bool, string) {
		got := routesText(f.paths(vip4))
		return strings.Count(got, "med 200") == 3, got
	})
	// The daemon has threads; nsenter became bgpd, so the pid is its own.
	if err := f.bgpd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.remove(vip4)
	b.place(vip4, "192.0.2.254", "unconfirmed", "withdraw sent, and nothing was heard")
	b.place(vip4, "192.0.2.254", "unconfirmed", "session lost (hold timer expired: nothing heard for 3s)")
	if err := f.bgpd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	b.place(vip4, "192.0.2.254", "", "")
	t.Logf("confirmed %v after bgpd went on", time.Since(begin))
	b.until("FRR to have dropped the VIP", func() (bool, string) {
		got := routesText(f.paths(vip4))
		return got == "", got
	})
}

// speakerMain is a speaker in a process of its own that announces until it is
// killed.
func speakerMain() error {
	s, err := Start(context.Background(), routerSettings(), discard())
	if err != nil {
		return err
	}
	if err := s.Put(context.Background(), announce.Route{Prefix: netip.MustParsePrefix(vip4)}); err != nil {
		return err
	}
	return s.Run(context.Background())
}

func TestFRRKillSpeaker(t *testing.T) {
	if !inside(t) {
		return
	}
	f := startFRR(t)
	b := &bench{t: t, Speaker: &Speaker{}} // only for its patience
	lab.Steady(t, still, func() (misses []string) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), speakerEnv+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		b.until("FRR to have the VIP three times", func() (bool, string) {
			got := routesText(f.paths(vip4))
			return strings.Count(got, "med 0") == 3, got
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_ = cmd.Wait()
		b.until("FRR to have dropped the VIP", func() (bool, string) {
			got := routesText(f.paths(vip4))
			return got == "", got
		})
		took := time.Since(begin)
		t.Logf("route gone %v after kill -9", took)
		if took > time.Second {
			misses = append(misses, fmt.Sprintf("the route stayed for %v after kill -9", took))
		}
		return misses
	})
}

func TestBIRD(t *testing.T) {
	if !inside(t) {
		return
	}
	h := newHost(t)
	conf, sock := h.file("bird.conf", birdConfig), filepath.Join(h.dir, "bird.ctl")
	start := func() *exec.Cmd {
		return h.daemon("bird", "-f", "-c", conf, "-s", sock, "-P", filepath.Join(h.dir, "bird.pid"))
	}
	show := func(prefix string) string {
		out, err := exec.Command("birdc", "-s", sock, "show", "route", prefix, "all").CombinedOutput()
		return fmt.Sprint(string(out), err) // no such route is an error of birdc
	}
	bird := start()
	st := routerSettings()
	link := Neighbour{Address: netip.MustParseAddr("fe80::254%lb0"), Source: netip.MustParseAddr("fe80::1"), ASN: routeASN, Hold: 3 * time.Second, IPv4: true, IPv6: true}
	st.Neighbours = append(st.Neighbours, link)
	b := startWith(t, st)
	established(b)
	b.state("fe80::254%lb0", stateEstablished)
	putBoth(b)
	b.until("BIRD to have both VIPs", func() (bool, string) {
		v4, v6 := show(vip4), show(vip6)
		for _, want := range []string{"[near ", "[six ", "[far ", "[ll ", "BGP.next_hop: :: fe80::1", "BGP.as_path: 65010 65010", "BGP.med: 200", "BGP.community: (65010,7)", "BGP.large_community: (65010, 3, 1)", "BGP.next_hop: 192.0.2.1", "BGP.next_hop: 2001:db8:1::1"} {
			if !strings.Contains(v4, want) {
				return false, want + " is not in " + v4
			}
		}
		return strings.Count(v6, "BGP.med: 200") == 3, v6
	})
	b.remove(vip4)
	b.until("BIRD to have dropped the VIP", func() (bool, string) {
		got := show(vip4)
		return strings.Contains(got, "Network not found"), got
	})
	for _, n := range st.Neighbours {
		b.place(vip4, n.Address.String(), "", "")
	}
	lab.Steady(t, still, func() []string {
		if err := bird.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = bird.Wait()
		b.place(vip6, "192.0.2.254", "pending", "session not established")
		b.place(vip6, "2001:db8:1::254", "pending", "session not established")
		bird = start()
		return backSoon(b, h)
	})
}
