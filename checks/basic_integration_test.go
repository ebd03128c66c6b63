//go:build integration

package checks

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The tcp check against socat.
func TestTCPSicknesses(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		pong := startServer(t, "tcp 7601", "socat", "TCP4-LISTEN:7601,fork,reuseaddr", "SYSTEM:read x; echo PONG $x")
		startServer(t, "tcp 7602", "socat", "TCP4-LISTEN:7602,fork,reuseaddr", "SYSTEM:read x; echo ERR busy")
		startServer(t, "tcp 7603", "socat", "TCP4-LISTEN:7603,fork,reuseaddr", "SYSTEM:read x; printf PO; sleep 9; echo NG")
		startServer(t, "tcp 7604", "socat", "TCP4-LISTEN:7604,fork,reuseaddr", "SYSTEM:read x; sleep 1; echo PONG")
		acceptsAndCloses(t, "7605")
		connect := &TCPOptions{}
		ping := &TCPOptions{Send: "PING\n", Expect: "PONG PING"}
		start := &TCPOptions{Send: "PING\n", Expect: "PONG", Match: "prefix"}
		hex := &TCPOptions{SendHex: "50 0a", ExpectHex: "504f4e47 20 50"}
		showSicknesses(t, "tcp", []sickness{
			{name: "healthy, connects", opts: connect, to: on(7601, probeLimit), ok: true, says: "connected"},
			{name: "healthy, answers", opts: ping, to: on(7601, probeLimit), ok: true, says: "answered as expected"},
			{name: "healthy, hexadecimal", opts: hex, to: on(7601, probeLimit), ok: true, says: "answered as expected"},
			{name: "refused", opts: ping, to: on(7609, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: connect, to: on(7601, shortLimit), makes: dropped("tcp dport 7601"), cause: CauseTimeout, says: "no answer within 300ms (SYN not answered)"},
			{name: "no route", opts: connect, to: Target{Host: "10.1.1.1", Port: 7601, Limit: probeLimit}, cause: CauseNetwork, says: "network unreachable: this host has no route to the target"},
			{name: "wrong answer", opts: ping, to: on(7602, probeLimit), cause: CauseAnswer, says: `answered "ERR busy\n" and closed the connection, wanted "PONG PING"`},
			{name: "wrong answer at the start", opts: start, to: on(7602, probeLimit), cause: CauseAnswer, says: `answered "ERR busy\n", wanted "PONG" at the start`},
			{name: "half an answer", opts: start, to: on(7603, partLimit), cause: CauseAnswer, says: `answered "PO" and nothing more within 1s, wanted "PONG"`},
			{name: "slow (1 s)", opts: start, to: on(7604, shortLimit), cause: CauseTimeout, says: "connected, but no answer within 300ms"},
			{name: "half-closed", opts: ping, to: on(7605, probeLimit), cause: CauseAnswer, says: "the target closed the connection without an answer"},
			{name: "hung process", opts: ping, to: on(7601, shortLimit), makes: pong.hung, cause: CauseTimeout, says: "connected, but no answer within 300ms"},
			// Nobody but the kernel has answered: why a check should ask something.
			{name: "hung process, not asked", opts: connect, to: on(7601, shortLimit), makes: pong.hung, ok: true, says: "connected"},
		})
	})
}

// webConfig has a path for each state, %s after the port is for TLS. The
// server of backend late does not answer in time, backend empty has none.
const webConfig = `
defaults
  mode http
  timeout connect 200ms
  timeout client 5s
  timeout server 200ms
frontend web
  bind 127.0.0.1:%d %s
  http-request return status 200 content-type text/plain string "status: UP" if { path /ok }
  http-request return status 200 content-type text/plain string "status: DOWN" if { path /down }
  http-request redirect location /ok code 302 if { path /moved }
  http-request redirect location /loop code 302 if { path /loop }
  use_backend late if { path /late }
  default_backend empty
backend late
  server a 127.0.0.1:7619
backend empty
`

// startWeb starts a HAProxy with webConfig.
func startWeb(t *testing.T, port int, secure string) *server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, fmt.Appendf(nil, webConfig, port, secure), 0o600); err != nil {
		t.Fatal(err)
	}
	return startServer(t, fmt.Sprint("tcp ", port), "haproxy", "-db", "-f", path)
}

