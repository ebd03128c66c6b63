//go:build integration

package checks

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostState is one state of this host, and what is said of it.
type hostState struct {
	name string
	make string // commands that bring it about, one after the other, by semicolons
	opts Options
	want outcome
}

// showHost brings the states about, one after the other: nothing heals. The
// kernel takes a moment to notice some, as that a carrier is lost.
func showHost(t *testing.T, typ string, all []hostState) {
	t.Helper()
	for _, s := range all {
		for line := range strings.SplitSeq(s.make, ";") {
			if line = strings.TrimSpace(line); line != "" {
				ipCommand(t, line)
			}
		}
		row := sickness{name: s.name, ok: s.want.OK, cause: s.want.Cause, says: s.want.Detail}
		res := probeOnce(t, s.opts, Target{Limit: time.Second})
		for end := time.Now().Add(time.Minute); !row.is(res) && time.Now().Before(end); time.Sleep(time.Millisecond) {
			res = probeOnce(t, s.opts, Target{Limit: time.Second})
		}
		row.show(t, typ, res)
	}
}

// Every way in which an interface is of no use to a service.
func TestInterfaceSick(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link add name near type veth peer name distant")
		ipCommand(t, "ip link set dev near up")
		ipCommand(t, "ip link set dev distant up")
		ipCommand(t, "ip address add 10.1.1.1/24 dev near")
		ipCommand(t, "ip address add 10.9.9.1 peer 10.9.9.2 dev near")
		ipCommand(t, "ip address add fd00:1::1/64 dev near nodad")
		setSysctl(t, "net.ipv6.conf.near.dad_transmits", "100") // questions to the neighbours, one a second
		near := &InterfaceOptions{Device: "near"}
		with := func(addrs ...string) Options { return &InterfaceOptions{Device: "near", Addresses: addrs} }
		good := outcome{true, CauseNone, "up, with carrier, all wanted addresses present"}
		bad := func(text string) outcome { return outcome{false, CauseAnswer, text} }
		showHost(t, "interface", []hostState{
			{"healthy", "", near, outcome{true, CauseNone, "up, with carrier"}},
			{"healthy, with addresses", "", with("10.1.1.1", "10.1.1.1/24", "fd00:1::1", "10.9.9.1"), good},
			{"another prefix length", "", with("10.1.1.1/25"), bad("address 10.1.1.1/25 is not on near")},
			{"address removed", "ip address del fd00:1::1/64 dev near", with("10.1.1.1", "fd00:1::1"), bad("address fd00:1::1 is not on near")},
			{"address not verified yet", "ip address add fd00:1::2/64 dev near", with("fd00:1::2"),
				bad("address fd00:1::2 is on near, but still tentative")},
			{"far end switched off", "ip link set dev distant down", near, bad("interface near has no carrier")},
			{"switched off", "ip link set dev near down", near, bad("interface near is switched off (administratively down)")},
			{"repaired", "ip link set dev distant up; ip link set dev near up", near, outcome{true, CauseNone, "up, with carrier"}},
			{"pulled out", "ip link del near", near, outcome{false, CauseInternal, "interface near does not exist on this host"}},
		})
	})
}

// Duplicate address detection takes a second, and its end is another sentence.
func TestInterfaceDuplicate(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link add name near type veth peer name distant")
		ipCommand(t, "ip link set dev near up")
		ipCommand(t, "ip link set dev distant up")
		ipCommand(t, "ip address add fd00:1::2/64 dev distant nodad")
		ipCommand(t, "ip address add fd00:1::2/64 dev near")
		want := "address fd00:1::2 is on near, but another host has it too (duplicate address detection failed)"
		opts := &InterfaceOptions{Device: "near", Addresses: []string{"fd00:1::2"}}
		var res Result
		for end := time.Now().Add(time.Minute); res.Detail != want && time.Now().Before(end); time.Sleep(time.Millisecond) {
			res = probeOnce(t, opts, Target{Limit: time.Second})
		}
		t.Logf("interface | duplicate address, found | %s", res.Detail)
		wantOutcome(t, res, outcome{false, CauseAnswer, want})
	})
}

