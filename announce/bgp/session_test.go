package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"rhid/announce"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

// The speaker dials, the router comes and goes: GoBGP alone would wait 5 s in
// Idle before it tried again.
func TestReconnect(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	port := freePort(t)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.1.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	accept := func(l net.Listener) {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		if err := r.open(c, deadline); err != nil {
			t.Error(err)
		}
	}
	n := r.neighbour()
	n.Passive, n.Port = false, port
	b := startWith(t, Settings{ASN: ourASN, RouterID: netip.MustParseAddr("192.0.2.200"), Port: -1,
		Neighbours: []Neighbour{n}, Allowed: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/32")}})
	b.put("192.0.2.10/32", announce.Attrs{})
	b.place("192.0.2.10/32", "127.0.1.1", "pending", "session not established: connection refused")

	l := listen()
	accept(l)
	r.update()
	b.place("192.0.2.10/32", "127.0.1.1", "present", "")
	_ = l.Close()
	r.cut()
	b.place("192.0.2.10/32", "127.0.1.1", "pending", "session not established: connection")
	b.place("192.0.2.10/32", "127.0.1.1", "pending", "session not established: connection refused")

	l = listen()
	defer func() { _ = l.Close() }()
	back := time.Now()
	accept(l)
	took := time.Since(back)
	r.update()
	t.Logf("established %v after the router listened again", took)
	if took > 4*time.Second { // GoBGP dials every 1 to 2 s, and waits 5 s in Idle
		t.Errorf("the session came back after %v", took)
	}
	if st := b.state("127.0.1.1", "established"); st.Flaps != 1 || st.LastDown == nil {
		t.Errorf("status %+v, want one flap with its reason", st)
	}
}

// A router that dials is let in at once after each loss.
func TestAcceptAfterLoss(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32", r.neighbour())
	b.join(r)
	for i := range 3 {
		r.cut()
		begin := time.Now()
		b.join(r)
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("loss %d: the session came back after %v", i, took)
		}
	}
}

func TestDownReasons(t *testing.T) {
	tests := []struct {
		name string
		end  func(*router)
		kind DownKind
		text string
	}{
		{"cut", (*router).cut, DownClosed, "connection lost"},
		{"notification", func(r *router) {
			r.send(bgp.NewBGPNotificationMessage(6, 2, append([]byte{4}, "CHG7"...)))
		}, DownReceived, `cease: administrative shutdown (6/2), "CHG7"`},
		{"malformed", func(r *router) {
			r.mu.Lock()
			defer r.mu.Unlock()
			_, _ = r.conn.Write([]byte(strings.Repeat("\xff", 16) + "\x00\x12\x04")) // shorter than a header
		}, DownSent, "message header error: bad message length (1/2)"},
		{"silence", func(*router) {}, DownHoldTimer, "hold timer expired: nothing heard for 3s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRouter(t, "127.0.1.1", routeASN)
			if tt.kind == DownHoldTimer { // the others have time
				r.hold = 3
			}
			b := start(t, "192.0.2.10/32", r.neighbour())
			b.join(r)
			b.until("the negotiated hold time", func() (bool, string) {
				st := b.Neighbours()[0]
				return st.HoldSeconds == int(r.hold) || st.LastDown != nil, fmt.Sprint(st.HoldSeconds)
			})
			tt.end(r)
			b.until("the reason "+tt.text, func() (bool, string) {
				d := b.Neighbours()[0].LastDown
				if d == nil {
					return false, "none"
				}
				return d.Kind == tt.kind && strings.Contains(d.Text, tt.text), fmt.Sprintf("%s: %s", d.Kind, d.Text)
			})
		})
	}
}