// The http check against HAProxy, and against what is no web server.
func TestHTTPSicknesses(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		ha := startWeb(t, 7611, "")
		startServer(t, "tcp 7612", "socat", "TCP4-LISTEN:7612,fork,reuseaddr", "SYSTEM:read x; echo 220 hello")
		acceptsAndCloses(t, "7613")
		startServer(t, "tcp 7619", "socat", "TCP4-LISTEN:7619,fork,reuseaddr", "SYSTEM:sleep 9") // for backend late
		up := &HTTPOptions{Path: "/ok", ExpectBody: "status: UP"}
		showSicknesses(t, "http", []sickness{
			{name: "healthy", opts: up, to: on(7611, probeLimit), ok: true, says: "HTTP status 200"},
			{name: "healthy, redirect followed", opts: &HTTPOptions{Path: "/moved", ExpectBody: "UP", FollowRedirects: true}, to: on(7611, probeLimit), ok: true, says: "HTTP status 200"},
			{name: "healthy, 503 wanted", opts: &HTTPOptions{Path: "/", ExpectStatus: []string{"503"}}, to: on(7611, probeLimit), ok: true, says: "HTTP status 503"},
			{name: "backend without servers", opts: &HTTPOptions{Path: "/"}, to: on(7611, probeLimit), cause: CauseAnswer, says: "HTTP status 503, wanted 200-299"},
			{name: "backend too slow", opts: &HTTPOptions{Path: "/late"}, to: on(7611, probeLimit), cause: CauseAnswer, says: "HTTP status 504, wanted 200-299"},
			{name: "wrong body", opts: &HTTPOptions{Path: "/down", ExpectBody: "status: UP"}, to: on(7611, probeLimit), cause: CauseAnswer, says: `the body "status: DOWN" does not match "status: UP"`},
			{name: "redirect not followed", opts: &HTTPOptions{Path: "/moved"}, to: on(7611, probeLimit), cause: CauseAnswer, says: "HTTP status 302, wanted 200-299"},
			{name: "redirected for ever", opts: &HTTPOptions{Path: "/loop", FollowRedirects: true}, to: on(7611, probeLimit), cause: CauseAnswer, says: "more than 5 redirects, the last to http://127.0.0.1:7611/loop"},
			{name: "refused", opts: up, to: on(7618, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: up, to: on(7611, shortLimit), makes: dropped("tcp dport 7611"), cause: CauseTimeout, says: "no answer within 300ms (SYN not answered)"},
			{name: "hung process", opts: up, to: on(7611, shortLimit), makes: ha.hung, cause: CauseTimeout, says: "connected, but no HTTP answer within 300ms"},
			{name: "half-closed", opts: up, to: on(7613, probeLimit), cause: CauseAnswer, says: "the target closed the connection without a whole answer"},
			{name: "not HTTP", opts: up, to: on(7612, probeLimit), cause: CauseAnswer, says: "the answer is not HTTP: "},
		})
	})
}

