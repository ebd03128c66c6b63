package bgp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/announce"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func settings(change func(*Settings, *Neighbour)) Settings {
	n := Neighbour{Address: netip.MustParseAddr("127.0.1.1"), ASN: routeASN, IPv4: true}
	st := Settings{ASN: ourASN, RouterID: netip.MustParseAddr("192.0.2.200"), Port: 1790}
	if change != nil {
		change(&st, &n)
	}
	st.Neighbours = append([]Neighbour{n}, st.Neighbours...)
	return st
}

func TestSettingsAreChecked(t *testing.T) {
	second := func(address string) func(*Settings, *Neighbour) {
		return func(st *Settings, n *Neighbour) {
			n.Address = netip.MustParseAddr("fe80::1%lo")
			st.Neighbours = []Neighbour{{Address: netip.MustParseAddr(address), ASN: routeASN, IPv4: true}}
		}
	}
	tests := []struct {
		name   string
		change func(*Settings, *Neighbour)
		want   string // "" is valid
	}{
		{"plain", nil, ""},
		{"no ASN", func(st *Settings, _ *Neighbour) { st.ASN = 0 }, "no ASN"},
		{"IPv6 router id", func(st *Settings, _ *Neighbour) { st.RouterID = netip.IPv6Loopback() }, "router id ::1 is not of IPv4 form"},
		{"no router id", func(st *Settings, _ *Neighbour) { st.RouterID = netip.Addr{} }, "router id invalid IP"},
		{"port", func(st *Settings, _ *Neighbour) { st.Port = 70000 }, "port 70000 is out of range"},
		{"prefix", func(st *Settings, _ *Neighbour) { st.Allowed = []netip.Prefix{{}} }, "allowed prefix is not valid"},
		{"default route", func(st *Settings, _ *Neighbour) { st.Allowed = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} }, "the default route 0.0.0.0/0 can never be allowed"},
		{"no address", func(_ *Settings, n *Neighbour) { n.Address = netip.Addr{} }, "is not of a host"},
		{"neighbour without ASN", func(_ *Settings, n *Neighbour) { n.ASN = 0 }, "neighbour 127.0.1.1: no ASN"},
		{"neighbour port", func(_ *Settings, n *Neighbour) { n.Port = -1 }, "port -1 is out of range"},
		{"no family", func(_ *Settings, n *Neighbour) { n.IPv4 = false }, "no address family"},
		{"hold", func(_ *Settings, n *Neighbour) { n.Hold = 2 * time.Second }, "hold time 2s is not between 3s"},
		{"hold in parts", func(_ *Settings, n *Neighbour) { n.Hold = 4500 * time.Millisecond }, "4.5s is not a number of whole seconds"},
		{"keepalive", func(_ *Settings, n *Neighbour) { n.Keepalive = 9 * time.Second }, "keepalive 9s is not between 1s and the hold time 9s"},
		{"retry", func(_ *Settings, n *Neighbour) { n.ConnectRetry = time.Millisecond }, "connect retry 1ms is below 1s"},
		{"multihop", func(_ *Settings, n *Neighbour) { n.Multihop = 256 }, "multihop 256 is not a TTL"},
		{"GTSM and multihop", func(_ *Settings, n *Neighbour) { n.TTLSecurity, n.Multihop = true, 2 }, "exclude each other"},
		{"password", func(_ *Settings, n *Neighbour) { n.Password = strings.Repeat("x", 81) }, "longer than 80 bytes"},
		{"password with NUL", func(_ *Settings, n *Neighbour) { n.Password = "a\x00" }, "NUL byte"},
		{"source", func(_ *Settings, n *Neighbour) { n.Source = netip.IPv6Loopback() }, "of different families"},
		{"next hop 6", func(_ *Settings, n *Neighbour) { n.NextHop6 = n.Address }, "next hop 127.0.1.1 of IPv6 routes is not IPv6"},
		{"passive alone", func(st *Settings, n *Neighbour) { st.Port, n.Passive = -1, true }, "passive, and the speaker does not listen"},
		{"link-local without zone", func(_ *Settings, n *Neighbour) { n.Address = netip.MustParseAddr("fe80::1") }, "needs a zone (fe80::1%eth0)"},
		{"link-local with password", func(_ *Settings, n *Neighbour) {
			n.Address, n.Password = netip.MustParseAddr("fe80::1%lo"), "x"
		}, "cannot use a password with a link-local address"},
		{"link-local with other source", func(_ *Settings, n *Neighbour) {
			n.Address, n.Source = netip.MustParseAddr("fe80::1%lo"), netip.MustParseAddr("2001:db8::1")
		}, "source 2001:db8::1 of a link-local session is not link-local"},
		{"twice", func(st *Settings, n *Neighbour) {
			st.Neighbours = []Neighbour{{Address: n.Address, ASN: 1, IPv4: true}}
		}, "127.0.1.1 is given twice"},
		{"two links, other addresses", second("fe80::2%eth1"), ""},
		{"two links, same address", second("fe80::1%eth1"), "neighbours fe80::1%lo (fe80::1%lo) and fe80::1%eth1 (fe80::1%eth1) have the same link-local address, and GoBGP's export policy cannot tell them apart"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := settings(tt.change).withDefaults().validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	st := settings(func(st *Settings, n *Neighbour) {
		st.Port, n.Address = 0, netip.MustParseAddr("::ffff:127.0.1.1")
		st.Allowed = []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32"), netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32")}
	}).withDefaults()
	want := Settings{
		ASN: ourASN, RouterID: netip.MustParseAddr("192.0.2.200"), Port: 179,
		ListenAddresses: []netip.Addr{netip.IPv4Unspecified()},
		Allowed:         []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32")},
		Neighbours: []Neighbour{{Name: "127.0.1.1", Address: netip.MustParseAddr("127.0.1.1"), ASN: routeASN, Port: 179,
			Hold: 9 * time.Second, Keepalive: 3 * time.Second, ConnectRetry: time.Second, IPv4: true, MaxPrefixes: 50_000}},
	}
	if diff := cmp.Diff(want, st, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// GODEBUG is read anew when it changes, so one process shows both.
func TestListenerMustNotBeMultipath(t *testing.T) {
	if multipath, err := listensMultipath(); err != nil || multipath {
		t.Fatalf("this binary: multipath %v, %v; go.mod should have godebug multipathtcp=0", multipath, err)
	}
	if b, err := os.ReadFile("/proc/sys/net/mptcp/enabled"); err != nil || strings.TrimSpace(string(b)) != "1" {
		return // a kernel where Go falls back to TCP has no trap to test
	}
	t.Setenv("GODEBUG", "multipathtcp=1")
	secure := map[string]func(*Settings, *Neighbour){
		"password":     func(_ *Settings, n *Neighbour) { n.Password = "x" },
		"TTL security": func(_ *Settings, n *Neighbour) { n.TTLSecurity = true },
	}
	for name, change := range secure {
		if _, err := Start(t.Context(), settings(change), discard()); !errors.Is(err, ErrMultipathTCP) {
			t.Errorf("%s: Start returned %v", name, err)
		}
	}
	if err := checkListener(settings(nil)); err != nil {
		t.Errorf("without either: %v", err)
	}
	dialOnly := settings(secure["password"])
	dialOnly.Port = -1
	if err := checkListener(dialOnly); err != nil {
		t.Errorf("without a listener: %v", err)
	}
}

func TestStartNeedsLinkLocalAddress(t *testing.T) {
	for zone, want := range map[string]string{
		"lo":           "interface lo has no IPv6 link-local address",
		"rhid-no-such": "interface rhid-no-such:",
	} {
		st := settings(func(st *Settings, n *Neighbour) {
			st.Port, n.Address = -1, netip.MustParseAddr("fe80::1%"+zone)
		})
		if _, err := Start(t.Context(), st, discard()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start returned %v, want %q", err, want)
		}
	}
}

func TestStartReportsBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	st := settings(func(st *Settings, _ *Neighbour) {
		st.Port = l.Addr().(*net.TCPAddr).Port
		st.ListenAddresses = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})
	if _, err := Start(t.Context(), st, discard()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Start returned %v, want address in use", err)
	}
}

