//go:build integration

package capture

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

// serve hands each connection to f, one after the other.
func serve(t *testing.T, addr string, f func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", addr)
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

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}

// ask makes one HTTP request on a connection of its own.
func ask(to netip.AddrPort) {
	d := net.Dialer{Timeout: 2 * time.Second, KeepAlive: -1} // the kernel sends a SYN again after one
	c, err := d.Dial("tcp", to.String())
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err == nil {
		_, _ = io.ReadAll(c)
	}
}

// settled reads until done says that all has come, or a while has passed.
func settled(t *testing.T, c *Capture, done func(Totals) bool) Totals {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got, _, err := c.Read()
		if err != nil {
			t.Error(err)
		}
		if done(got) || time.Now().After(end) {
			return got
		}
	}
}

// What a server does is seen in its packets, over both address families.
func TestCapture(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		inNamespace(t, func(t *testing.T) {
			asked := 0
			third := serve(t, net.JoinHostPort(ip, "0"), func(c *net.TCPConn) {
				defer c.Close()
				if _, err := c.Read(make([]byte, 100)); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond) // of which a busy machine may hide some from the capture
				status := "200 OK"
				if asked++; asked%3 == 0 {
					status = "500 Oh no"
				}
				_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status)
			})
			resets := serve(t, net.JoinHostPort(ip, "0"), reset)
			command(t, "nft add table inet t")
			command(t, "nft add chain inet t i { type filter hook input priority 0 ; }")
			command(t, "nft add rule inet t i tcp dport 7 drop")
			at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(third.Addr(), port) }
			tests := []struct {
				name string
				to   netip.AddrPort
				n    int
				want func(Totals) bool
			}{
				{"500 to every third", third, 30, func(d Totals) bool {
					return d.Good == 30 && d.Judged() == 30 && d.Status == [6]uint64{2: 20, 5: 10} && d.FirstByte.Mean() >= 5*time.Millisecond
				}},
				{"accepts and resets", resets, 30, func(d Totals) bool { return d.Reset == 30 && d.Judged() == 30 }},
				{"refuses", at(9), 30, func(d Totals) bool { return d.Refused == 30 && d.Judged() == 30 }},
				{"black hole", at(7), 2, func(d Totals) bool { return d.Unanswered == 2 && d.Judged() == 2 && d.Retransmits >= 2 }},
			}
			for _, tt := range tests {
				c, err := Open(Settings{Server: tt.to, Interface: "lo", HTTP: true})
				if err != nil {
					t.Error(err)
					return
				}
				for range tt.n {
					ask(tt.to)
				}
				got := settled(t, c, tt.want)
				t.Logf("%s, %s: %+v, first byte after %s", ip, tt.name, got, got.FirstByte.Mean())
				if !tt.want(got) || got.Missed > 0 {
					t.Errorf("%s, %s: %+v", ip, tt.name, got)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A receiver that reads nothing closes its window, and segments that get lost
// are seen again.
func TestCaptureWindowsAndLoss(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		seen := make(chan struct{})
		lazy := serve(t, "127.0.0.1:0", func(c *net.TCPConn) {
			_ = c.SetReadBuffer(4096)
			<-seen
			c.Close()
		})
		c, err := Open(Settings{Server: lazy, Interface: "lo"})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		conn, err := net.Dial("tcp", lazy.String())
		if err != nil {
			t.Error(err)
			return
		}
		go func() { _, _ = conn.Write(make([]byte, 8<<20)) }() // until it is closed
		got := settled(t, c, func(d Totals) bool { return d.ZeroWindows > 0 })
		conn.Close()
		close(seen)
		t.Logf("a server that does not read: %+v", got)
		if got.ZeroWindows == 0 {
			t.Errorf("no closed window seen: %+v", got)
		}

		sink := serve(t, "127.0.0.1:0", func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c); c.Close() })
		lossy, err := Open(Settings{Server: sink, Interface: "lo"})
		if err != nil {
			t.Error(err)
			return
		}
		defer lossy.Close()
		command(t, "nft add table inet t")
		command(t, "nft add chain inet t i { type filter hook input priority 0 ; }")
		command(t, fmt.Sprintf("nft add rule inet t i tcp dport %d numgen inc mod 10 5 drop", sink.Port()))
		if conn, err = net.Dial("tcp", sink.String()); err != nil {
			t.Error(err)
			return
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		for range 300 {
			if _, err := conn.Write(make([]byte, 1000)); err != nil {
				t.Error(err)
				break
			}
			time.Sleep(time.Millisecond) // a segment of its own
		}
		conn.Close()
		got = settled(t, lossy, func(d Totals) bool { return d.Retransmits > 0 })
		share := 100 * float64(got.Retransmits) / float64(got.Segments)
		t.Logf("each tenth packet lost towards the server: %d of %d segments sent again (%.1f %%)", got.Retransmits, got.Segments, share)
		if share < 4 || share > 30 {
			t.Errorf("%.1f %% of the segments were sent again", share)
		}
	})
}

// Under more traffic than it is to look at, the capture looks at fewer
// connections, and its use of the processor stays small.
func TestCaptureIsBounded(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		echo := serve(t, "127.0.0.1:0", func(c *net.TCPConn) {
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		})
		const limit, connections = 1000, 16
		c, err := Open(Settings{Server: echo, Interface: "lo", MaxPackets: limit})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		var conns []net.Conn
		for range connections {
			conn, err := net.Dial("tcp", echo.String())
			if err != nil {
				t.Error(err)
				return
			}
			conns = append(conns, conn)
		}
		begin, rounds := time.Now(), 0
		buf := make([]byte, 64)
		for ; time.Since(begin) < 3*time.Second; rounds++ {
			for _, conn := range conns {
				if _, err := conn.Write(buf); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(conn, buf); err != nil {
					t.Error(err)
					return
				}
			}
		}
		took := time.Since(begin)
		for _, conn := range conns {
			conn.Close()
		}
		got, sample, err := c.Read()
		if err != nil {
			t.Error(err)
		}
		sent := rounds * connections * 2
		t.Logf("at least %d packets in %s, %d looked at with a limit of %d a second; one connection in %d in the end; %d missed", sent, took, got.Packets, limit, sample, got.Missed)
		// As many seconds at the limit, begun ones too, and ten times the limit until
		// one connection in 1,024 is looked at.
		if most := uint64((took/time.Second + 11) * limit); got.Packets > most {
			t.Errorf("%d packets were looked at, at most %d may be", got.Packets, most)
		}
		if got.Judged() > got.Good {
			t.Errorf("healthy connections were called bad: %+v", got)
		}
	})
}