// The https check against HAProxy, which chooses the certificate by the name
// asked for, and against openssl.
func TestHTTPSSicknesses(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "theirs")
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		secure := "ssl"
		for _, c := range []struct {
			name     string
			from, to time.Duration
		}{
			{"web.example", -time.Hour, 90 * day}, // the first is for unknown names, too
			{"old.example", -90 * day, -3*day - time.Hour},
			{"new.example", 24 * time.Hour, 90 * day},
		} {
			cert, key := ca.certFiles(t, c.from, c.to, c.name)
			if err := os.Rename(key, cert+".key"); err != nil { // where HAProxy looks for it
				t.Error(err)
			}
			secure += " crt " + cert
		}
		ha := startWeb(t, 7621, secure)
		cert, key := ca.certFiles(t, -time.Hour, 90*day, "web.example")
		startServer(t, "tcp 7622", "openssl", "s_server", "-accept", "7622", "-cert", cert, "-key", key, "-www", "-quiet", "-Verify", "1")
		startWeb(t, 7623, "")
		acceptsAndCloses(t, "7624")
		as := func(ca *authority, name, path string) *HTTPSOptions {
			return &HTTPSOptions{CAFile: ca.file, ServerName: name, Path: path, ExpectBody: "UP"}
		}
		up := as(ca, "web.example", "/ok")
		showSicknesses(t, "https", []sickness{
			{name: "healthy", opts: up, to: on(7621, probeLimit), ok: true, says: "HTTP status 200"},
			{name: "expired, not verified", opts: &HTTPSOptions{Path: "/ok", ServerName: "old.example", SkipVerify: true}, to: on(7621, probeLimit), ok: true, says: "HTTP status 200"},
			{name: "certificate expired", opts: as(ca, "old.example", "/ok"), to: on(7621, probeLimit), cause: CauseTLS, says: "certificate expired 3 days ago"},
			{name: "not valid yet", opts: as(ca, "new.example", "/ok"), to: on(7621, probeLimit), cause: CauseTLS, says: "certificate is not valid before "},
			{name: "wrong name", opts: as(ca, "shop.example", "/ok"), to: on(7621, probeLimit), cause: CauseTLS, says: "certificate is for web.example, not for shop.example"},
			{name: "unknown authority", opts: as(other, "web.example", "/ok"), to: on(7621, probeLimit), cause: CauseTLS, says: "certificate comes from an authority that is not trusted: CN=ours"},
			{name: "wants a client certificate", opts: up, to: on(7622, probeLimit), cause: CauseTLS, says: "the target refused the TLS connection: certificate required"},
			{name: "no TLS", opts: up, to: on(7623, probeLimit), cause: CauseTLS, says: "the target does not speak TLS on this port"},
			{name: "half-closed", opts: up, to: on(7624, probeLimit), cause: CauseTLS, says: "the target closed the connection during the TLS handshake"},
			{name: "backend without servers", opts: as(ca, "web.example", "/"), to: on(7621, probeLimit), cause: CauseAnswer, says: "HTTP status 503, wanted 200-299"},
			{name: "wrong body", opts: as(ca, "web.example", "/down"), to: on(7621, probeLimit), cause: CauseAnswer, says: `the body "status: DOWN" does not match "UP"`},
			{name: "refused", opts: up, to: on(7628, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: up, to: on(7621, shortLimit), makes: dropped("tcp dport 7621"), cause: CauseTimeout, says: "no answer within 300ms (SYN not answered)"},
			{name: "hung process", opts: up, to: on(7621, shortLimit), makes: ha.hung, cause: CauseTimeout, says: "connected, but the TLS handshake did not end within 300ms"},
		})
	})
}

// The icmp check against the kernel of the namespace.
func TestICMPSicknesses(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		for _, line := range []string{
			"ip link set lo up",
			"ip address add 10.1.1.1/32 dev lo",
			"ip address add fd00::1/128 dev lo nodad",
			"ip route add unreachable 10.1.1.2/32",
			"ip route add prohibit 10.9.8.8/32",
			"ip link add name near type veth peer name distant",
			"ip link set dev near up",
			"ip link set dev distant up",
			"ip address add 10.1.2.1/24 dev near",
		} {
			ipCommand(t, line)
		}
		setSysctl(t, "net.ipv4.neigh.near.retrans_time_ms", "50") // 3 requests without answer, and the neighbour is dead
		to := func(host string, limit time.Duration) Target { return Target{Host: host, Limit: limit} }
		alien := to("10.1.1.1", probeLimit)
		alien.Source = netip.MustParseAddr("10.1.9.9")
		one := &ICMPOptions{}
		four := func(maxLoss int) *ICMPOptions {
			return &ICMPOptions{Count: 4, Spacing: 10 * time.Millisecond, MaxLoss: maxLoss}
		}
		ignores := func(t *testing.T) func() {
			setSysctl(t, "net.ipv4.icmp_echo_ignore_all", "1")
			return func() { setSysctl(t, "net.ipv4.icmp_echo_ignore_all", "0") }
		}
		requests, half := "icmp type echo-request", "icmp type echo-request numgen inc mod 2 0"
		showSicknesses(t, "icmp", []sickness{
			{name: "healthy", opts: four(0), to: to("10.1.1.1", probeLimit), ok: true, says: "4 of 4 echo requests answered, round trip "},
			{name: "healthy, IPv6", opts: one, to: to("fd00::1", probeLimit), ok: true, says: "1 of 1 echo requests answered, round trip "},
			{name: "50 % loss, max_loss 50", opts: four(50), to: to("10.1.1.1", shortLimit), makes: dropped(half), ok: true, says: "2 of 4 echo requests answered, round trip "},
			{name: "50 % loss, max_loss 20", opts: four(20), to: to("10.1.1.1", shortLimit), makes: dropped(half), cause: CauseAnswer, says: "2 of 4 echo requests answered within 300ms, at most 20% may be lost"},
			{name: "black hole", opts: four(20), to: to("10.1.1.1", shortLimit), makes: dropped(requests), cause: CauseTimeout, says: "no answer within 300ms (0 of 4 echo requests answered)"},
			{name: "answers no echo requests", opts: one, to: to("10.1.1.1", shortLimit), makes: ignores, cause: CauseTimeout, says: "no answer within 300ms (0 of 1 echo requests answered)"},
			{name: "unreachable", opts: one, to: to("10.1.1.2", probeLimit), cause: CauseNetwork, says: "host unreachable: nothing answers for the target's address"},
			{name: "dead neighbour", opts: one, to: to("10.1.2.2", probeLimit), cause: CauseNetwork, says: "host unreachable: nothing answers for the target's address"},
			{name: "no route", opts: one, to: to("10.9.9.9", probeLimit), cause: CauseNetwork, says: "network unreachable: this host has no route to the target"},
			{name: "prohibited by a route", opts: one, to: to("10.9.8.8", probeLimit), cause: CauseInternal, says: "this host does not let the packet out: firewall or prohibiting route"},
			{name: "source not on this host", opts: one, to: alien, cause: CauseInternal, says: "source address 10.1.9.9 is not on this host"},
		})
	})
}