// Every way in which the kernel's table does not lead where it should.
func TestRouteSick(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		for i := range 2 {
			ipCommand(t, fmt.Sprintf("ip link add name near%d type veth peer name distant%d", i, i))
			ipCommand(t, fmt.Sprintf("ip link set dev near%d up", i))
			ipCommand(t, fmt.Sprintf("ip link set dev distant%d up", i))
			ipCommand(t, fmt.Sprintf("ip address add 10.1.%d.1/24 dev near%d", i, i))
			ipCommand(t, fmt.Sprintf("ip address add fd00:%d::1/64 dev near%d nodad", i, i))
		}
		v4 := &RouteOptions{Prefix: "10.0.0.0/8", Via: []string{"10.1.0.2"}}
		v6 := &RouteOptions{Prefix: "fd00:100::/32", Via: []string{"fd00:0::2"}}
		other := &RouteOptions{Prefix: "10.0.0.0/8", Table: 1000, Device: "near1"}
		bad := func(text string) outcome { return outcome{false, CauseAnswer, text} }
		showHost(t, "route", []hostState{
			{"no route", "", v4, bad("no route for 10.0.0.0/8 in table 254")},
			{"healthy", "ip route add 10.0.0.0/8 via 10.1.0.2 metric 20", v4, outcome{true, CauseNone, "in the table, via 10.1.0.2 dev near0"}},
			{"another neighbour is better", "ip route add 10.0.0.0/8 via 10.1.1.2 metric 10 proto 188", v4,
				bad("the route for 10.0.0.0/8 goes via 10.1.1.2 dev near1, wanted via 10.1.0.2")},
			{"of another daemon", "", &RouteOptions{Prefix: "10.0.0.0/8", Protocol: 12}, bad("the route for 10.0.0.0/8 is of protocol 188, wanted protocol 12")},
			{"two next hops", "ip route replace 10.0.0.0/8 metric 10 nexthop via 10.1.1.2 nexthop via 10.1.0.2", v4,
				outcome{true, CauseNone, "in the table, via 10.1.1.2 dev near1 and via 10.1.0.2 dev near0"}},
			{"carrier lost on one of two", "ip link set dev distant0 down", v4,
				bad("the route for 10.0.0.0/8 goes via 10.1.1.2 dev near1 and via 10.1.0.2 dev near0 (dead), wanted via 10.1.0.2")},
			{"carrier lost on both", "ip link set dev distant1 down", v4,
				bad("the route for 10.0.0.0/8 has no next hop that is alive: via 10.1.1.2 dev near1 (dead) and via 10.1.0.2 dev near0 (dead)")},
			{"blackhole", "ip route add blackhole 10.0.0.0/8 metric 1", v4, bad("the route for 10.0.0.0/8 is of type blackhole: it leads nowhere")},
			{"not in another table", "", other, bad("no route for 10.0.0.0/8 in table 1000")},
			{"in another table", "ip link set dev distant1 up; ip route add 10.0.0.0/8 via 10.1.1.2 table 1000", other, outcome{true, CauseNone, "in the table, via 10.1.1.2 dev near1"}},
			{"IPv6, none", "", v6, bad("no route for fd00:100::/32 in table 254")},
			{"IPv6, healthy", "ip link set dev distant0 up; ip -6 route add fd00:100::/32 via fd00:0::2", v6, outcome{true, CauseNone, "in the table, via fd00::2 dev near0"}},
			{"nexthop object", "ip nexthop add id 7 via fd00:1::2 dev near1; ip -6 route add fd00:200::/32 nhid 7", &RouteOptions{Prefix: "fd00:200::/32", Device: "near1"},
				outcome{true, CauseNone, "in the table, via fd00:1::2 dev near1"}},
			{"IPv4 by an IPv6 neighbour", "ip route add 10.66.0.0/16 via inet6 fd00:1::2 dev near1", &RouteOptions{Prefix: "10.66.0.0/16", Via: []string{"fd00:1::2"}},
				outcome{true, CauseNone, "in the table, via fd00:1::2 dev near1"}},
		})
	})
}

// The connections of a namespace count as its own; the processors are this
// machine's. TestLoad has what cannot be brought about here.
func TestLoadSick(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		ipCommand(t, "nft add table ip watch")
		ipCommand(t, "nft add chain ip watch out { type filter hook output priority 0 ; }")
		ipCommand(t, "nft add rule ip watch out ct state new accept")
		only := func(o LoadOptions) *LoadOptions {
			for _, v := range []*int{&o.CPU, &o.Memory, &o.Files, &o.Conntrack} {
				if *v == 0 {
					*v = 100
				}
			}
			return &o
		}
		conntrack := only(LoadOptions{Conntrack: 1})
		healthy := probeOnce(t, conntrack, Target{Limit: time.Second})
		t.Logf("load      | healthy, conntrack                 | %s", healthy.Detail)
		wantOutcome(t, healthy, outcome{true, CauseNone, "conntrack 0 %"})
		fillConntrack(t, 6000)
		full := probeOnce(t, conntrack, Target{Limit: time.Second})
		t.Logf("load      | 6,000 connections                  | %s", full.Detail)
		if full.OK || !strings.HasPrefix(full.Detail, "conntrack ") {
			t.Errorf("%+v", full)
		}
		busy := burn(t, only(LoadOptions{CPU: 1}))
		t.Logf("load      | processors                         | %s", busy.Detail)
		if busy.OK {
			t.Errorf("%+v", busy)
		}
	})
}

// fillConntrack makes n connections that the kernel tracks: one packet each,
// to its own address.
func fillConntrack(t *testing.T, n int) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for i := range n {
		to := &net.UDPAddr{IP: net.IPv4(127, 1, byte(i>>8), byte(i)), Port: 9}
		_, _ = c.WriteTo([]byte{0}, to) // refused by the host itself, which is of no interest
	}
}

// burn uses 300 ms of a processor between two probes.
func burn(t *testing.T, o Options) Result {
	t.Helper()
	p, err := o.Prober(Target{Limit: time.Second})
	if err != nil {
		t.Error(err)
		return Result{}
	}
	if res := p.Probe(t.Context()); res.Detail != "nothing is known yet" {
		t.Errorf("%+v", res)
	}
	for end := processorTime(t) + 300*time.Millisecond; processorTime(t) < end; {
		_ = strings.Repeat("x", 1000)
	}
	return p.Probe(t.Context())
}

// processorTime is what the calling thread has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
