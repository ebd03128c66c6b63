//go:build integration

package lab_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

const pair = "testdata/pair/pair.clab.yml"

func TestNodesAreApart(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	daemons, err := os.ReadFile("/etc/frr/daemons")
	if err != nil {
		t.Fatal(err)
	}
	l := lab.Start(t, pair, lab.Options{Env: map[string]string{"MORE": "yes"}})
	a, b := l.Node("a"), l.Node("b")
	for _, c := range []struct {
		node *lab.Node
		cmd  string
		want string
	}{
		{b, "cat /tmp/name", "b"},
		{a, "hostname", "a"},
		{a, "echo $SIDE $MORE", "left yes"},
		{a, "grep -c bgpd=yes /etc/frr/daemons", "1"},
		{b, "grep -c bgpd=no /etc/frr/daemons", "1"},
		{b, "ls /run/frr /var/log/frr", "/run/frr:\n\n/var/log/frr:"},
		{a, "head -n1 /etc/frr/frr.conf", "log file /var/log/frr/frr.log"},
		{a, "touch /etc/frr/frr.conf 2>/dev/null || echo read-only", "read-only"},
		{a, "cat /proc/sys/net/ipv4/ip_forward", "1"},
		{a, "(echo 0 >/proc/sys/net/ipv4/ip_forward) 2>/dev/null || echo read-only", "read-only"},
		{b, "ps -e -o comm= >/tmp/ps; sort -u /tmp/ps | tr '\\n' ' '", "cat ps sh sleep"},
		{b, "mount -t tmpfs x /opt && umount /opt && echo mounted", "mounted"}, // SYS_ADMIN was added
		{b, "date -s @0 2>&1 | grep -o 'cannot set date'", "cannot set date"},  // SYS_TIME was not
	} {
		if got := strings.TrimSpace(c.node.Must("sh", "-c", c.cmd)); got != c.want {
			t.Errorf("%s: %s: got %q, want %q", c.node.Name, c.cmd, got, c.want)
		}
	}
	a.Must("sh", "-c", "echo spoilt >/etc/frr/daemons; echo spoilt >/etc/rhid-lab-was-here")
	if now, err := os.ReadFile("/etc/frr/daemons"); err != nil || string(now) != string(daemons) {
		t.Errorf("the host's /etc/frr/daemons changed (%v)", err)
	}
	if _, err := os.Stat("/etc/rhid-lab-was-here"); err == nil {
		t.Error("a file written in a node is on the host")
	}
	if now, err := os.Hostname(); err != nil || now != host {
		t.Errorf("the host is now called %q (%v)", now, err)
	}
}

func TestProcesses(t *testing.T) {
	l := lab.Start(t, pair, lab.Options{})
	a := l.Node("a")
	l.WaitFor("bgpd", 30*time.Second, func() bool { return len(a.Pids("bgpd")) == 1 })
	if pids := l.Node("b").Pids("bgpd"); len(pids) != 0 {
		t.Errorf("b has bgpd %v, which is a's", pids)
	}
	old := a.Pids("bgpd")[0]
	a.KillAll("bgpd")
	l.WaitFor("watchfrr to start bgpd again", 90*time.Second, func() bool {
		pids := a.Pids("bgpd")
		return len(pids) == 1 && pids[0] != old
	})
	p := a.Start("ticker", "sh", "-c", "while sleep 0.02; do echo tick; done")
	ticks := func() int { return strings.Count(p.Output(), "tick") }
	l.WaitFor("ticks", 30*time.Second, func() bool { return ticks() > 2 })
	p.Stop()
	frozen := func() bool {
		stat := a.Must("sh", "-c", "ps -e -o stat=,args= | grep 'while slee[p]'")
		return strings.HasPrefix(stat, "T")
	}
	l.WaitFor("the process to stand still", 30*time.Second, frozen)
	p.Cont()
	before := ticks()
	l.WaitFor("it to go on", 30*time.Second, func() bool { return ticks() > before })
	p.Kill()
	if p.Running() || p.Wait(0) == nil {
		t.Errorf("a killed process: running %v, ended with %v", p.Running(), p.Wait(0))
	}
	if out, err := a.Run("sh", "-c", "echo said; exit 3"); err == nil || !strings.Contains(err.Error(), "exit status 3: said") || out != "said\n" {
		t.Errorf("a failing command: %q, %v", out, err)
	}
}

