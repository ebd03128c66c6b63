//go:build integration

package sockdiag

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace runs f in a network namespace of its own, on a thread that ends
// with it: sockets that f makes belong there.
func inNamespace(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread is not fit for anything else
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("make a network namespace: %v", err)
			return
		}
		command(t, "ip link set lo up")
		f(t)
	}()
	<-done
}

func command(t *testing.T, line string) {
	t.Helper()
	args := strings.Fields(line)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", line, err, out)
	}
}

// server answers each connection with f.
func server(t *testing.T, network, addr string, f func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c.(*net.TCPConn))
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

func answer(c *net.TCPConn) {
	defer c.Close()
	if _, err := c.Read(make([]byte, 64)); err == nil {
		_, _ = c.Write([]byte("yes\n"))
	}
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}

func resetLater(c *net.TCPConn) {
	_, _ = c.Read(make([]byte, 64))
	reset(c)
}

// ask makes one connection, says something and waits for the answer.
func ask(to netip.AddrPort, limit time.Duration) error {
	d := net.Dialer{Timeout: limit, KeepAlive: -1}
	c, err := d.Dial("tcp", to.String())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := io.WriteString(c, "well?\n"); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	_, err = io.ReadAll(c)
	return err
}

// abort is how HAProxy ends its own checks.
func abort(to netip.AddrPort) error {
	c, err := net.Dial("tcp", to.String())
	if err == nil {
		reset(c.(*net.TCPConn))
	}
	return err
}

// patience is how long a connection that ends by itself may take.
const patience = 30 * time.Second

// Each thing that can become of a connection is seen as what it is, over both
// address families.
func TestOutcomes(t *testing.T) {
	const n = 10
	for _, ip := range []string{"127.0.0.1", "::1"} {
		family := "ip"
		if ip == "::1" {
			family = "ip6"
		}
		at := net.JoinHostPort(ip, "0")
		tests := []struct {
			name string
			to   func() netip.AddrPort
			act  func(netip.AddrPort)
			want Totals
		}{
			{"answers", func() netip.AddrPort { return server(t, "tcp", at, answer) },
				func(to netip.AddrPort) {
					if err := ask(to, patience); err != nil {
						t.Error(err)
					}
				}, Totals{Good: n}},
			{"resets at once", func() netip.AddrPort { return server(t, "tcp", at, reset) },
				func(to netip.AddrPort) { _ = ask(to, patience) }, Totals{Reset: n}},
			{"resets when asked", func() netip.AddrPort { return server(t, "tcp", at, resetLater) },
				func(to netip.AddrPort) { _ = ask(to, patience) }, Totals{Reset: n}},
			{"refuses", func() netip.AddrPort { return netip.MustParseAddrPort(net.JoinHostPort(ip, "9")) },
				func(to netip.AddrPort) { _ = ask(to, patience) }, Totals{Refused: n}},
			{"silent", func() netip.AddrPort {
				command(t, "nft add table "+family+" t")
				command(t, "nft add chain "+family+" t i { type filter hook input priority 0 ; }")
				command(t, "nft add rule "+family+" t i tcp dport 7 drop")
				return netip.MustParseAddrPort(net.JoinHostPort(ip, "7"))
			}, func(to netip.AddrPort) { _ = ask(to, 50*time.Millisecond) }, Totals{Unanswered: n}},
			{"aborted by this host", func() netip.AddrPort { return server(t, "tcp", at, resetLater) },
				func(to netip.AddrPort) {
					if err := abort(to); err != nil {
						t.Error(err)
					}
				}, Totals{}},
		}
		for _, tt := range tests {
			inNamespace(t, func(t *testing.T) {
				to := tt.to()
				w, err := Open(to, time.Now())
				if err != nil {
					t.Error(err)
					return
				}
				defer w.Close()
				if got, _, err := w.Read(time.Now()); err != nil || got != (Totals{}) {
					t.Errorf("without traffic: %+v, %v", got, err)
				}
				for range n {
					tt.act(to)
				}
				begin := time.Now()
				got, live, err := w.Read(begin)
				took := time.Since(begin)
				for end := time.Now().Add(30 * time.Second); got.Judged() < tt.want.Judged() && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
					got, live, err = w.Read(time.Now())
				}
				t.Logf("%s, %s: %+v, %+v; read in %s", ip, tt.name, got, live, took)
				got.Segments, got.Retransmits = 0, 0
				if err != nil || got != tt.want {
					t.Errorf("%s, %s: %+v, %v; want %+v", ip, tt.name, got, err, tt.want)
				}
			})
		}
	}
}

// What a reading costs, with many connections to the server and as many to
// another one.
func TestCost(t *testing.T) {
	const n = 1000
	inNamespace(t, func(t *testing.T) {
		hold := func(c *net.TCPConn) { t.Cleanup(func() { c.Close() }) }
		sink := server(t, "tcp", "127.0.0.1:0", hold)
		other := server(t, "tcp", "127.0.0.1:0", hold)
		w, err := Open(sink, time.Now())
		if err != nil {
			t.Error(err)
			return
		}
		defer w.Close()
		for range n {
			for _, to := range []netip.AddrPort{sink, other} {
				c, err := net.Dial("tcp", to.String())
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { c.Close() })
			}
		}
		const readings = 20
		begin, used := time.Now(), processorTime(t)
		var live Live
		for range readings {
			if _, live, err = w.Read(time.Now()); err != nil {
				t.Error(err)
			}
		}
		t.Logf("%d connections to the server, %d to another: a reading took %s, of them %s of a processor",
			live.Open, n, time.Since(begin)/readings, (processorTime(t)-used)/readings)
		if live.Open != n {
			t.Errorf("%d connections were seen, there are %d", live.Open, n)
		}
	})
}

// processorTime is what the calling thread has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Error(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
