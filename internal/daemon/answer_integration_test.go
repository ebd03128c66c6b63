//go:build integration

package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/checks"
	"rhid/internal/control"
)

// TestChecksOfOtherNodes: the checks of any node are seen from any other, with
// what they said last; and of one that does not answer it is said why.
func TestChecksOfOtherNodes(t *testing.T) {
	port := freePort(t, "127.101.1.3")
	servers := map[string]net.Listener{}
	for i, n := range []string{"a1", "a2", "b1"} {
		servers[n] = listen(t, fmt.Sprintf("127.101.1.%d:%d", i+1, port))
	}
	pool := fmt.Sprintf(`check: echo, servers: {addresses: ["self:%d"]}}`, port)
	f := newFleet(t, "- {name: s, vips: [10.255.0.10/32], order: [a1, a2, b1], "+pool+"\n  - {name: p, vips: [10.255.0.11/32], order: [b1], "+pool, "a1", "a2", "b1")
	f.start("a1", "a2", "b1")

	ask := func(of, node string) ([]control.CheckState, time.Duration, error) {
		began := time.Now()
		all, err := f.nodes["a1"].client.Checks(t.Context(), of, node)
		return all, time.Since(began), err
	}
	// until asks a1 for the checks of a node until there is one as wanted.
	until := func(node string, is func(c *control.CheckState) bool) control.CheckState {
		t.Helper()
		for end := time.Now().Add(limit); ; <-time.After(10 * time.Millisecond) {
			all, _, err := ask(node, "")
			if err == nil && len(all) == 1 && is(&all[0]) {
				return all[0]
			}
			if time.Now().After(end) {
				t.Fatalf("checks of %s: %+v, %v", node, all, err)
			}
		}
	}
	id := fmt.Sprintf("echo@127.101.1.3:%d", port)
	isUp := func(c *control.CheckState) bool { return c.State == checks.Up && len(c.Recent) == checks.History }
	until("a2", isUp)
	up := until("b1", isUp)
	if got := strings.Join(up.Services, " "); up.ID != id || got != "s p" && got != "p s" || up.Interval != 500*time.Millisecond {
		t.Errorf("the check of b1: %+v", up)
	}
	f.namesOfChecks(ask, id)

	began := time.Now()
	servers["b1"].Close() //nolint:errcheck,gosec // a test server
	down := until("b1", func(c *control.CheckState) bool {
		return c.State == checks.Down && c.Last.Cause == checks.CauseRefused && strings.Contains(c.Why, "refused")
	})
	t.Logf("a1 shows after %s: %s %s since %s: %s", time.Since(began).Round(time.Millisecond), down.ID, down.State, time.Since(down.Since).Round(time.Millisecond), down.Why)

	f.nodes["b1"].kill()
	var why error
	for end := time.Now().Add(limit); time.Now().Before(end); {
		_, took, err := ask("b1", "")
		if why = cmp.Or(err, why); err != nil && strings.Contains(err.Error(), "b1 does not answer: it is dead since") {
			t.Logf("after the death, answered in %s: %v", took.Round(time.Millisecond), err)
			break
		}
	}
	if !errors.Is(why, control.ErrAway) || !strings.Contains(why.Error(), "it is dead since") {
		t.Errorf("of a dead node: %v", why)
	}
	f.nodes["a2"].signal(syscall.SIGTERM)
	f.nodes["a2"].ended()
	f.eventually("a1 knows that a2 was stopped", func() error {
		if _, _, err := ask("s", "a2"); !errors.Is(err, control.ErrAway) || !strings.Contains(err.Error(), "a2 does not answer: it left at") {
			return fmt.Errorf("asked for its checks: %v", err) //nolint:errorlint // there may be none
		}
		return nil
	})
}

// namesOfChecks asks a1 in all ways for checks, of which b1 has one.
func (f *fleet) namesOfChecks(ask func(of, node string) ([]control.CheckState, time.Duration, error), ofB1 string) {
	f.t.Helper()
	own := strings.Replace(ofB1, "127.101.1.3", "127.101.1.1", 1)
	for _, tt := range []struct{ of, node, want, err string }{
		{"", "", own, ""},
		{"a1", "", own, ""},
		{"s", "", own, ""},
		{"", "b1", ofB1, ""},
		{"b1", "b1", ofB1, ""},
		{"s", "b1", ofB1, ""},
		{"p", "b1", ofB1, ""},
		{"p", "", "", "not found: node a1 has no part in service p, ask a node of its order (--node)"},
		{"p", "a2", "", "not found: node a2 has no part in service p"},
		{"a1", "b1", "", `not found: there is no service "a1" on node b1`},
		{"zz", "", "", `not found: there is no service "zz"`},
		{"s", "zz", "", `refused: there is no node "zz"`},
	} {
		all, took, err := ask(tt.of, tt.node)
		got := ""
		if len(all) == 1 {
			got = all[0].ID
		}
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			f.t.Errorf("checks of %q at %q: %q, %v; want %q, %q", tt.of, tt.node, got, err, tt.want, tt.err)
		}
		f.t.Logf("checks of %q at %q: %s", tt.of, tt.node, took.Round(10*time.Microsecond))
	}
}