// A router that sends its whole table must not fill this host's memory.
func TestTooManyRoutes(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32", r.neighbour())
	b.join(r)
	attrs := []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(0), bgp.NewPathAttributeNextHop("127.0.1.1"),
		bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{routeASN})}),
	}
	var nlri []*bgp.IPAddrPrefix
	for i := range DefaultMaxPrefixes + 1 {
		nlri = append(nlri, bgp.NewIPAddrPrefix(32, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String()))
		if len(nlri) == 500 || i == DefaultMaxPrefixes {
			r.send(bgp.NewBGPUpdateMessage(nil, attrs, nlri))
			nlri = nil
		}
	}
	note, ok := r.next().Body.(*bgp.BGPNotification)
	if !ok || note.ErrorCode != 6 || note.ErrorSubcode != 2 || string(note.Data[1:]) != "more than 50000 prefixes" {
		t.Errorf("received %+v, want cease 6/2 with the reason", note)
	}
	b.until("the reason", func() (bool, string) {
		d := b.Neighbours()[0].LastDown
		if d == nil {
			return false, "none"
		}
		return d.Kind == DownPrefixes && strings.Contains(d.Text, "the neighbour sent more than 50000 prefixes (max_prefixes)"), d.Text
	})
	b.until("a pause", func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := b.byKey[r.addr.String()]
		pause := time.Until(n.addAt)
		if n.deaf || pause <= tooManyRoutesPause-deadline || pause > tooManyRoutesPause {
			return false, pause.String()
		}
		n.addAt = time.Now() // as if it were over
		return true, ""
	})
	b.wakeUp()
	b.join(r)
}

// A router that has another ASN than configured.
func TestSetupFails(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	n := r.neighbour()
	n.ASN = 64999
	b := start(t, "192.0.2.10/32", n)
	b.until("a refusal", func() (bool, string) {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.1.1")}}).Dial("tcp", b.addr.String())
		if err == nil {
			err = r.open(c, 2*time.Second) // closed without a word until GoBGP left idle
		}
		return err != nil && strings.Contains(err.Error(), "refused"), fmt.Sprint(err)
	})
	b.until("the reason", func() (bool, string) {
		d := b.Neighbours()[0].LastDown
		if d == nil {
			return false, "none"
		}
		return d.Code == 2 && d.Subcode == 2 && strings.Contains(d.Text, "bad peer AS"), d.Text
	})
}

// A router that answers the OPEN with a NOTIFICATION.
func TestSetupIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.1.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := read(c); err == nil {
				_ = write(c, bgp.NewBGPNotificationMessage(2, 2, nil))
			}
		}
	}()
	n := Neighbour{Address: netip.MustParseAddr("127.0.1.2"), ASN: routeASN, Port: l.Addr().(*net.TCPAddr).Port, IPv4: true}
	b := startWith(t, Settings{ASN: ourASN, RouterID: netip.MustParseAddr("192.0.2.200"), Port: -1, Neighbours: []Neighbour{n}})
	b.until("the refusal", func() (bool, string) {
		d := b.Neighbours()[0].LastDown
		if d == nil {
			return false, "none"
		}
		return d.Kind == DownSetup && strings.Contains(d.Text, "refused the session with a NOTIFICATION"), d.Text
	})
}