func TestNotificationNames(t *testing.T) {
	for in, want := range map[[2]uint8]string{
		{6, 2}:   "cease: administrative shutdown (6/2)",
		{6, 10}:  "cease: BFD down (6/10)",
		{2, 2}:   "OPEN message error: bad peer AS (2/2)",
		{4, 0}:   "hold timer expired (4/0)",
		{3, 7}:   "UPDATE message error (3/7)",
		{6, 99}:  "cease (6/99)",
		{0, 0}:   "unknown (0/0)",
		{200, 1}: "unknown (200/1)",
	} {
		if got := notificationName(in[0], in[1]); got != want {
			t.Errorf("%v: %q, want %q", in, got, want)
		}
	}
}

func TestReasons(t *testing.T) {
	note := func(code, sub uint8) *notification { return &notification{code: code, subcode: sub} }
	tests := []struct {
		reason         string
		established    bool
		received, sent *notification
		want           Down
	}{
		{"notification-received code 6(cease)", true, note(6, 4), nil, Down{Kind: DownReceived, Code: 6, Subcode: 4, Text: "the neighbour ended the session: cease: administrative reset (6/4)"}},
		{"hold-timer-expired", true, nil, note(4, 0), Down{Kind: DownHoldTimer, Code: 4, Text: "hold timer expired: nothing heard for 9s"}},
		{"notification-sent code 4", true, nil, note(4, 0), Down{Kind: DownHoldTimer, Code: 4, Text: "hold timer expired: nothing heard for 9s"}},
		{"notification-sent code 6", true, nil, note(6, 1), Down{Kind: DownSent, Code: 6, Subcode: 1, Text: "this host ended the session: cease: maximum number of prefixes reached (6/1)"}},
		{"read-failed", true, nil, nil, Down{Kind: DownClosed, Text: "connection lost: closed by the neighbour, or reset"}},
		{"read-failed", false, nil, nil, Down{Kind: DownSetup, Text: "the neighbour closed the connection during the setup of the session; is this host configured there?"}},
		{"write-failed", true, nil, nil, Down{Kind: DownClosed, Text: "connection lost: the neighbour took nothing for the hold time, or reset it"}},
		{"invalid-msg", false, nil, nil, Down{Kind: DownSetup, Text: "the neighbour sent no valid OPEN"}},
		{"something new", false, nil, nil, Down{Kind: DownSetup, Text: "session setup failed: something new"}},
	}
	for _, tt := range tests {
		got := downReason(tt.reason, tt.established, 9*time.Second, tt.received, tt.sent)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
	dials := map[string]error{
		"connection refused": &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"no route to host":   &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)},
		"timed out":          &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		"odd":                errors.New("odd"),
	}
	for want, err := range dials {
		if got := dialReason(err, false); got.Text != want || got.Kind != DownDial {
			t.Errorf("%v: %+v, want %q", err, got, want)
		}
	}
	if got := dialReason(dials["timed out"], true); !strings.Contains(got.Text, "another MD5 password") {
		t.Errorf("with MD5: %+v", got)
	}
}

