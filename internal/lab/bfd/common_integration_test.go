//go:build integration

// Package bfd holds the tests of rhid's BFD against FRR's and BIRD's: the
// sessions alone, without what routers make of them.
package bfd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rhid/internal/control"
	"rhid/internal/lab"
)

const (
	benchFile  = "testdata/bfd.clab.yml"
	rhidConfig = "/tmp/rhid.yaml"
	comeUp     = time.Minute
)

// path is one session: from the host to an address of a router.
type path struct {
	router    string // "frr" or "bird"
	family    string
	hops      string // "single" or "multi"
	near, far string // addresses of host and router
	cut       string // the end of a link that this path needs
}

func paths() []path {
	return []path{
		{"frr", "IPv4", "single", "10.1.1.1", "10.1.1.2", "frr:eth1"},
		{"frr", "IPv6", "single", "fd00:1::1", "fd00:1::2", "frr:eth1"},
		{"frr", "IPv4", "multi", "10.1.3.1", "10.1.4.2", "mid:eth1"},
		{"frr", "IPv6", "multi", "fd00:3::1", "fd00:4::2", "mid:eth1"},
		{"bird", "IPv4", "single", "10.1.2.1", "10.1.2.2", "bird:eth1"},
		{"bird", "IPv6", "single", "fd00:2::1", "fd00:2::2", "bird:eth1"},
		{"bird", "IPv4", "multi", "10.1.3.1", "10.1.5.2", "mid:eth1"},
		{"bird", "IPv6", "multi", "fd00:3::1", "fd00:5::2", "mid:eth1"},
	}
}

// full says whether to measure everything, which takes its time.
func full() bool { return os.Getenv("RHID_FULL") != "" }

// bench is the topology with both routers' BFD at one interval.
type bench struct {
	*lab.Lab
	t        *testing.T
	host     *lab.Node
	interval time.Duration
	auth     bool // between rhid and BIRD
	rhid     *lab.Proc
	wire     map[string]*wire // by router
}

func newBench(t *testing.T, interval time.Duration, auth bool) *bench {
	t.Helper()
	b := &bench{
		Lab: lab.Start(t, benchFile, lab.Options{Rhid: lab.BuildRhid(t, false)}),
		t:   t, interval: interval, auth: auth, wire: map[string]*wire{},
	}
	b.host = b.Node("host")
	frr, bird := b.Node("frr"), b.Node("bird")
	frr.WriteFile("/etc/frr/frr.conf", b.frrConfig())
	frr.Must("sed", "-i", "s/bfdd=no/bfdd=yes/", "/etc/frr/daemons")
	frr.Must("nice", "-n", "-5", "/usr/lib/frr/frrinit.sh", "start") // as its unit does
	bird.WriteFile("/tmp/bird.conf", b.birdConfig())
	bird.Must("bird", "-c", "/tmp/bird.conf", "-s", "/run/bird/bird.ctl")
	for _, n := range []*lab.Node{frr, bird} {
		b.wire[n.Name] = listen(t, n)
	}
	return b
}

func (b *bench) frrConfig() string {
	var out strings.Builder
	fmt.Fprintf(&out, "hostname frr\nlog file /var/log/frr/frr.log\nbfd\n profile t\n  receive-interval %[1]d\n  transmit-interval %[1]d\n  detect-multiplier 3\n",
		b.interval.Milliseconds())
	for _, p := range paths() {
		switch {
		case p.router != "frr":
		case p.hops == "multi":
			fmt.Fprintf(&out, " peer %s multihop local-address %s\n  profile t\n", p.near, p.far)
		default:
			fmt.Fprintf(&out, " peer %s local-address %s interface eth1\n  profile t\n", p.near, p.far)
		}
	}
	return out.String()
}