func TestWithdrawIsConfirmed(t *testing.T) {
	const vip = "192.0.2.10/32"
	r, other := newRouter(t, "127.0.1.1", routeASN), newRouter(t, "127.0.1.2", routeASN)
	b := start(t, vip, r.neighbour(), other.neighbour())
	announced := func() {
		t.Helper()
		b.put(vip, announce.Attrs{})
		for _, x := range []*router{r, other} {
			x.update()
			b.place(vip, x.addr.String(), "present", "")
		}
	}
	withdrawn := func() {
		t.Helper()
		b.remove(vip)
		for _, x := range []*router{r, other} {
			if got := x.update(); got != "-"+vip {
				t.Fatalf("%v received %q, want the withdraw", x.addr, got)
			}
		}
		b.place(vip, "127.0.1.1", "unconfirmed", "withdraw sent, and nothing was heard from the neighbour since")
		b.alive(other, vip, "gone")
	}
	b.join(r)
	b.join(other)

	announced()
	heard := b.Neighbours()[0].MessagesIn
	r.keepalive() // heard before the withdraw: proves nothing
	b.until("the keepalive to be counted", func() (bool, string) {
		got := b.Neighbours()[0].MessagesIn
		return got > heard, fmt.Sprint(got)
	})
	withdrawn()
	b.alive(r, vip, "")

	announced()
	withdrawn()
	r.cut() // the router has seen the end of the session, but we cannot know that
	b.place(vip, "127.0.1.1", "unconfirmed", "session lost (connection lost")
	b.join(r)
	b.place(vip, "127.0.1.1", "", "")

	announced()
	withdrawn()
	r.send(bgp.NewBGPNotificationMessage(6, 4, nil)) // it ended the session itself
	b.place(vip, "127.0.1.1", "", "")
	b.join(r)

	announced()
	r.cut()
	b.place(vip, "127.0.1.1", "pending", "session not established")
	b.remove(vip) // while there is no session
	b.place(vip, "127.0.1.1", "unconfirmed", "the router keeps the route until it notices")
	b.join(r)
	other.update()
	b.alive(other, vip, "")

	announced() // an announcement takes the place of a withdraw under way
	b.remove(vip)
	b.put(vip, announce.Attrs{Metric: 9})
	b.place(vip, "127.0.1.1", "present", "")
}

