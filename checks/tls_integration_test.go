//go:build integration

package checks

import (
	"testing"
	"time"
)

// The tls check against openssl.
func TestTLSSicknesses(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "theirs")
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		serve := func(port string, from, to time.Duration, more ...string) *server {
			cert, key := ca.certFiles(t, from, to, "web.example")
			return startServer(t, "tcp "+port, "openssl", append([]string{"s_server", "-accept", port, "-cert", cert, "-key", key, "-quiet"}, more...)...)
		}
		good := serve("7201", -time.Hour, 90*day+time.Hour)
		serve("7202", -time.Hour, 90*day+time.Hour, "-tls1_2")
		serve("7203", -time.Hour, 9*day+time.Hour)
		serve("7204", -90*day, -3*day-time.Hour)
		serve("7205", 24*time.Hour, 90*day)
		serve("7206", -time.Hour, 90*day, "-no_tls1_3", "-Verify", "1")
		acceptsAndCloses(t, "7207")
		startServer(t, "tcp 7208", "socat", "TCP4-LISTEN:7208,fork,reuseaddr", "SYSTEM:echo 220 hello; cat >/dev/null")
		o := &TLSOptions{CAFile: ca.file, ServerName: "web.example"}
		alien := &TLSOptions{CAFile: other.file, ServerName: "web.example"}
		misnamed := &TLSOptions{CAFile: ca.file, ServerName: "shop.example"}
		strict := &TLSOptions{CAFile: ca.file, ServerName: "web.example", WarnDays: 30, FailDays: 10}
		lax := &TLSOptions{SkipVerify: true}
		showSicknesses(t, "tls", []sickness{
			{name: "healthy", opts: o, to: on(7201, probeLimit), ok: true, says: "TLS 1.3; certificate ends in 90 days, on "},
			{name: "healthy, TLS 1.2", opts: o, to: on(7202, probeLimit), ok: true, says: "TLS 1.2; certificate ends in 90 days"},
			{name: "healthy, not verified", opts: lax, to: on(7201, probeLimit), ok: true, says: "certificate ends in 90 days"},
			{name: "9 days left, warn_days 14", opts: o, to: on(7203, probeLimit), ok: true, degraded: true, says: "certificate ends in 9 days"},
			{name: "9 days left, fail_days 10", opts: strict, to: on(7203, probeLimit), cause: CauseTLS, says: "fail_days is 10"},
			{name: "certificate expired", opts: o, to: on(7204, probeLimit), cause: CauseTLS, says: "certificate expired 3 days ago"},
			{name: "expired, not verified", opts: lax, to: on(7204, probeLimit), cause: CauseTLS, says: "certificate expired 3 days ago"},
			{name: "not valid yet", opts: o, to: on(7205, probeLimit), cause: CauseTLS, says: "not valid before"},
			{name: "another authority", opts: alien, to: on(7201, probeLimit), cause: CauseTLS, says: "authority that is not trusted: CN=ours"},
			{name: "another name", opts: misnamed, to: on(7201, probeLimit), cause: CauseTLS, says: "certificate is for web.example, not for shop.example"},
			{name: "wants a client certificate", opts: o, to: on(7206, probeLimit), cause: CauseTLS, says: "the target refused the TLS connection"},
			{name: "refused", opts: o, to: on(7209, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: o, to: on(7201, shortLimit), makes: dropped("tcp dport 7201"), cause: CauseTimeout, says: "SYN not answered"},
			{name: "hung process", opts: o, to: on(7201, shortLimit), makes: good.hung, cause: CauseTimeout, says: "TLS handshake did not end within 300ms"},
			{name: "half-closed", opts: o, to: on(7207, probeLimit), cause: CauseTLS, says: "closed the connection during the TLS handshake"},
			{name: "no TLS", opts: o, to: on(7208, probeLimit), cause: CauseTLS, says: "does not speak TLS"},
		})
	})
}
