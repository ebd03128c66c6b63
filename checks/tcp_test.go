package checks

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answers returns a server that reads what is sent, at most once, and answers.
func answers(read bool, parts ...string) func(net.Conn) {
	return func(c net.Conn) {
		if read {
			var buf [1024]byte
			_, _ = c.Read(buf[:]) // the answer is the same whatever came
		}
		for _, p := range parts {
			_, _ = io.WriteString(c, p) // the probe may have seen enough
		}
	}
}

// holds answers and then keeps the connection open until the other side is
// done.
func holds(parts ...string) func(net.Conn) {
	return func(c net.Conn) {
		answers(false, parts...)(c)
		_, _ = io.Copy(io.Discard, c) // until the probe closes
	}
}

func TestTCPAnswers(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	tests := []struct {
		name  string
		opts  TCPOptions
		limit time.Duration
		serve func(net.Conn)
		want  outcome
	}{
		{"connect only", TCPOptions{}, probeLimit, holds(), outcome{true, CauseNone, "connected"}},
		{"send only", TCPOptions{Send: "QUIT\r\n"}, probeLimit, answers(true), outcome{true, CauseNone, "connected and sent"}},
		{"banner", TCPOptions{Expect: "SSH-2.0"}, probeLimit, holds("SSH-2.0-x\r\n"), outcome{true, CauseNone, "answered as expected"}},
		{"somewhere in the answer", TCPOptions{Send: "PING\n", Expect: "PONG"}, probeLimit, answers(true, "+PONG\r\n"), outcome{true, CauseNone, "answered as expected"}},
		{"split over packets", TCPOptions{Expect: "hello world"}, probeLimit, holds("say hel", "lo wor", "ld"), outcome{true, CauseNone, "answered as expected"}},
		{"beyond the first buffer", TCPOptions{Expect: "END"}, probeLimit, holds(long[:60<<10] + "END"), outcome{true, CauseNone, "answered as expected"}},
		{"hex", TCPOptions{SendHex: "00 01", ExpectHex: "00 0C ff"}, probeLimit, answers(true, "\x00\x0c\xff\x01"), outcome{true, CauseNone, "answered as expected"}},
		{"prefix", TCPOptions{Expect: "220 ", Match: "prefix"}, probeLimit, holds("22", "0 ready\r\n"), outcome{true, CauseNone, "answered as expected"}},
		{"prefix elsewhere", TCPOptions{Expect: "ready", Match: "prefix"}, probeLimit, holds("220 ready\r\n"), outcome{false, CauseAnswer, `answered "220 ready\r\n", wanted "ready" at the start`}},
		{"wrong answer", TCPOptions{Send: "PING\n", Expect: "PONG"}, probeLimit, answers(true, "-ERR\r\n"), outcome{false, CauseAnswer, `answered "-ERR\r\n" and closed the connection, wanted "PONG"`}},
		{"half closed", TCPOptions{Send: "PING\n", Expect: "PONG"}, probeLimit, func(c net.Conn) {
			if tc, ok := c.(*net.TCPConn); ok {
				_ = tc.CloseWrite() // a failure shows as another result
			}
			_, _ = io.Copy(io.Discard, c) // until the probe closes
		}, outcome{false, CauseAnswer, "the target closed the connection without an answer"}},
		{"mute", TCPOptions{Expect: "x"}, shortLimit, holds(), outcome{false, CauseTimeout, "connected, but no answer within 300ms"}},
		{"stops half way", TCPOptions{Expect: "hello"}, partLimit, holds("hel"), outcome{false, CauseAnswer, `answered "hel" and nothing more within 1s, wanted "hello"`}},
		{"endless", TCPOptions{Expect: "END"}, probeLimit, holds(long), outcome{false, CauseAnswer, `the first 65536 bytes of the answer do not contain "END"`}},
		{"reset", TCPOptions{Expect: "x"}, probeLimit, func(c net.Conn) {
			if tc, ok := c.(*net.TCPConn); ok {
				_ = tc.SetLinger(0) // a failure shows as another result
			}
		}, outcome{false, CauseNetwork, "connection reset by the target"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to := serve(t, "127.0.0.1:0", tt.serve)
			wantOutcome(t, probeOnce(t, &tt.opts, targetOf(to, tt.limit)), tt.want)
		})
	}
}

func TestTCPNoConnection(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		res := probeOnce(t, &TCPOptions{}, targetOf(closedPort(t), probeLimit))
		wantOutcome(t, res, outcome{false, CauseRefused, "connection refused"})
	})
	t.Run("black hole", func(t *testing.T) {
		res := probeOnce(t, &TCPOptions{}, targetOf(blackHole(t), shortLimit))
		wantOutcome(t, res, outcome{false, CauseTimeout, "no answer within 300ms (SYN not answered)"})
	})
	t.Run("stopped", func(t *testing.T) {
		p, err := (&TCPOptions{}).Prober(targetOf(blackHole(t), probeLimit))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(20*time.Millisecond, cancel)
		res := p.Probe(ctx)
		wantOutcome(t, res, outcome{false, CauseInternal, "the probe was stopped"})
		if res.Took > probeLimit/2 {
			t.Errorf("took %s to stop", res.Took)
		}
	})
	t.Run("source elsewhere", func(t *testing.T) {
		to := targetOf(closedPort(t), probeLimit)
		to.Source = netip.MustParseAddr("192.0.2.77")
		wantOutcome(t, probeOnce(t, &TCPOptions{}, to),
			outcome{false, CauseInternal, "source address 192.0.2.77 is not on this host, or it has no free port left"})
	})
	t.Run("no such name", func(t *testing.T) {
		to := Target{Host: "server.invalid", Port: 1, Limit: shortLimit}
		res := probeOnce(t, &TCPOptions{}, to)
		if res.Cause != CauseResolve || !strings.HasPrefix(res.Detail, "name server.invalid ") {
			t.Errorf("result %+v, want a name that does not resolve", res)
		}
	})
}