func TestPrependMarks(t *testing.T) {
	for _, v4 := range []bool{true, false} {
		for n := 0; n <= maxPrepend; n++ {
			if got, ok := markOf(markAddr(v4, n)); !ok || got != n {
				t.Errorf("%v: read back as %d, %v", markAddr(v4, n), got, ok)
			}
			sum := 0 // what the statements add up to
			for bit := 1; bit <= maxPrepend; bit <<= 1 {
				if slices.ContainsFunc(marksWith(bit), func(s string) bool { return netip.MustParsePrefix(s).Contains(markAddr(v4, n)) }) {
					sum += bit
				}
			}
			if sum != n {
				t.Errorf("the statements prepend %d times, want %d", sum, n)
			}
		}
	}
	for _, n := range []int{firstSpecial, 256, 70_000, lastSpecial} {
		for _, v4 := range []bool{true, false} {
			if got, ok := markOf(markAddr(v4, n)); !ok || got != n {
				t.Errorf("%v: read back as %d, %v", markAddr(v4, n), got, ok)
			}
			for bit := 1; bit <= maxPrepend; bit <<= 1 {
				if slices.ContainsFunc(marksWith(bit), func(s string) bool { return netip.MustParsePrefix(s).Contains(markAddr(v4, n)) }) {
					t.Errorf("mark %d would prepend %d times", n, bit)
				}
			}
		}
	}
	for _, a := range []string{"10.0.0.1", "100::1:0:0", "fe80::1", "2001:db8::1"} {
		if n, ok := markOf(netip.MustParseAddr(a)); ok {
			t.Errorf("%s counts as mark %d", a, n)
		}
	}
}

