//go:build integration

package daemon

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rhid/internal/control"
)

// linked is a fleet of a1, a2, b1 in which a1 has a link that leads to a
// listener, with more keys.
func linked(t *testing.T, more string) (f *fleet, link io.Closer) {
	t.Helper()
	far, back := listen(t, ""), listen(t, "")
	f = newFleet(t, sharing("", back.Addr().String()), "a1", "a2", "b1")
	f.edit("{name: a1, site: a,", fmt.Sprintf("{name: a1, site: a, links: [{name: core, check: {type: tcp, address: %q, interval: 200ms}, window: 10, max_loss: 20, %s}],", far.Addr(), more))
	f.start("a1", "a2", "b1")
	f.holders("a1")
	f.node("a1").until("the link is up", func(s control.Status) bool { return len(s.Links) == 1 && s.Links[0].State.String() == "up" })
	return f, far
}

// asked is a node that is asked until it says something.
type asked struct {
	f    *fleet
	name string
}

func (f *fleet) node(name string) asked { return asked{f, name} }

// until waits until the node's status is as wanted, and returns it.
func (a asked) until(what string, holds func(control.Status) bool) control.Status {
	a.f.t.Helper()
	var s control.Status
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if s, err = a.f.nodes[a.name].client.Status(a.f.t.Context()); err == nil && holds(s) {
			return s
		}
	}
	a.f.t.Fatalf("%s: %s did not come about: %v, %+v", a.name, what, err, s)
	return s
}

// says is the code of the only service's own readiness.
func (a asked) says(code string) {
	a.f.t.Helper()
	for end := time.Now().Add(limit); ; <-time.After(20 * time.Millisecond) {
		e, err := a.f.nodes[a.name].client.Explain(a.f.t.Context(), "s")
		if err == nil {
			for _, c := range e.Decision.Candidates {
				if c.Node == a.name && string(c.Reason.Code) == code {
					a.f.t.Logf("%s: %s, %s: %s", a.name, c.Readiness, c.Reason.Code, c.Reason.Evidence)
					return
				}
			}
		}
		if time.Now().After(end) {
			a.f.t.Fatalf("%s does not say %s: %v, %+v", a.name, code, err, e.Decision)
		}
	}
}

func alarmed(code string) func(control.Status) bool {
	return func(s control.Status) bool {
		for _, a := range s.Alarms {
			if a.Code == code {
				return true
			}
		}
		return false
	}
}

// TestLinkDown: the service leaves a node whose link is down, which says so,
// and comes back once the link has been up for failback.delay.
func TestLinkDown(t *testing.T) {
	f, far := linked(t, "effect: down")
	began := time.Now()
	far.Close() //nolint:errcheck,gosec // a test server
	f.holders("a2")
	t.Logf("the link dies, a2 announces after %s", time.Since(began).Round(time.Millisecond))
	f.node("a1").says("link-down")
	s := f.node("a1").until("the alarm", alarmed("link-down"))
	listen(t, s.Links[0].Probes[0].Target)
	f.holders("a1")
	f.node("a1").until("the end of the alarm", func(s control.Status) bool { return !alarmed("link-down")(s) })
}

// TestLinkOfOthers: a link that concerns another backend, and one that only
// alarms, move nothing.
func TestLinkOfOthers(t *testing.T) {
	for name, more := range map[string]string{"backend": "effect: down, backends: [kernel]", "alarm": "effect: alarm"} {
		t.Run(name, func(t *testing.T) {
			f, far := linked(t, more)
			far.Close() //nolint:errcheck,gosec // a test server
			f.node("a1").until("the alarm", alarmed("link-down"))
			f.stays(time.Second, "a1")
		})
	}
}

// TestLinkStandby: a node whose link is down hands over, and serves when
// nobody else can.
func TestLinkStandby(t *testing.T) {
	f, far := linked(t, "effect: standby")
	far.Close() //nolint:errcheck,gosec // a test server
	f.holders("a2")
	f.node("a1").says("link-down")
	f.nodes["a2"].kill()
	f.nodes["b1"].kill()
	f.holders("a1")
}

// TestOverload: an overloaded node takes nothing over while another can, goes
// on with what it has, and serves when nobody else can.
func TestOverload(t *testing.T) {
	srv := listen(t, "")
	second := strings.NewReplacer("name: s,", "name: own,", "10.255.0.10", "10.255.0.11", "[a1, a2, b1]", "[a2, a1]").
		Replace(sharing("", srv.Addr().String()))
	f := newFleet(t, sharing("", srv.Addr().String())+"\n  "+second, "a1", "a2", "b1")
	busy := filepath.Join(f.dir, "busy")
	f.editOf("a2", "checks:", fmt.Sprintf("overload: {type: exec, command: [test, '!', -e, %s], warning_is: fail, interval: 500ms, fall: 2}\nchecks:", busy))
	f.start("a1", "a2", "b1")
	f.holders("a1", "a2")
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.node("a2").until("the alarm", alarmed("overloaded"))
	f.node("a2").says("overloaded")
	f.stays(time.Second, "a1", "a2")
	f.nodes["a1"].kill()
	f.holders("a2", "b1") // own stays, s goes past a2
	f.nodes["b1"].kill()
	f.holders("a2", "a2")
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	f.node("a2").until("the end of the alarm", func(s control.Status) bool { return !alarmed("overloaded")(s) })
	f.stays(time.Second, "a2", "a2")
}