func (b *bench) birdConfig() string {
	var out strings.Builder
	auth := ""
	if b.auth {
		auth = ` authentication meticulous keyed sha1; password "bench" { id 1; };`
	}
	timing := fmt.Sprintf("{ interval %d ms; multiplier 3;%s };", b.interval.Milliseconds(), auth)
	fmt.Fprintf(&out, "router id 10.1.0.2;\nlog \"/var/log/bird.log\" all;\nprotocol device {}\nprotocol bfd {\n  interface \"*\" %[1]s\n  multihop %[1]s\n", timing)
	for _, p := range paths() {
		switch {
		case p.router != "bird":
		case p.hops == "multi":
			fmt.Fprintf(&out, "  neighbor %s local %s multihop on;\n", p.near, p.far)
		default:
			fmt.Fprintf(&out, "  neighbor %s dev \"eth1\";\n", p.near)
		}
	}
	return out.String() + "}\n"
}

// config is rhid's: BGP as well, which nobody answers here. With RHID_BURN it has a
// check that keeps every processor busy with ten processes.
func (b *bench) config() string {
	var out strings.Builder
	out.WriteString("bgp: {asn: 65010}\nsites:\n  - name: here\n    routers:\n")
	for _, p := range paths() {
		more := ""
		if p.hops == "multi" {
			more = fmt.Sprintf(", multihop: 2, source: %q", p.near)
		}
		auth := ""
		if b.auth && p.router == "bird" {
			auth = ", auth: meticulous-keyed-sha1, key_file: /tmp/bfd.key"
		}
		fmt.Fprintf(&out, "      - {name: %s, address: %q, asn: 65001%s, bfd: {interval: %v, multiplier: 3%s}}\n", p.name(), p.far, more, b.interval, auth)
	}
	out.WriteString(`vip: {linger: 0s}
stop: {drain_time: 0s}
nodes: [{name: host, site: here, address: 10.1.1.1}]
services:
  - name: atm
    vips: [10.255.0.10/32]
    check: {type: interface, device: lo}
`)
	if os.Getenv("RHID_BURN") != "" {
		out.WriteString(`  - name: burn
    vips: [10.255.0.11/32]
    check:
      {type: exec, shell: true, interval: 1s, timeout: 950ms,
       command: ["for i in 1 2 3 4 5 6 7 8 9 10; do (while :; do :; done) & done; wait"]}
`)
	}
	return out.String()
}

func (p path) name() string { return p.router + "-" + strings.ToLower(p.family) + "-" + p.hops }

// start starts rhid and waits until all sessions are up at the pace of the test.
func (b *bench) start() {
	b.t.Helper()
	b.host.WriteFile("/tmp/bfd.key", "bench\n")
	b.host.WriteFile(rhidConfig, b.config())
	b.rhid = b.host.StartRhid(rhidConfig)
	b.prefer(b.rhid)
	want := float64(3 * b.interval.Milliseconds())
	b.WaitFor("all BFD sessions", comeUp, func() bool {
		for _, n := range b.neighbours() {
			if n.BFD == nil || n.BFD.State != "up" || n.BFD.DetectionMS != want {
				return false
			}
		}
		return true
	})
	time.Sleep(2 * time.Second) // both sides have answered every poll
}

// prefer gives all threads of rhid the priority that its unit gives it.
func (b *bench) prefer(p *lab.Proc) {
	b.t.Helper()
	const nice = -5
	proc := fmt.Sprintf("/proc/%d/", p.Pid())
	threads, err := os.ReadDir(proc + "task")
	for _, t := range threads {
		tid, terr := strconv.Atoi(t.Name())
		if terr == nil {
			terr = unix.Setpriority(unix.PRIO_PROCESS, tid, nice)
		}
		if !errors.Is(terr, unix.ESRCH) { // it has ended
			err = errors.Join(err, terr)
		}
	}
	if err != nil {
		b.t.Fatalf("raising the priority of rhid: %v", err)
	}
}

// neighbours asks rhid. An alarm, that nobody speaks BGP, is expected.
func (b *bench) neighbours() []control.Neighbour {
	b.t.Helper()
	out, _ := b.host.Run("/usr/bin/rhid", "status", "-o", "json")
	var st control.Status
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		b.t.Fatalf("rhid status: %v in %q", err, out)
	}
	return st.Neighbours
}
