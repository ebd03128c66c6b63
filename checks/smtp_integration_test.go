//go:build integration

package checks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// eximConf is a server that greets: 7501 without TLS, 7502 with STARTTLS, 7503
// with a certificate that has expired, 7504 with TLS from the start.
const eximConf = `
primary_hostname = mail.example
local_interfaces = 127.0.0.1
daemon_smtp_ports = 7501 : 7502 : 7503 : 7504
tls_on_connect_ports = 7504
tls_advertise_hosts = ${if eq{$received_port}{7501}{}{*}}
tls_certificate = ${if eq{$received_port}{7503}{OLD}{GOOD}}
tls_privatekey = ${if eq{$received_port}{7503}{OLDKEY}{GOODKEY}}
spool_directory = DIR/spool
log_file_path = DIR/%s.log
pid_file_path = DIR/pid
keep_environment =
host_lookup =
rfc1413_hosts =
`

// The smtp check against Exim.
func TestSMTPSicknesses(t *testing.T) {
	ca := newAuthority(t, "ours")
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		good, goodKey := ca.certFiles(t, -time.Hour, 90*day, "mail.example")
		old, oldKey := ca.certFiles(t, -90*day, -3*day-time.Hour, "mail.example")
		dir := t.TempDir()
		conf := filepath.Join(dir, "exim.conf")
		text := strings.NewReplacer("GOODKEY", goodKey, "GOOD", good, "OLDKEY", oldKey, "OLD", old, "DIR", dir).Replace(eximConf)
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{good, goodKey, old, oldKey} { // which exim reads as a user of its own
			for at := file; at != os.TempDir(); at = filepath.Dir(at) {
				if err := os.Chmod(at, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		exim := startServer(t, "tcp 7501 7502 7503 7504", "exim4", "-bdf", "-C", conf)
		acceptsAndCloses(t, "7505")
		startServer(t, "tcp 7506", "socat", "TCP4-LISTEN:7506,fork,reuseaddr", "SYSTEM:echo '554 mail.example closed for maintenance'; cat >/dev/null")
		startServer(t, "tcp 7507", "socat", "TCP4-LISTEN:7507,fork,reuseaddr", "SYSTEM:echo 'SSH-2.0-x'; cat >/dev/null")
		plain := &SMTPOptions{Helo: "probe.example"}
		starttls := &SMTPOptions{TLS: "starttls", CAFile: ca.file, ServerName: "mail.example"}
		misnamed := &SMTPOptions{TLS: "starttls", CAFile: ca.file, ServerName: "shop.example"}
		implicit := &SMTPOptions{TLS: "implicit", CAFile: ca.file, ServerName: "mail.example"}
		showSicknesses(t, "smtp", []sickness{
			{name: "healthy", opts: plain, to: on(7501, probeLimit), ok: true, says: `greeted as "mail.example ESMTP`},
			{name: "healthy, STARTTLS", opts: starttls, to: on(7502, probeLimit), ok: true, says: "greeted as"},
			{name: "healthy, TLS", opts: implicit, to: on(7504, probeLimit), ok: true, says: "greeted as"},
			{name: "refused", opts: plain, to: on(7509, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: plain, to: on(7501, shortLimit), makes: dropped("tcp dport 7501"), cause: CauseTimeout, says: "SYN not answered"},
			{name: "hung process", opts: plain, to: on(7501, shortLimit), makes: exim.hung, cause: CauseTimeout, says: "connected, but no reply as greeting within 300ms"},
			{name: "half-closed", opts: plain, to: on(7505, probeLimit), cause: CauseAnswer, says: "closed the connection without a whole reply as greeting"},
			{name: "wrong answer", opts: plain, to: on(7506, probeLimit), cause: CauseAnswer, says: `answered 554 "mail.example closed for maintenance" as greeting, wanted 220`},
			{name: "not SMTP", opts: plain, to: on(7507, probeLimit), cause: CauseAnswer, says: "is not SMTP"},
			{name: "no STARTTLS", opts: starttls, to: on(7501, probeLimit), cause: CauseTLS, says: "does not offer STARTTLS"},
			{name: "certificate expired", opts: starttls, to: on(7503, probeLimit), cause: CauseTLS, says: "certificate expired 3 days ago"},
			{name: "another name", opts: misnamed, to: on(7502, probeLimit), cause: CauseTLS, says: "certificate is for mail.example, not for shop.example"},
			{name: "no TLS", opts: implicit, to: on(7501, probeLimit), cause: CauseTLS, says: "does not speak TLS"},
		})
	})
}