func FuzzEncodeDecode(f *testing.F) {
	f.Add(uint32(100), uint8(2), uint32(0), uint32(65535), uint32(7), true)
	f.Add(uint32(0), uint8(31), uint32(150), uint32(0), uint32(1), false)
	f.Fuzz(func(t *testing.T, metric uint32, prepend uint8, pref, c1, c2 uint32, v4 bool) {
		want := normalise(announce.Attrs{
			Metric: metric, Prepend: int(prepend) % (maxPrepend + 1), LocalPref: pref, Communities: []uint32{c1, c2},
			LargeCommunities: []announce.LargeCommunity{{Global: c2 | 1, Local1: c1, Local2: metric}, {Global: c1 | 1}},
			Origin:           announce.Origin(prepend % 3), Bandwidth: c2 % 400_000,
		})
		p := netip.MustParsePrefix("2001:db8::1/128")
		if v4 {
			p = netip.MustParsePrefix("192.0.2.1/32")
		}
		path, err := encode(announce.Route{Prefix: p, Attrs: want}, want.Prepend, c1)
		if err != nil {
			t.Fatal(err)
		}
		got, mark, err := decode(path)
		if err != nil {
			t.Fatal(err)
		}
		got.Prepend = mark
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("decoded (-want +got):\n%s", diff)
		}
	})
}

func TestFingerprint(t *testing.T) {
	a := announce.Attrs{Metric: 1, Prepend: 1, LocalPref: 5, Communities: []uint32{2, 1},
		LargeCommunities: []announce.LargeCommunity{{Global: 1}, {Global: 2}}}
	base := wanted(a, false).sum()
	same := a
	same.LocalPref, same.Rank = 6, 9 // eBGP neighbours do not see them
	same.Communities = []uint32{1, 2, 1}
	if wanted(same, false).sum() != base {
		t.Error("what does not change the wire changes the fingerprint")
	}
	seen := map[uint64]string{base: "itself", wanted(a, true).sum(): "iBGP"}
	for name, change := range map[string]func(*announce.Attrs){
		"metric":            func(a *announce.Attrs) { a.Metric = 2 },
		"prepend":           func(a *announce.Attrs) { a.Prepend = 0 },
		"origin":            func(a *announce.Attrs) { a.Origin = announce.OriginEGP },
		"bandwidth":         func(a *announce.Attrs) { a.Bandwidth = 10 },
		"communities":       func(a *announce.Attrs) { a.Communities = nil },
		"large communities": func(a *announce.Attrs) { a.LargeCommunities = a.LargeCommunities[:1] },
	} {
		b := a
		change(&b)
		sum := wanted(b, false).sum()
		if other, ok := seen[sum]; ok {
			t.Errorf("another %s has the fingerprint of %s", name, other)
		}
		seen[sum] = name
	}
}

func TestShorten(t *testing.T) {
	if got := shorten("short"); got != "short" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("x", maxCommunication-1) + "你好"
	if got := shorten(long); got != strings.Repeat("x", maxCommunication-1) {
		t.Errorf("cut to %q, want no part of a character", got)
	}
}

func TestBackOff(t *testing.T) {
	n := newNeighbour(Neighbour{}, ourASN)
	var got []string
	for range 6 {
		got = append(got, fmt.Sprint(n.backOff()))
	}
	if diff := cmp.Diff([]string{"0s", "200ms", "400ms", "800ms", "1s", "1s"}, got); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	n.setDown(time.Now(), Down{Kind: DownPrefixes})
	if got := n.backOff(); got != tooManyRoutesPause {
		t.Errorf("after too many routes %v", got)
	}
	for range 9 {
		n.backOff()
	}
	if got := n.backOff(); got != 32*tooManyRoutesPause {
		t.Errorf("after too many routes again and again %v", got)
	}
	n.up = time.Now().Add(-calmSession - 1)
	n.sessionDown(time.Now(), Down{Kind: DownPrefixes})
	if got := n.backOff(); got != tooManyRoutesPause {
		t.Errorf("after a calm session %v", got)
	}
}

func TestGiveUpSetup(t *testing.T) {
	n := newNeighbour(Neighbour{}, ourASN)
	begin := time.Now()
	n.state, n.since = stateOpenSent, begin
	n.giveUpSetup(begin.Add(setupPatience - 1))
	if !n.addAt.IsZero() {
		t.Error("given up too early")
	}
	n.giveUpSetup(begin.Add(setupPatience))
	if n.addAt.IsZero() || n.down.Kind != DownSetup {
		t.Error("not given up")
	}
	n.restarted(begin)
	n.state, n.since = stateOpenSent, begin
	n.giveUpSetup(begin.Add(setupPatience))
	if !n.addAt.IsZero() {
		t.Error("a slow router does not get more time")
	}
}
