//go:build integration

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rhid/internal/control"
)

// intend asks one node for something.
func (f *fleet) intend(at string, i control.Intent) {
	f.t.Helper()
	if err := f.nodes[at].client.Intend(f.t.Context(), i); err != nil {
		f.t.Fatalf("%+v at %s: %v", i, at, err)
	}
}

// known waits until every running node shows the intent, or none any more.
func (f *fleet) known(kind string, want bool) {
	f.t.Helper()
	for _, n := range f.names {
		for end := time.Now().Add(limit); ; <-time.After(20 * time.Millisecond) {
			s, err := f.nodes[n].client.Status(f.t.Context())
			if err == nil && slices.ContainsFunc(s.Cluster.Intents, func(i control.Intent) bool { return i.Kind == kind }) == want {
				break
			}
			if time.Now().After(end) {
				f.t.Fatalf("%s: intent %s known is not %v: %v", n, kind, want, err)
			}
		}
	}
}

// TestIntents: what an operator asks for on any node holds on all, is taken
// back anywhere, and survives that all nodes die.
func TestIntents(t *testing.T) {
	srv := listen(t, "")
	f := newFleet(t, sharing("", srv.Addr().String()), "a1", "a2", "b1")
	f.start("a1", "a2", "b1")
	f.holders("a1")

	f.intend("b1", control.Intent{Kind: "drain", Subject: "node:a1", Why: "CHG1"})
	f.known("drain", true)
	f.holders("a2")
	for _, n := range f.names {
		f.nodes[n].kill()
	}
	f.holders()
	f.start("a1", "a2", "b1")
	f.holders("a2")
	f.stays(2*time.Second, "a2")
	f.intend("a1", control.Intent{Kind: "drain", Subject: "node:a1", Clear: true})
	f.known("drain", false)
	f.holders("a1")

	f.intend("a1", control.Intent{Kind: "drain", Subject: "site:a"})
	f.holders("b1")
	f.intend("b1", control.Intent{Kind: "drain", Subject: "site:a", Clear: true})
	f.holders("a1")

	f.intend("a1", control.Intent{Kind: "pin", Subject: "service:s", Arg: "b1", For: 5 * time.Second})
	f.holders("b1")
	f.holders("a1") // it ends by itself

	f.intend("a2", control.Intent{Kind: "drain", Subject: "service:s"})
	f.holders()
	f.intend("a2", control.Intent{Kind: "drain", Subject: "service:s", Clear: true})
	f.holders("a1")
}

// TestIntentsOnParts: what an operator asks of a service whose families are
// decided on apart reaches both.
func TestIntentsOnParts(t *testing.T) {
	v4, v6 := listen(t, ""), listen(t, "[::1]:0")
	f := newFleet(t, fmt.Sprintf(`- {name: s, vips: [10.255.0.10/32, "fd00:255::10/128"], families: apart, order: [a1, a2, b1], failback: {delay: 200ms}, check: echo, servers: {addresses: [%q, %q]}}`,
		v4.Addr(), v6.Addr()), "a1", "a2", "b1")
	for range f.names {
		f.edit("multihop: 2}", `multihop: 2, next_hop6: "fd00:1::11"}`)
	}
	f.start("a1", "a2", "b1")
	f.holders("a1", "a1")

	ask := func(kind, subject, arg string, want ...string) {
		t.Helper()
		f.intend("b1", control.Intent{Kind: kind, Subject: subject, Arg: arg, Clear: kind != "drain" && arg == ""})
		f.holders(want...)
	}
	back := func(subject string, want ...string) {
		t.Helper()
		f.intend("a2", control.Intent{Kind: "drain", Subject: subject, Clear: true})
		f.holders(want...)
	}
	ask("drain", "service:s@a1", "", "a2", "a2")
	err := f.nodes["b1"].client.Intend(t.Context(), control.Intent{Kind: "drain", Subject: "service:s-ipv4@a1", Clear: true})
	if err == nil || !strings.Contains(err.Error(), "take that of service:s@a1 back") {
		t.Errorf("a part was undrained alone: %v", err)
	}
	back("service:s@a1", "a1", "a1")
	ask("drain", "service:s-ipv6", "", "a1")
	back("service:s", "a1", "a1")
	ask("drain", "service:s", "")
	back("service:s", "a1", "a1")
	ask("pin", "service:s", "b1", "b1", "b1")
	ask("pin", "service:s-ipv4", "a2", "a2", "b1")
	ask("pin", "service:s", "", "a1", "a1")

	e, err := f.nodes["a1"].client.Explain(t.Context(), "s")
	if err != nil || len(e.Parts) != 2 || e.Parts[1].Service.Name != "s-ipv6" || len(e.Parts[1].Checks) != 1 {
		t.Errorf("explain s: %+v, %v", e, err)
	}
	if cs, err := f.nodes["a1"].client.Checks(t.Context(), "s", ""); err != nil || len(cs) != 2 {
		t.Errorf("checks of s: %+v, %v", cs, err)
	}
	f.eventually("a2 foresees that both would move", func() error {
		o, err := f.nodes["a2"].client.Foresee(t.Context(), []string{"service:s@a1"})
		if err == nil && (!o.Services[0].Moves || !o.Services[1].Moves) {
			err = fmt.Errorf("s fails on a1: %+v", o)
		}
		return err
	})
	if st, err := f.nodes["b1"].client.Status(t.Context()); err != nil || len(st.Parts["s"]) != 2 {
		t.Errorf("status: parts %v, %v", st.Parts, err)
	}
}