func TestTCPStopsWhileWaitingForAnswer(t *testing.T) {
	to := serve(t, "127.0.0.1:0", holds())
	p, err := (&TCPOptions{Expect: "x"}).Prober(targetOf(to, probeLimit))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	wantOutcome(t, p.Probe(ctx), outcome{false, CauseInternal, "the probe was stopped"})
}

func TestTCPSourceAndFamilies(t *testing.T) {
	var from atomic.Value
	note := func(c net.Conn) { from.Store(c.RemoteAddr().String()); _, _ = io.WriteString(c, "x") }
	t.Run("IPv4 source", func(t *testing.T) {
		to := targetOf(serve(t, "127.0.0.1:0", note), probeLimit)
		to.Source = netip.MustParseAddr("127.0.0.77")
		wantOutcome(t, probeOnce(t, &TCPOptions{Expect: "x"}, to), outcome{true, CauseNone, "answered as expected"})
		if got, _ := from.Load().(string); !strings.HasPrefix(got, "127.0.0.77:") {
			t.Errorf("the probe came from %s", got)
		}
	})
	t.Run("IPv6", func(t *testing.T) {
		to := targetOf(serve(t, "[::1]:0", note), probeLimit)
		to.Source = netip.IPv6Loopback()
		wantOutcome(t, probeOnce(t, &TCPOptions{Expect: "x"}, to), outcome{true, CauseNone, "answered as expected"})
	})
	t.Run("name", func(t *testing.T) {
		to := targetOf(serve(t, "127.0.0.1:0", note), probeLimit)
		to.Host, to.Source = "localhost", netip.MustParseAddr("127.0.0.1")
		wantOutcome(t, probeOnce(t, &TCPOptions{Expect: "x"}, to), outcome{true, CauseNone, "answered as expected"})
	})
}

func TestTCPUnusable(t *testing.T) {
	v6, v4 := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1")
	tests := []struct {
		name string
		opts TCPOptions
		to   Target
		want string
	}{
		{"no target", TCPOptions{}, Target{}, "the check needs a target"},
		{"no port", TCPOptions{}, Target{Host: "10.0.0.2"}, "target 10.0.0.2 has no port"},
		{"mixed families", TCPOptions{}, Target{Host: v6.String(), Port: 1, Source: v4}, "different address families"},
		{"bad options", TCPOptions{SendHex: "0"}, Target{Host: "10.0.0.2", Port: 1}, "send_hex must be pairs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.opts.Prober(tt.to); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestErrnoFailure(t *testing.T) {
	tests := map[syscall.Errno]Cause{
		syscall.ECONNREFUSED:  CauseRefused,
		syscall.ECONNRESET:    CauseNetwork,
		syscall.EPIPE:         CauseNetwork,
		syscall.ENETUNREACH:   CauseNetwork,
		syscall.EHOSTUNREACH:  CauseNetwork,
		syscall.ENETDOWN:      CauseNetwork,
		syscall.ETIMEDOUT:     CauseTimeout,
		syscall.EMFILE:        CauseInternal,
		syscall.ENFILE:        CauseInternal,
		syscall.ENOBUFS:       CauseInternal,
		syscall.EADDRNOTAVAIL: CauseInternal,
		syscall.EADDRINUSE:    CauseInternal,
		syscall.EPERM:         CauseInternal,
		syscall.EINVAL:        CauseInternal,
	}
	for e, want := range tests {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: e}
		f := netFailure(context.Background(), err, "late")
		if f.cause != want || f.detail == "" || f.detail == "late" {
			t.Errorf("%v: %s %q, want cause %s and a sentence of its own", e, f.cause, f.detail, want)
		}
	}
}

func TestTCPLeavesNothingOpen(t *testing.T) {
	up, down := serve(t, "127.0.0.1:0", holds("no")), closedPort(t)
	probes := []struct {
		o  Options
		to netip.AddrPort
	}{{&TCPOptions{}, up}, {&TCPOptions{Expect: "yes"}, up}, {&TCPOptions{}, down}}
	run := func() {
		for _, p := range probes {
			probeOnce(t, p.o, targetOf(p.to, 20*time.Millisecond))
		}
	}
	run()
	before := openFiles(t)
	for range 20 {
		run()
	}
	eventually(t, "all connections are closed", func() bool { return openFiles(t) <= before })
}

func TestOneLine(t *testing.T) {
	tests := []struct {
		in    string
		limit int
		want  string
	}{
		{"OK - all fine\nmore", 256, "OK - all fine"},
		{"\n\n  second \r\n", 256, "second"},
		{"\x1b[31mred\x00", 256, "[31mred"},
		{"bad \xff\xfe bytes", 256, "bad ? bytes"},
		{strings.Repeat("é", 20), 16, strings.Repeat("é", 6) + "…"},
		{"", 16, ""},
	}
	for _, tt := range tests {
		got := oneLine([]byte(tt.in), tt.limit)
		if d := cmp.Diff(tt.want, got); d != "" || len(got) > tt.limit {
			t.Errorf("%q (-want +got):\n%s", tt.in, d)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add([]byte("OK | x=1\n"))
	f.Add([]byte("\xff\x00é\r\n"))
	f.Add(bytes.Repeat([]byte("日"), 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := oneLine(b, execLineLimit)
		if len(s) > execLineLimit || strings.ContainsAny(s, "\n\r\x00\x1b") || strings.ToValidUTF8(s, "") != s {
			t.Errorf("%q became %q", b, s)
		}
	})
}
