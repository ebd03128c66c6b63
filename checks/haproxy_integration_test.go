//go:build integration

package checks

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// haproxyConfig has a backend for each way of being sick, each behind a
// frontend of its own. The health checks of HAProxy are off, but in backend
// pair, where a busy machine may make some of server a fail: what is seen there
// is traffic. On one thread, all that a client has seen the end of is counted.
const haproxyConfig = `
global
  stats socket %s/admin.sock mode 600 level admin
  nbthread 1
defaults
  mode http
  timeout connect 30s
  timeout client 30s
  timeout server 30s
  timeout queue 30s
  retries 0
frontend stats
  bind 127.0.0.1:8404
  stats enable
  stats uri /haproxy?stats
  stats auth ops:s3cret
frontend third
  bind 127.0.0.1:8001
  default_backend third
backend third
  server a 127.0.0.1:9001
frontend reset
  bind 127.0.0.1:8002
  default_backend reset
backend reset
  server a 127.0.0.1:9002
frontend hole
  bind 127.0.0.1:8003
  default_backend hole
backend hole
  timeout connect 1s
  server a 127.0.0.1:9003
frontend raw
  mode tcp
  bind 127.0.0.1:8004
  default_backend raw
backend raw
  mode tcp
  server a 127.0.0.1:9002
frontend slow
  bind 127.0.0.1:8005
  default_backend slow
backend slow
  server a 127.0.0.1:9004 maxconn 2
backend pair
  server a 127.0.0.1:9001 weight 10 check inter 100ms fall 1000
  server b 127.0.0.1:9009 weight 30 check inter 100ms fall 1
`

// startHAProxy starts a HAProxy with haproxyConfig and its servers in the
// namespace of the calling thread, and returns the server and the path of its
// socket. Port 9001 answers 500 to every third request, 9002 accepts and
// resets, 9003 is a black hole, 9004 does not answer.
func startHAProxy(t *testing.T) (*server, string) {
	t.Helper()
	ipCommand(t, "ip link set lo up")
	asked := 0
	answering(t, "127.0.0.1:9001", func(conn net.Conn) {
		status := "200 OK"
		if asked++; asked%3 == 0 {
			status = "500 Internal Server Error"
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
	})
	accepting(t, "127.0.0.1:9002", func(conn net.Conn) {
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	})
	dropped("tcp dport 9003")(t)
	accepting(t, "127.0.0.1:9004", func(conn net.Conn) {
		go func() {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn) // until HAProxy closes
		}()
	})
	dir := t.TempDir()
	path := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(path, fmt.Appendf(nil, haproxyConfig, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	ha, socket := startServer(t, "tcp 8404", "haproxy", "-db", "-f", path), filepath.Join(dir, "admin.sock")
	// The socket gets its name last, when all ports are open.
	for end := time.Now().Add(probeLimit); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			return ha, socket
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// accepting hands each connection to f, one after the other.
func accepting(t *testing.T, addr string, f func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f(conn)
		}
	}()
}

// answering reads one request of each connection and lets f answer it.
func answering(t *testing.T, addr string, f func(net.Conn)) {
	t.Helper()
	accepting(t, addr, func(conn net.Conn) {
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			f(conn)
		}
	})
}

// ask makes n HTTP requests, each on a connection of its own, eight at once, and
// returns how many answers there were of each status; 0 is none. It calls
// meanwhile again and again while it waits.
func ask(t *testing.T, port uint16, n int, meanwhile func()) map[int]int {
	t.Helper()
	got := map[int]int{}
	for left := n; left > 0; left -= 8 {
		var conns []net.Conn
		for range min(left, 8) {
			conn, err := net.Dial("tcp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
				t.Error(err)
			}
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			got[answered(conn, meanwhile)]++
		}
	}
	return got
}

// answered waits for an answer and returns its status, 0 without one.
func answered(conn net.Conn, meanwhile func()) int {
	defer conn.Close()
	var answer []byte
	buf := make([]byte, 4096)
	for end := time.Now().Add(probeLimit); time.Now().Before(end); {
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := conn.Read(buf)
		answer = append(answer, buf[:n]...)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		meanwhile()
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		return 0
	}
	return resp.StatusCode
}

// tell gives HAProxy a command on its runtime socket.
func tell(t *testing.T, socket, line string) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, line); err != nil {
		t.Error(err)
	}
	if out, err := io.ReadAll(conn); err != nil || len(out) > 1 {
		t.Errorf("%s: %s, %v", line, out, err)
	}
}

