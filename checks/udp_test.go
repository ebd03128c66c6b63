package checks

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

// serveUDP answers each datagram with what f makes of it, nil meaning nothing,
// until the test ends.
func serveUDP(t *testing.T, addr string, f func(got []byte) []byte) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, maxDatagram)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := f(buf[:n]); answer != nil {
				_, _ = pc.WriteTo(answer, from) // the probe may have seen enough
			}
		}
	}()
	t.Cleanup(func() {
		pc.Close()
		<-done
	})
	return addrPort(t, pc.LocalAddr())
}

func says(answer string) func([]byte) []byte { return func([]byte) []byte { return []byte(answer) } }

func mute([]byte) []byte { return nil }

func TestUDP(t *testing.T) {
	long := strings.Repeat("x", udpAnswerLimit-3) + "END" + strings.Repeat("x", 50000)
	tests := []struct {
		name  string
		opts  UDPOptions
		serve func([]byte) []byte
		short bool
		want  outcome
	}{
		{"any answer", UDPOptions{Send: "PING"}, says("?"), false, outcome{true, CauseNone, "answered as expected"}},
		{"empty answer", UDPOptions{Send: "PING"}, says(""), false, outcome{true, CauseNone, "answered as expected"}},
		{"contains", UDPOptions{Send: "PING", Expect: "PONG"}, says("+PONG\n"), false, outcome{true, CauseNone, "answered as expected"}},
		{"as long as can be", UDPOptions{Send: "PING", Expect: "END"}, says(long), false, outcome{true, CauseNone, "answered as expected"}},
		{"what was sent", UDPOptions{SendHex: "00 ff", ExpectHex: "00ff", Match: "prefix"}, func(b []byte) []byte { return b }, false, outcome{true, CauseNone, "answered as expected"}},
		{"wrong answer", UDPOptions{Send: "PING", Expect: "PONG"}, says("ERR"), false, outcome{false, CauseAnswer, `answered "ERR", wanted "PONG"`}},
		{"too short for the prefix", UDPOptions{Send: "PING", Expect: "PONG", Match: "prefix"}, says("PO"), false, outcome{false, CauseAnswer, `answered "PO", wanted "PONG"`}},
		{"another prefix", UDPOptions{Send: "PING", Expect: "PONG", Match: "prefix"}, says("-PONG"), false, outcome{false, CauseAnswer, `answered "-PONG", wanted "PONG" at the start`}},
		{"mute", UDPOptions{Send: "PING"}, mute, true, outcome{false, CauseTimeout, "no answer within 300ms"}},
		{"mute as it should be", UDPOptions{Send: "PING", Silence: "ok"}, mute, true, outcome{true, CauseNone, "sent, and nothing came back to say that the port is closed"}},
		{"answers although it need not", UDPOptions{Send: "PING", Silence: "ok"}, says("x"), false, outcome{true, CauseNone, "answered as expected"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limit := probeLimit
			if tt.short {
				limit = shortLimit
			}
			to := serveUDP(t, "127.0.0.1:0", tt.serve)
			wantOutcome(t, probeOnce(t, &tt.opts, targetOf(to, limit)), tt.want)
		})
	}
	t.Run("IPv6 and source", func(t *testing.T) {
		to := targetOf(serveUDP(t, "[::1]:0", says("x")), probeLimit)
		to.Source = netip.IPv6Loopback()
		wantOutcome(t, probeOnce(t, &UDPOptions{Send: "x"}, to), outcome{true, CauseNone, "answered as expected"})
	})
	t.Run("source elsewhere", func(t *testing.T) {
		to := targetOf(closedPort(t), probeLimit)
		to.Source = netip.MustParseAddr("192.0.2.77")
		wantOutcome(t, probeOnce(t, &UDPOptions{Send: "x"}, to),
			outcome{false, CauseInternal, "source address 192.0.2.77 is not on this host, or it has no free port left"})
	})
	t.Run("closed port", func(t *testing.T) {
		// A port that is there for one peer alone: nobody else gets it meanwhile.
		c, err := net.Dial("udp", "127.0.0.1:9")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		to := targetOf(addrPort(t, c.LocalAddr()), probeLimit)
		wantOutcome(t, probeOnce(t, &UDPOptions{Send: "x"}, to),
			outcome{false, CauseRefused, "port closed: the target says that nothing listens there (ICMP port unreachable)"})
	})
}

func FuzzJudgeDatagram(f *testing.F) {
	f.Add([]byte("+PONG\r\n"), []byte("PONG"), false)
	f.Add([]byte("PO"), []byte("PONG"), true)
	f.Add([]byte{}, []byte{0}, true)
	f.Fuzz(func(t *testing.T, got, want []byte, prefix bool) {
		p := udpProbe{tcpProbe: tcpProbe{want: want, prefix: prefix}}
		fail := p.judgeDatagram(got)
		right := strings.Contains(string(got), string(want))
		if prefix {
			right = strings.HasPrefix(string(got), string(want))
		}
		if (fail == nil) != right {
			t.Errorf("%q for %q, prefix %t: %+v", got, want, prefix, fail)
		}
		if fail != nil && (fail.cause != CauseAnswer || len(fail.detail) > 8*quoteLimit+80) {
			t.Errorf("%+v", fail)
		}
	})
}
