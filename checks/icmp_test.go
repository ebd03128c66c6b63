package checks

import (
	"context"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Where this process may send echo requests, they must be answered on the
// loopback; where it may not, the result must say what is missing.
func TestICMPLoopback(t *testing.T) {
	tests := []struct {
		name string
		to   Target
		opts ICMPOptions
		want string
	}{
		{"IPv4", Target{Host: "127.0.0.1"}, ICMPOptions{}, `^1 of 1 echo requests answered, round trip \S+ on average$`},
		{"IPv6", Target{Host: "::1"}, ICMPOptions{}, `^1 of 1 echo requests answered`},
		{"several", Target{Host: "127.0.0.1"}, ICMPOptions{Count: 5, Spacing: time.Millisecond, MaxRTT: time.Second}, `^5 of 5 echo requests answered`},
		{"several, IPv6", Target{Host: "::1"}, ICMPOptions{Count: 3, Spacing: time.Millisecond}, `^3 of 3 echo requests answered`},
		{"source", Target{Host: "127.0.0.1", Source: netip.MustParseAddr("127.0.0.79")}, ICMPOptions{}, `^1 of 1 echo requests answered`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.to.Limit = probeLimit
			res := probeOnce(t, &tt.opts, tt.to)
			if !mayPing(t) {
				wantOutcome(t, res, outcome{false, CauseInternal, "this host does not let rhid send ICMP echo requests: " +
					"it needs CAP_NET_RAW, or its group within net.ipv4.ping_group_range"})
				return
			}
			if !res.OK || !regexp.MustCompile(tt.want).MatchString(res.Detail) {
				t.Errorf("%+v, want ok and %s", res, tt.want)
			}
		})
	}
}

// mayPing asks the kernel, by the other way to the same sockets.
func mayPing(t *testing.T) bool {
	t.Helper()
	for _, network := range []string{"udp4", "ip4:icmp"} {
		c, err := icmp.ListenPacket(network, "127.0.0.1")
		if err == nil {
			c.Close()
			return true
		}
	}
	if os.Geteuid() == 0 {
		t.Error("not even root may send ICMP here")
	}
	return false
}

func TestICMPJudge(t *testing.T) {
	ms := time.Millisecond
	tests := []struct {
		name  string
		opts  ICMPOptions
		back  int
		total time.Duration
		want  outcome
	}{
		{"nothing", ICMPOptions{Count: 3}, 0, 0, outcome{false, CauseTimeout, "no answer within 800ms (0 of 3 echo requests answered)"}},
		{"one lost", ICMPOptions{Count: 5}, 4, 4 * ms, outcome{false, CauseAnswer, "4 of 5 echo requests answered within 800ms, at most 0% may be lost"}},
		{"one may be lost", ICMPOptions{Count: 5, MaxLoss: 20}, 4, 4 * ms, outcome{true, CauseNone, "4 of 5 echo requests answered, round trip 1ms on average"}},
		{"two may not", ICMPOptions{Count: 5, MaxLoss: 20}, 3, 3 * ms, outcome{false, CauseAnswer, "3 of 5 echo requests answered within 800ms, at most 20% may be lost"}},
		{"too slow", ICMPOptions{Count: 2, MaxRTT: 50 * ms}, 2, 240 * ms, outcome{false, CauseAnswer, "round trip of 120ms on average, at most 50ms allowed"}},
		{"just in time", ICMPOptions{Count: 2, MaxRTT: 120 * ms}, 2, 240 * ms, outcome{true, CauseNone, "2 of 2 echo requests answered, round trip 120ms on average"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &icmpProbe{aim: &aim{limit: 800 * ms}, count: tt.opts.Count, maxLoss: tt.opts.MaxLoss, maxRTT: tt.opts.MaxRTT}
			res := p.judge(context.Background(), &echoes{n: tt.back, total: tt.total})
			wantOutcome(t, res, tt.want)
		})
	}
}

func TestICMPMatch(t *testing.T) {
	ours := [icmpNonce]byte{1, 2, 3, 4, 5, 6, 7, 8}
	data := append(ours[:], make([]byte, 48)...)
	reply := func(typ icmp.Type, id, seq int, data []byte) []byte {
		b, err := (&icmp.Message{Type: typ, Body: &icmp.Echo{ID: id, Seq: seq, Data: data}}).Marshal(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	header := append([]byte{0x45}, make([]byte, 19)...)
	tests := []struct {
		name    string
		raw, v4 bool
		b       []byte
		want    bool
	}{
		{"datagram", false, true, reply(ipv4.ICMPTypeEchoReply, 99, 1, data), true},
		{"datagram, IPv6", false, false, reply(ipv6.ICMPTypeEchoReply, 99, 1, data), true},
		{"raw", true, true, append(header, reply(ipv4.ICMPTypeEchoReply, 7, 1, data)...), true},
		{"raw, IPv6", true, false, reply(ipv6.ICMPTypeEchoReply, 7, 1, data), true},
		{"raw, another's identifier", true, true, append(header, reply(ipv4.ICMPTypeEchoReply, 8, 1, data)...), false},
		{"never sent", false, true, reply(ipv4.ICMPTypeEchoReply, 7, 2, data), false},
		{"a request", false, true, reply(ipv4.ICMPTypeEcho, 7, 1, data), false},
		{"another's data", false, true, reply(ipv4.ICMPTypeEchoReply, 7, 1, make([]byte, 56)), false},
		{"too little data", false, true, reply(ipv4.ICMPTypeEchoReply, 7, 1, ours[:4]), false},
		{"empty", false, true, nil, false},
		{"raw, header only", true, true, header, false},
		{"raw, bad header", true, true, []byte{0x4f}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &echoes{id: 7, nonce: ours, raw: tt.raw, v4: tt.v4, sent: make([]time.Time, 2)}
			seq, ok := e.match(tt.b)
			if ok != tt.want || ok && seq != 1 {
				t.Errorf("matches %v (sequence %d), want %v", ok, seq, tt.want)
			}
		})
	}
}

func FuzzICMPMatch(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8}, false, true)
	f.Add(append([]byte{0x45}, make([]byte, 40)...), true, true)
	f.Add([]byte{129, 0, 0, 0, 0, 7, 0, 1}, true, false)
	f.Fuzz(func(t *testing.T, b []byte, raw, v4 bool) {
		e := &echoes{id: 7, raw: raw, v4: v4, sent: make([]time.Time, 2)}
		if seq, ok := e.match(b); ok && (seq < 0 || seq > 1) {
			t.Errorf("answers request %d of 2", seq)
		}
	})
}

func TestICMPUnusable(t *testing.T) {
	tests := []struct {
		opts ICMPOptions
		to   Target
		want string
	}{
		{ICMPOptions{}, Target{}, "the check needs a target"},
		{ICMPOptions{Count: 9}, Target{Host: "10.0.0.1", Limit: 800 * time.Millisecond}, "9 echo requests every 100ms take 800ms, which must be shorter than the timeout 800ms"},
		{ICMPOptions{Count: -1}, Target{Host: "10.0.0.1"}, "icmp check: count -1 is not between"},
	}
	for _, tt := range tests {
		if _, err := tt.opts.Prober(tt.to); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}