func TestLinks(t *testing.T) {
	l := lab.Start(t, pair, lab.Options{})
	a, b := l.Node("a"), l.Node("b")
	ping := func() bool { _, err := a.Run("ping", "-c1", "-W1", "10.0.0.2"); return err == nil }
	l.WaitFor("ping", 30*time.Second, ping)
	l.Cut("b:eth1")
	if out := a.Must("cat", "/sys/class/net/eth1/carrier"); strings.TrimSpace(out) != "0" {
		t.Errorf("carrier at a with b's end down: %q", out)
	}
	if out := b.Must("ip", "-br", "address", "show", "dev", "eth1"); !strings.Contains(out, "fd00::2/64") {
		t.Errorf("addresses of a cut link: %q", out)
	}
	l.Heal("b:eth1")
	l.WaitFor("ping after the cut", 30*time.Second, ping)
	l.Blackhole("a:eth1")
	if ping() {
		t.Error("a black hole lets a ping through")
	}
	if out := a.Must("cat", "/sys/class/net/eth1/carrier"); strings.TrimSpace(out) != "1" {
		t.Errorf("carrier of a black hole: %q", out)
	}
	l.Unblackhole("a:eth1")
	l.WaitFor("ping after the black hole", 30*time.Second, ping)
	a.Sysctl("net.ipv4.icmp_echo_ignore_all", "1")
	if _, err := b.Run("ping", "-c1", "-W1", "10.0.0.1"); err == nil {
		t.Error("the sysctl is without effect")
	}
}

func TestRoutesAndFIB(t *testing.T) {
	l := lab.Start(t, pair, lab.Options{})
	a := l.Node("a")
	for _, c := range []struct{ prefix, via string }{{"10.255.0.1/32", "10.0.0.2"}, {"fd00:255::1/128", "fd00::2"}} {
		w := a.WatchFIB(c.prefix)
		before := time.Now()
		a.Must("ip", "route", "add", c.prefix, "via", c.via, "proto", "151", "metric", "7")
		e := w.WaitThere(30 * time.Second)
		if e.Kind != lab.FIBAdd || e.At.Before(before) || time.Since(e.At) > 30*time.Second {
			t.Errorf("%s: event of the add: %+v", c.prefix, e)
		}
		got := a.Kernel(c.prefix)
		if len(got) != 1 || got[0].Via.String() != c.via || got[0].Dev != "eth1" || got[0].Metric != 7 || got[0].Proto != 151 {
			t.Errorf("%s: routes %+v", c.prefix, got)
		}
		if len(e.Hops) != 1 || e.Hops[0].Via != got[0].Via {
			t.Errorf("%s: hops of the event: %+v", c.prefix, e.Hops)
		}
		a.Must("ip", "route", "replace", c.prefix, "via", c.via, "proto", "152", "metric", "7")
		w.Wait("replaced", 30*time.Second, func(e lab.FIBEvent) bool { return e.Kind == lab.FIBReplace })
		w.Reset()
		a.Must("ip", "route", "del", c.prefix)
		w.WaitGone(30 * time.Second)
		if events := w.Events(); len(events) != 1 {
			t.Errorf("%s: events of the delete: %+v", c.prefix, events)
		}
		if got := a.Kernel(c.prefix); len(got) != 0 {
			t.Errorf("%s: routes after the delete: %+v", c.prefix, got)
		}
		w.Close()
	}
	a.Must("ip", "route", "add", "local", "10.255.0.2/32", "dev", "lo", "table", "local")
	if got := a.KernelTable(255, "10.255.0.2/32"); len(got) != 1 || got[0].Type != 2 || got[0].Dev != "lo" {
		t.Errorf("table local: %+v", got)
	}
}
