package daemon

import (
	"net/netip"
	"testing"
	"time"

	"rhid/announce/bfd"
	"rhid/internal/config"
)

func TestPulse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		moved := false
		p := &pulse{moved: func() bool { was := moved; moved = false; return was }}
		want := func(alive bool, when string) {
			t.Helper()
			if p.alive() != alive {
				t.Errorf("alive %v %s", !alive, when)
			}
		}
		want(false, "before the first turn")
		moved = true
		want(true, "in the first turn")
		<-time.After(stallAfter - time.Millisecond)
		want(true, "a moment after it turned")
		<-time.After(2 * time.Millisecond)
		want(false, "while it hangs")
		moved = true
		want(true, "when it turns again")
		p.end()
		<-time.After(time.Hour)
		want(true, "after an end in order")
	})
}

func TestBFDPeer(t *testing.T) {
	at := func(edit func(*config.Router)) config.Router {
		r := config.Router{
			Name: "tor", Address: netip.MustParseAddr("10.1.0.1"), ASN: 65000,
			BFD: &config.BFD{Interval: 100 * time.Millisecond, Multiplier: 3, Multihop: config.BFDMultihopAuto},
		}
		edit(&r)
		return r
	}
	for _, c := range []struct {
		name   string
		router config.Router
		hops   bfd.Hops
		expect bfd.Hops
		minTTL uint8
	}{
		{"on the link", at(func(*config.Router) {}), bfd.HopsAuto, bfd.HopsSingle, 255},
		{"GTSM", at(func(r *config.Router) { r.TTLSecurity = true }), bfd.HopsAuto, bfd.HopsMulti, 255},
		{"two routers in between", at(func(r *config.Router) { r.Multihop = 3 }), bfd.HopsAuto, bfd.HopsMulti, 1},
		{"single-hop in spite of GTSM", at(func(r *config.Router) { r.TTLSecurity, r.BFD.Multihop = true, "never" }), bfd.HopsSingle, bfd.HopsMulti, 255},
		{"multihop on the link", at(func(r *config.Router) { r.BFD.Multihop = "always" }), bfd.HopsMulti, bfd.HopsSingle, 1},
		{"link-local", at(func(r *config.Router) { r.Address = netip.MustParseAddr("fe80::1%eth0") }), bfd.HopsSingle, bfd.HopsSingle, 255},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ok, err := newPeer(c.router)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if p.Hops != c.hops || p.Expect != c.expect || p.MinTTL != c.minTTL {
				t.Errorf("%v, expecting %v, TTL at least %d; want %v, %v, %d", p.Hops, p.Expect, p.MinTTL, c.hops, c.expect, c.minTTL)
			}
		})
	}
	if _, ok, err := newPeer(config.Router{}); ok || err != nil {
		t.Error("a session with a router that has none configured")
	}
	if _, _, err := newPeer(at(func(r *config.Router) { r.BFD.Auth, r.BFD.KeyFile = config.BFDKeyedSHA1, "/nowhere" })); err == nil {
		t.Error("no error for a key that cannot be read")
	}
}