// The exec check with commands that every host has.
func TestExecSicknesses(t *testing.T) {
	run := func(command ...string) *ExecOptions { return &ExecOptions{Command: command} }
	script := func(text string) *ExecOptions { return &ExecOptions{Command: []string{text}, Shell: true} }
	disk := "echo 'disk 91 % full | disk=91%'; exit 1"
	long, short := Target{Limit: probeLimit}, Target{Limit: partLimit}
	showSicknesses(t, "exec", []sickness{
		{name: "healthy", opts: run("grep", "-m1", "^root:", "/etc/passwd"), to: long, ok: true, says: "root:"},
		{name: "healthy, silent", opts: run("true"), to: long, ok: true, says: "exit status 0"},
		{name: "healthy, child holds output", opts: script("sleep 9 & echo fine"), to: long, ok: true, says: "fine"},
		{name: "warning", opts: script(disk), to: long, ok: true, says: "warning: disk 91 % full"},
		{name: "warning, warning_is fail", opts: &ExecOptions{Command: []string{disk}, Shell: true, WarningIs: "fail"}, to: long, cause: CauseAnswer, says: "exit status 1 (warning): disk 91 % full"},
		{name: "exit 2", opts: run("grep", "root", "/no/such/file"), to: long, cause: CauseAnswer, says: "exit status 2 (critical): grep: /no/such/file: No such file or directory"},
		{name: "exit 3", opts: script("echo no idea; exit 3"), to: long, cause: CauseExec, says: "exit status 3 (unknown): no idea"},
		{name: "exit 127, from a shell", opts: script("check_nothing"), to: long, cause: CauseExec, says: "exit status 127: "},
		{name: "not found", opts: run("check_nothing"), to: long, cause: CauseExec, says: "cannot run check_nothing: not found in PATH"},
		{name: "no such file", opts: run("/no/such/check"), to: long, cause: CauseExec, says: "cannot run /no/such/check: no such file or directory"},
		{name: "not executable", opts: run("/etc/passwd"), to: long, cause: CauseExec, says: "cannot run /etc/passwd: permission denied"},
		{name: "hung, child holds output", opts: script("sleep 9 & echo stuck; sleep 9"), to: short, cause: CauseTimeout, says: "killed because it did not end within 1s: stuck"},
		{name: "killed by a signal", opts: script("echo oops; kill -KILL $$"), to: long, cause: CauseExec, says: "died of signal 9 (killed): oops"},
		{name: "prints without end", opts: run("yes"), to: long, cause: CauseExec, says: "killed after it printed more than 1024 KiB"},
	})
}
