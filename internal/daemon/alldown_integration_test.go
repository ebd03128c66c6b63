//go:build integration

package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sharing is a configuration of service s whose server is the same for all
// nodes, with more keys.
func sharing(more, server string) string {
	return fmt.Sprintf(`- {name: s, vips: [10.255.0.10/32], order: [a1, a2, b1], failback: {delay: 1s}, %scheck: echo, servers: {addresses: [%q]}}`, more, server)
}

// TestSharedDependencyDies: what all checks share dies. withdraw takes the
// service out everywhere, keep leaves exactly one holder, and each comes back.
func TestSharedDependencyDies(t *testing.T) {
	for _, tt := range []struct {
		name string
		more string
		want string // sites that keep a holder, whichever was the last
	}{
		{"withdraw", "", ""},
		{"keep", "all_down: keep, ", "?"},
		{"keep-per-site", "all_down: keep, scope: site, ", "ab"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := listen(t, "")
			f := newFleet(t, sharing(tt.more, srv.Addr().String()), "a1", "a2", "b1")
			f.start("a1", "a2", "b1")
			up := []string{"a1"}
			if strings.Contains(tt.more, "site") {
				up = []string{"a1", "b1"}
			}
			f.holders(up...)
			srv.Close() //nolint:errcheck,gosec // a test server
			f.downEverywhere("s")
			f.lastHolders(tt.want)
			listen(t, srv.Addr().String())
			f.holders(up...)
		})
	}
}

// lastHolders waits until for a second the same nodes announce: exactly one of
// each site, or any one for "?".
func (f *fleet) lastHolders(sites string) {
	f.t.Helper()
	var last, got []string
	since := time.Now()
	for end := since.Add(limit); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		got = nil
		at := ""
		for _, n := range f.names {
			if f.has(n) {
				got = append(got, n)
				at += n[:1]
			}
		}
		if !slices.Equal(got, last) {
			last, since = got, time.Now()
		}
		if (at == sites || sites == "?" && len(at) == 1) && time.Since(since) > time.Second {
			return
		}
	}
	f.t.Fatalf("%v announce, want one in each of %q", got, sites)
}

// downEverywhere waits until every node says that the service is down.
func (f *fleet) downEverywhere(service string) {
	f.t.Helper()
	for _, n := range f.names {
		for end := time.Now().Add(limit); ; <-time.After(20 * time.Millisecond) {
			e, err := f.nodes[n].client.Explain(f.t.Context(), service)
			if err == nil && e.Service.Readiness.String() == "down" {
				break
			}
			if time.Now().After(end) {
				f.t.Fatalf("%s does not say that %s is down: %v", n, service, err)
			}
		}
	}
}

// TestBrake: of four services that die everywhere at once only one leaves,
// and the others say why they stay.
func TestBrake(t *testing.T) {
	srv := listen(t, "")
	var text []string
	for i := range 4 {
		text = append(text, fmt.Sprintf(`- {name: s%d, vips: [10.255.0.%d/32], order: [a1, a2], check: echo, servers: {addresses: [%q]}}`, i, i+10, srv.Addr()))
	}
	f := newFleet(t, strings.Join(text, "\n  "), "a1", "a2")
	f.edit("cluster: {", "cluster: {max_withdrawals: 1, ")
	f.start("a1", "a2")
	f.holders("a1", "a1", "a1", "a1")
	srv.Close() //nolint:errcheck,gosec // a test server
	f.downEverywhere("s3")
	<-time.After(3 * time.Second) // longer than two holders at once may last
	for end := time.Now().Add(time.Second); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if n := f.routes(); n != 3 {
			t.Fatalf("%d routes, want 3", n)
		}
	}
	braked := 0
	for _, n := range f.names { // whichever was the last holder
		st, err := f.nodes[n].client.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range st.Services {
			if s.Reason.Code == "brake" && s.Verdict.String() == "announce" {
				braked++
			}
		}
	}
	if braked != 3 {
		t.Errorf("%d services say that the brake holds them, want 3", braked)
	}
}

// TestMarkedLocalIsNotBraked: four services die everywhere at once, but what
// fails is marked as each node's own: all leave, whatever the brake.
func TestMarkedLocalIsNotBraked(t *testing.T) {
	srv := listen(t, "")
	var text []string
	for i := range 4 {
		text = append(text, fmt.Sprintf(`- {name: s%d, vips: [10.255.0.%d/32], order: [a1, a2], check: echo, servers: {addresses: [%q]}}`, i, i+10, srv.Addr()))
	}
	f := newFleet(t, strings.Join(text, "\n  "), "a1", "a2")
	f.edit("cluster: {", "cluster: {max_withdrawals: 1, ")
	f.edit("type: tcp,", "type: tcp, dependency: local,")
	f.start("a1", "a2")
	f.holders("a1", "a1", "a1", "a1")
	died := time.Now()
	srv.Close() //nolint:errcheck,gosec // a test server
	for f.routes() > 0 && time.Since(died) < limit {
		<-time.After(5 * time.Millisecond)
	}
	if n := f.routes(); n > 0 {
		t.Fatalf("%d routes are left", n)
	}
	t.Logf("all four services left %s after the death", time.Since(died).Round(time.Millisecond))
}