// The haproxy check against HAProxy, over its socket and its statistics page.
func TestHAProxySicknesses(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ha, socket := startHAProxy(t)
		page := func(o HAProxyOptions) *HAProxyOptions {
			o.User, o.Password = "ops", "s3cret"
			return &o
		}
		at := func(o HAProxyOptions) *HAProxyOptions {
			o.Socket = socket
			return &o
		}
		admin := func(line, undo string) func(*testing.T) func() {
			return func(t *testing.T) func() {
				tell(t, socket, line)
				return func() { tell(t, socket, undo) }
			}
		}
		none, limit := Target{Limit: probeLimit}, Target{Limit: shortLimit}
		busy := func(t *testing.T) func() {
			var conns []net.Conn
			for range 5 {
				c, err := net.Dial("tcp", "127.0.0.1:8005")
				if err != nil {
					t.Error(err)
					continue
				}
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				conns = append(conns, c)
			}
			eventually(t, "HAProxy has read them", func() bool {
				return !probeOnce(t, at(HAProxyOptions{Backend: "slow", MaxSessions: 4}), none).OK &&
					!probeOnce(t, at(HAProxyOptions{Backend: "slow", MaxQueue: 2}), none).OK
			})
			return func() {
				for _, c := range conns {
					c.Close()
				}
			}
		}
		eventually(t, "HAProxy's own checks see that 9009 is closed", func() bool {
			res := probeOnce(t, at(HAProxyOptions{Backend: "pair", Server: "b"}), none)
			return strings.Contains(res.Detail, "the server b is DOWN")
		})
		showSicknesses(t, "haproxy", []sickness{
			{name: "healthy, socket", opts: at(HAProxyOptions{Backend: "third"}), to: none, ok: true, says: "backend is UP: 1 of 1 active servers up with 100 % of the weight, 0 sessions, 0 waiting"},
			{name: "healthy, page", opts: page(HAProxyOptions{Backend: "third"}), to: on(8404, probeLimit), ok: true, says: "backend is UP: 1 of 1"},
			{name: "one server of two, enough", opts: at(HAProxyOptions{Backend: "pair", MinServers: 1}), to: none, ok: true, says: "1 of 2 active servers up with 25 % of the weight"},
			{name: "too few servers", opts: at(HAProxyOptions{Backend: "pair", MinServers: 2}), to: none, cause: CauseAnswer, says: "1 of 2 active servers are up, min_servers is 2"},
			{name: "too little weight", opts: page(HAProxyOptions{Backend: "pair", MinWeight: 50}), to: on(8404, probeLimit), cause: CauseAnswer, says: "25 % of the active servers' weight is up, min_weight is 50 %"},
			{name: "server down", opts: at(HAProxyOptions{Backend: "pair", Server: "b"}), to: none, cause: CauseAnswer, says: "the server b is DOWN"},
			{name: "backend in maintenance", opts: at(HAProxyOptions{Backend: "third"}), to: none, makes: admin("set server third/a state maint", "set server third/a state ready"), cause: CauseAnswer, says: "the backend is DOWN"},
			{name: "too many sessions", opts: at(HAProxyOptions{Backend: "slow", MaxSessions: 4}), to: none, makes: busy, cause: CauseAnswer, says: "5 sessions, max_sessions is 4"},
			{name: "queue too long", opts: at(HAProxyOptions{Backend: "slow", MaxQueue: 2}), to: none, makes: busy, cause: CauseAnswer, says: "requests are waiting, max_queue is 2"},
			{name: "no such backend", opts: at(HAProxyOptions{Backend: "none"}), to: none, cause: CauseAnswer, says: `HAProxy has no backend "none"`},
			{name: "wrong password", opts: &HAProxyOptions{Backend: "third", User: "ops", Password: "x"}, to: on(8404, probeLimit), cause: CauseAnswer, says: "HTTP status 401"},
			{name: "not the statistics page", opts: page(HAProxyOptions{Backend: "third", Path: "/x"}), to: on(8001, probeLimit), cause: CauseAnswer, says: "the statistics of HAProxy"},
			{name: "refused", opts: page(HAProxyOptions{Backend: "third"}), to: on(8499, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "no socket", opts: &HAProxyOptions{Socket: socket + "x", Backend: "third"}, to: none, cause: CauseRefused, says: "does not exist: HAProxy does not run"},
			{name: "black hole", opts: page(HAProxyOptions{Backend: "third"}), to: on(8404, shortLimit), makes: dropped("tcp dport 8404"), cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "hung process, socket", opts: at(HAProxyOptions{Backend: "third"}), to: limit, makes: ha.hung, cause: CauseTimeout, says: "within 300ms"},
			{name: "hung process, page", opts: page(HAProxyOptions{Backend: "third"}), to: on(8404, shortLimit), makes: ha.hung, cause: CauseTimeout, says: "connected, but no HTTP answer within 300ms"},
		})
	})
}

// The rates of a haproxy check lie between two probes.
func TestHAProxyRatesOfRealTraffic(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		_, socket := startHAProxy(t)
		tests := []struct {
			backend string
			port    uint16
			n       int
			ok      bool
			says    string
		}{
			{"third", 8001, 30, false, "33.3 % of 30 answers were of class 5xx"},
			{"reset", 8002, 30, false, "100 % of 30 sessions had a connection that failed or broke"},
			{"hole", 8003, 20, false, "100 % of 20 sessions had a connection that failed or broke"},
			{"raw", 8004, 30, false, "100 % of 30 sessions had a connection that failed or broke"},
			{"third", 8001, 19, true, "too few to judge max_5xx; 19 sessions in "},
		}
		for _, tt := range tests {
			p, err := (&HAProxyOptions{Socket: socket, Backend: tt.backend, Max5xx: 20, MaxErrors: 10}).Prober(Target{Limit: probeLimit})
			if err != nil {
				t.Error(err)
				return
			}
			if res := p.Probe(t.Context()); !res.OK {
				t.Errorf("%s, without traffic: %+v", tt.backend, res)
			}
			answers := ask(t, tt.port, tt.n, func() {})
			res := p.Probe(t.Context())
			t.Logf("%-5s | answers by status %v | %s", tt.backend, answers, res.Detail)
			if res.OK != tt.ok || !strings.Contains(res.Detail, tt.says) {
				t.Errorf("%s: %+v, want %t, %q", tt.backend, res, tt.ok, tt.says)
			}
		}
	})
}
