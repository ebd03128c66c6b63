//go:build integration

package scenarios

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"rhid/internal/control"
	"rhid/internal/lab"
)

const (
	linkWindow = 15 * time.Second // 50 probes, one every 300 ms
	linkSlack  = 2 * time.Second  // for a machine that is busy, and may stand still
	linkWait   = 30 * time.Second // of what has no bound of its own
)

// linkLab is a host with three links, all of them checked by rhid.
type linkLab struct {
	*lab.Lab
	t    *testing.T
	lb   *lab.Node
	far  *lab.Node
	wire *lab.Forwarder // along the link slow
}

// TestLinks: a link that loses 30 % of its packets and one that delays them by
// 200 ms more are seen within their window, and are good again a window after
// they are; a clean one raises nothing, while both of the machine's cores are
// busy. RHID_FULL=1 watches the clean links for ten minutes.
func TestLinks(t *testing.T) {
	l := startLinks(t)
	l.keepBusy()
	noise := 10 * time.Second
	if os.Getenv("RHID_FULL") != "" {
		noise = 10 * time.Minute
	}
	l.quiet(noise)

	began := time.Now()
	l.far.Must("nft", "add table ip loss; add chain ip loss in { type filter hook input priority 0; }; "+
		"add rule ip loss in iifname eth1 numgen inc mod 10 < 3 drop") // not at random, which may spare a link for a window
	l.wire.SetDelay(100 * time.Millisecond) // each way
	lossy, slow := l.until("lossy", "down"), l.until("slow", "down")
	t.Logf("30 %% loss seen after %s: %s", after(lossy, began), lossy.Probes[0].Detail)
	t.Logf("200 ms more delay seen after %s: %s", after(slow, began), slow.Probes[0].Detail)
	for _, k := range []control.Link{lossy, slow} {
		if d := k.Since.Sub(began); d > linkWindow {
			t.Errorf("%s was seen after %s, longer than its window of %s", k.Name, d, linkWindow)
		}
	}
	l.WaitFor("the withdraw of the VIP", linkWait, func() bool { return len(l.lb.Kernel("10.255.0.10/32")) == 0 })
	if text := l.lb.Rhid("explain", "atm"); !strings.Contains(text, "link-down: link lossy is down") {
		t.Errorf("explain does not say why:\n%s", text)
	}

	began = time.Now()
	l.far.Must("nft", "delete table ip loss")
	l.wire.SetDelay(0)
	for _, name := range []string{"lossy", "slow"} {
		k := l.until(name, "up")
		t.Logf("%s is up again %s after the end of it", name, after(k, began))
		if d := k.Since.Sub(began); d > linkWindow+linkSlack {
			t.Errorf("%s came up after %s", name, d)
		}
	}
	l.WaitFor("the VIP's return", linkWait, func() bool { return len(l.lb.Kernel("10.255.0.10/32")) == 1 })
	if k := l.link("clean"); k.State.String() != "up" || !k.Since.Before(began) {
		t.Errorf("the clean link: %+v", k)
	}
}

// startLinks starts the network and rhid, and waits until all links are up.
func startLinks(t *testing.T) *linkLab {
	t.Helper()
	net := lab.Start(t, "testdata/links/links.clab.yml", lab.Options{Rhid: lab.BuildRhid(t, false)})
	l := &linkLab{Lab: net, t: t, lb: net.Node("lb"), far: net.Node("far")}
	l.wire = net.Node("wire").Forward("eth1", "eth2")
	l.lb.StartRhid("/etc/rhid/rhid.yaml", "--node", "lb")
	for _, name := range []string{"lossy", "slow", "clean"} {
		l.until(name, "up")
	}
	l.WaitFor("the VIP", linkWait, func() bool { return len(l.lb.Kernel("10.255.0.10/32")) == 1 })
	return l
}

// link is the status of one.
func (l *linkLab) link(name string) control.Link {
	l.t.Helper()
	out, err := l.lb.Run("rhid", "status", "-o", "json") // its exit status is 1 with an alarm
	var s control.Status
	if jerr := json.Unmarshal([]byte(out), &s); jerr != nil {
		l.t.Fatalf("status: %v, %v:\n%s", err, jerr, out)
	}
	for _, k := range s.Links {
		if k.Name == name {
			return k
		}
	}
	l.t.Fatalf("status has no link %s", name)
	return control.Link{}
}

// until waits until a link is in a state, and returns it.
func (l *linkLab) until(name, state string) (k control.Link) {
	l.t.Helper()
	l.WaitFor("link "+name+" "+state, 4*linkWindow, func() bool {
		k = l.link(name)
		return k.State.String() == state
	})
	return k
}

// quiet watches the links for a while in which nothing may change.
func (l *linkLab) quiet(d time.Duration) {
	l.t.Helper()
	began := time.Now()
	for time.Since(began) < d {
		<-time.After(min(5*time.Second, d))
		for _, name := range []string{"lossy", "slow", "clean"} {
			if k := l.link(name); k.State.String() != "up" || k.Since.After(began) {
				l.t.Fatalf("%s: nothing is wrong with link %s, and yet: %+v", time.Since(began), name, k)
			}
		}
	}
	k := l.link("clean")
	l.t.Logf("%s with all processors busy, no alarm on three clean links: %s", d, k.Probes[0].Detail)
}

// keepBusy uses up all processors, from processes of their own, until the lab
// ends.
func (l *linkLab) keepBusy() {
	for range runtime.NumCPU() {
		l.far.Start("busy", "sh", "-c", "while :; do :; done")
	}
}

// after is when a link changed, since a time.
func after(k control.Link, began time.Time) time.Duration {
	return k.Since.Sub(began).Round(10 * time.Millisecond)
}