// TestLocalFailuresAreNotBraked: three of four services fail on a1 alone, and
// all three move, whatever the brake.
func TestLocalFailuresAreNotBraked(t *testing.T) {
	var text []string
	var own []interface{ Close() error }
	for i := range 4 {
		port := freePort(t, "127.101.1.1")
		own = append(own, listen(t, fmt.Sprintf("127.101.1.1:%d", port)))
		listen(t, fmt.Sprintf("127.101.1.2:%d", port))
		text = append(text, fmt.Sprintf(`- {name: s%d, vips: [10.255.0.%d/32], order: [a1, a2], check: echo, servers: {addresses: ["self:%d"]}}`, i, i+10, port))
	}
	f := newFleet(t, strings.Join(text, "\n  "), "a1", "a2")
	f.edit("cluster: {", "cluster: {max_withdrawals: 1, ")
	f.start("a1", "a2")
	f.holders("a1", "a1", "a1", "a1")
	for _, l := range own[:3] {
		l.Close() //nolint:errcheck,gosec // a test server
	}
	f.holders("a1", "a2", "a2", "a2")
}

// TestStall: the holder stands still, another takes over, and the holder does
// not take back what it lost until failback.delay is over.
func TestStall(t *testing.T) {
	srv := listen(t, "")
	f := newFleet(t, strings.Replace(sharing("", srv.Addr().String()), "delay: 1s", "delay: 4s", 1), "a1", "a2", "b1")
	f.start("a1", "a2", "b1")
	f.holders("a1")
	f.stays(5*time.Second, "a1") // all others are ready by now
	f.nodes["a1"].signal(syscall.SIGSTOP)
	f.holders("a2")
	f.nodes["a1"].signal(syscall.SIGCONT)
	resumed := time.Now()
	for f.has("a2") && time.Since(resumed) < 15*time.Second {
		<-time.After(5 * time.Millisecond)
	}
	back := time.Since(resumed)
	f.holders("a1")
	t.Logf("a1 took it back %s after it went on", back.Round(time.Millisecond))
	if back < 3500*time.Millisecond {
		t.Errorf("a1 took back what a2 held after %s, failback.delay is 4 s", back)
	}
	events, err := f.nodes["a1"].client.Events(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "check" && e.What == "down" {
			t.Errorf("the stall counted as a failure of a check: %+v", e)
		}
	}
}

// routes counts the paths that the router has.
func (f *fleet) routes() int {
	f.t.Helper()
	paths, err := f.router.Paths(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return len(paths)
}

// edit replaces a text in the configuration of every node.
func (f *fleet) edit(old, now string) {
	f.t.Helper()
	for _, n := range f.names {
		f.editOf(n, old, now)
	}
}

// editOf replaces a text in the configuration of one node.
func (f *fleet) editOf(name, old, now string) {
	f.t.Helper()
	b, err := os.ReadFile(f.config(name))
	if err == nil {
		err = os.WriteFile(f.config(name), []byte(strings.Replace(string(b), old, now, 1)), 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// has says whether a node announces, as the router sees it.
func (f *fleet) has(node string) bool {
	f.t.Helper()
	paths, err := f.router.Paths(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range paths {
		if p.From == node {
			return true
		}
	}
	return false
}

// TestClockSteps: the holder's wall clock is an hour off, which the others say,
// and is then stepped back and to 1970. Nothing else happens.
func TestClockSteps(t *testing.T) {
	srv := listen(t, "")
	f := newFleet(t, sharing("", srv.Addr().String()), "a1", "a2", "b1")
	step := func(off time.Duration) {
		if err := os.WriteFile(f.config("a1")+".clock", []byte(off.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	step(time.Hour)
	f.start("a1") // before the others: none of them is ready first
	f.holders("a1")
	f.start("a2", "b1")
	f.eventually("a2 says that a1's clock is an hour off", func() error {
		s, err := f.nodes["a2"].client.Status(t.Context())
		if err == nil && !alarmed("clock-off")(s) {
			err = errors.New("no alarm")
		}
		return err
	})
	step(-time.Hour)
	f.stays(2*time.Second, "a1")
	step(time.Until(time.Unix(0, 0)).Round(time.Second))
	f.stays(2*time.Second, "a1")
	for _, n := range f.names {
		evs, err := f.nodes[n].client.Events(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		verdicts := 0
		for _, e := range evs {
			if e.Kind == "service" {
				verdicts++
			}
		}
		if verdicts > 2 { // at most one from the start, and one when the node became ready
			t.Errorf("%s changed its mind %d times: %+v", n, verdicts, evs)
		}
	}
}