// TestFreezeAndFailback: while frozen a failure is taken over and nothing is
// taken back; failback ends a long wait.
func TestFreezeAndFailback(t *testing.T) {
	srv := listen(t, "")
	f := newFleet(t, strings.Replace(sharing("", srv.Addr().String()), "delay: 1s", "delay: 1h", 1), "a1", "a2", "b1")
	f.start("a1", "a2", "b1")
	f.holders("a1")
	f.intend("a1", control.Intent{Kind: "freeze", Subject: "cluster"})
	f.known("freeze", true)
	f.nodes["a1"].kill()
	f.holders("a2")
	f.start("a1")
	f.intend("b1", control.Intent{Kind: "failback", Subject: "service:s"})
	f.known("failback", true)
	f.stays(2*time.Second, "a2")
	f.intend("b1", control.Intent{Kind: "freeze", Subject: "cluster", Clear: true})
	f.holders("a1")
}

// TestIntentsRefused: what makes no sense is refused with the reason.
func TestIntentsRefused(t *testing.T) {
	srv := listen(t, "")
	f := newFleet(t, sharing("", srv.Addr().String()), "a1", "a2", "b1")
	f.start("a1")
	f.holders("a1")
	for _, tt := range []struct {
		i    control.Intent
		want string
	}{
		{control.Intent{Kind: "drain", Subject: "node:zz"}, `there is no node "zz"`},
		{control.Intent{Kind: "drain", Subject: "site:z"}, `there is no node in a site "z"`},
		{control.Intent{Kind: "drain", Subject: "service:zz"}, `there is no service "zz"`},
		{control.Intent{Kind: "drain", Subject: "service:s@zz"}, `there is no node "zz"`},
		{control.Intent{Kind: "pin", Subject: "service:s", Arg: "zz"}, `the order of s is a1, a2, b1; it does not name "zz"`},
		{control.Intent{Kind: "freeze", Subject: "node:a1"}, `freeze of "node:a1" is not known`},
		{control.Intent{Kind: "drain", Subject: "node:a1", For: -time.Second}, "is negative"},
	} {
		if err := f.nodes["a1"].client.Intend(t.Context(), tt.i); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.i, err, tt.want)
		}
	}
}

// TestForeseeLive looks ahead from the live cluster.
func TestForeseeLive(t *testing.T) {
	srv := listen(t, "")
	f := newFleet(t, sharing("", srv.Addr().String()), "a1", "a2", "b1")
	f.start("a1", "a2", "b1")
	f.holders("a1")
	for end := time.Now().Add(limit); ; <-time.After(20 * time.Millisecond) {
		o, err := f.nodes["b1"].client.Foresee(t.Context(), []string{"site:a"})
		if err == nil && slices.Equal(o.Services[0].Before, []string{"a1"}) && slices.Equal(o.Services[0].After, []string{"b1"}) && o.Services[0].OneSite {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, %v", o, err)
		}
	}
}