func TestConfigure(t *testing.T) {
	kept, changed, gone, added := newRouter(t, "127.0.1.1", routeASN), newRouter(t, "127.0.1.2", routeASN), newRouter(t, "127.0.1.3", routeASN), newRouter(t, "127.0.1.4", routeASN)
	b := start(t, "192.0.2.10/32 192.0.2.11/32", kept.neighbour(), changed.neighbour(), gone.neighbour())
	for _, r := range []*router{kept, changed, gone} {
		b.join(r)
	}
	b.put("192.0.2.10/32", announce.Attrs{})
	b.put("192.0.2.11/32", announce.Attrs{})
	for _, r := range []*router{kept, changed, gone} {
		r.update()
		r.update()
	}
	before := b.state("127.0.1.1", "established")

	st := b.set
	other := changed.neighbour()
	other.Hold = 30 * time.Second
	same := kept.neighbour()
	same.Name = "another name is no change"
	st.Neighbours = []Neighbour{same, other, added.neighbour()}
	st.Allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.11/32"), netip.MustParsePrefix("192.0.2.12/32")}
	if err := b.Configure(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*router{changed, gone} {
		m := r.next() // the withdraw of the VIP that is none any more, unless the end overtakes it
		if u, ok := m.Body.(*bgp.BGPUpdate); ok && describe(u) == "-192.0.2.10/32" {
			m = r.next()
		}
		note, ok := m.Body.(*bgp.BGPNotification)
		if !ok || note.ErrorCode != 6 || note.ErrorSubcode != 3 {
			t.Errorf("%v received %+v, want cease 6/3", r.addr, note)
		}
	}
	b.join(changed)
	b.join(added)
	b.put("192.0.2.12/32", announce.Attrs{})
	for _, r := range []*router{changed, added} {
		b.place("192.0.2.11/32", r.addr.String(), "present", "")
		b.place("192.0.2.12/32", r.addr.String(), "present", "")
	}
	if got := kept.update(); got != "-192.0.2.10/32" {
		t.Errorf("the kept router received %q, want the withdraw", got)
	}
	if got := kept.update(); !strings.HasPrefix(got, "+192.0.2.12/32,") {
		t.Errorf("the kept router received %q, want the new VIP and nothing else", got)
	}
	kept.quiet()
	after := b.state("127.0.1.1", "established")
	if !after.Since.Equal(before.Since) || after.Flaps != 0 || after.Name != same.Name {
		t.Errorf("the unchanged session: before %+v, after %+v", before, after)
	}
	var names []string
	for _, n := range b.Neighbours() {
		names = append(names, n.Address)
	}
	if got := strings.Join(names, " "); got != "127.0.1.1 127.0.1.2 127.0.1.4" {
		t.Errorf("neighbours %s", got)
	}
}

func TestConfigureNeedsRestart(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32", r.neighbour())
	for name, change := range map[string]func(*Settings){
		"ASN":       func(st *Settings) { st.ASN = 65011 },
		"router id": func(st *Settings) { st.RouterID = netip.MustParseAddr("192.0.2.201") },
		"port":      func(st *Settings) { st.Port++ },
		"listen addresses": func(st *Settings) {
			st.ListenAddresses = []netip.Addr{netip.MustParseAddr("127.0.0.2")}
		},
	} {
		st := b.set
		change(&st)
		if err := b.Configure(t.Context(), st); !errors.Is(err, ErrNeedsRestart) || !strings.Contains(err.Error(), name) {
			t.Errorf("another %s: error %v", name, err)
		}
	}
	st := b.set
	st.Neighbours = []Neighbour{{}}
	if err := b.Configure(t.Context(), st); err == nil || errors.Is(err, ErrNeedsRestart) {
		t.Errorf("an empty neighbour: error %v", err)
	}
	b.join(r) // everything is as it was
}

func TestStopWithdrawsThenSaysWhy(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32", r.neighbour())
	b.join(r)
	b.put("192.0.2.10/32", announce.Attrs{})
	r.update()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := b.Stop(ctx, "maintenance CHG123"); err != nil {
		t.Fatal(err)
	}
	if got := r.update(); got != "-192.0.2.10/32" {
		t.Errorf("received %q, want the withdraw", got)
	}
	note, ok := r.next().Body.(*bgp.BGPNotification)
	if !ok || note.ErrorCode != 6 || note.ErrorSubcode != 2 || string(note.Data) != "\x12maintenance CHG123" {
		t.Errorf("received %+v, want cease 6/2 with the text", note)
	}
	select {
	case <-r.closed():
	case <-time.After(deadline):
		t.Error("the connection is still open")
	}
	if err := b.Put(ctx, announce.Route{Prefix: netip.MustParsePrefix("192.0.2.10/32")}); !errors.Is(err, errStopped) {
		t.Errorf("Put after Stop: %v", err)
	}
}

// A router that reads nothing holds nobody up, and the other one gets its
// withdraws and its text.
func TestStopWithBlackHole(t *testing.T) {
	r, healthy := newRouter(t, "127.0.1.1", routeASN), newRouter(t, "127.0.1.2", routeASN)
	r.segment, r.hold = 536, 30
	b := start(t, "192.0.2.10/32", r.neighbour(), healthy.neighbour())
	b.join(r)
	b.join(healthy)
	r.gate.Lock()
	defer r.gate.Unlock()
	var many []uint32
	for i := range uint32(900) {
		many = append(many, i)
	}
	// Until the socket's buffers are full: nothing is written any more, however
	// much the other router is sent meanwhile.
	for i, stuck := uint32(0), 0; stuck < 50; i++ {
		b.put("192.0.2.10/32", announce.Attrs{Metric: i, Communities: many})
		b.place("192.0.2.10/32", "127.0.1.2", "present", "")
		seen, err := b.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stuck++
		if p := seen[netip.MustParsePrefix("192.0.2.10/32")].Places[0]; p.State != announce.Pending {
			stuck = 0
		}
		if i > 5000 {
			t.Fatal("the router took everything")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	begin := time.Now()
	err := b.Stop(ctx, "bye")
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("Stop took %v, its context ended after 3s", took)
	}
	if err == nil || !strings.Contains(err.Error(), "neighbour 127.0.1.1: 1 withdraws were not written") || strings.Contains(err.Error(), "127.0.1.2") {
		t.Errorf("Stop returned %v, want the black hole named, and only it", err)
	}
	for {
		note, ok := healthy.next().Body.(*bgp.BGPNotification)
		if !ok {
			continue
		}
		if note.ErrorCode != 6 || note.ErrorSubcode != 2 {
			t.Errorf("the healthy router received %+v, want cease 6/2", note)
		}
		return
	}
}
