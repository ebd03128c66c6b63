package checks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority issues certificates for one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // PEM
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * 365 * time.Hour), NotAfter: time.Now().Add(24 * 365 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = writePEM(t, "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// issue makes a certificate for names that is valid from one time, relative to
// now, to another.
func (a *authority) issue(t *testing.T, from, to time.Duration, names ...string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to), DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secure is an HTTPS server with the given settings.
func secure(t *testing.T, c *tls.Config) Target {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.ServerName+" "+r.Proto)
	}))
	s.TLS = c
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // failed handshakes are meant
	s.EnableHTTP2 = true                                                        // so that a probe could choose it, and must not
	s.StartTLS()
	t.Cleanup(s.Close)
	return serverTarget(t, s, probeLimit)
}

func TestHTTPSCertificates(t *testing.T) {
	const day = 24 * time.Hour
	ours, other := newAuthority(t, "Bank CA"), newAuthority(t, "Other CA")
	tests := []struct {
		name string
		cert tls.Certificate
		opts HTTPSOptions
		want outcome
	}{
		{"good", ours.issue(t, -day, day, "atm.example"), HTTPSOptions{ServerName: "atm.example", ExpectBody: "^atm.example HTTP/1.1$"}, outcome{true, CauseNone, "HTTP status 200"}},
		{"name from host", ours.issue(t, -day, day, "atm.example"), HTTPSOptions{Host: "atm.example:8443"}, outcome{true, CauseNone, "HTTP status 200"}},
		{"expired", ours.issue(t, -30*day, -3*day-time.Hour, "atm.example"), HTTPSOptions{ServerName: "atm.example"}, outcome{false, CauseTLS, "certificate expired 3 days ago"}},
		{"expired just now", ours.issue(t, -30*day, -61*time.Second, "atm.example"), HTTPSOptions{ServerName: "atm.example"}, outcome{false, CauseTLS, "certificate expired 1 minute ago"}},
		{"wrong name", ours.issue(t, -day, day, "pos.example", "www.example"), HTTPSOptions{ServerName: "atm.example"}, outcome{false, CauseTLS, "certificate is for pos.example, www.example, not for atm.example"}},
		{"no name", ours.issue(t, -day, day), HTTPSOptions{ServerName: "atm.example"}, outcome{false, CauseTLS, "certificate is for no name at all, not for atm.example"}},
		{"unknown authority", other.issue(t, -day, day, "atm.example"), HTTPSOptions{ServerName: "atm.example"}, outcome{false, CauseTLS, "certificate comes from an authority that is not trusted: CN=Other CA"}},
		{"anything goes", other.issue(t, -30*day, -3*day, "pos.example"), HTTPSOptions{ServerName: "atm.example", SkipVerify: true}, outcome{true, CauseNone, "HTTP status 200"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.opts.SkipVerify {
				tt.opts.CAFile = ours.file
			}
			to := secure(t, &tls.Config{Certificates: []tls.Certificate{tt.cert}})
			wantOutcome(t, probeOnce(t, &tt.opts, to), tt.want)
		})
	}
}

func TestCertFailureNotYetValid(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	c := &x509.Certificate{NotBefore: now.Add(5 * time.Hour), NotAfter: now.Add(time.Hour * 50)}
	f := certFailure(x509.CertificateInvalidError{Cert: c, Reason: x509.Expired}, "x", now)
	wantOutcome(t, f.result(""), outcome{false, CauseTLS, "certificate is not valid before 2026-11-01 17:00 UTC (in 5 hours)"})
}

func TestHTTPSClientCertificate(t *testing.T) {
	ours := newAuthority(t, "Bank CA")
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	to := secure(t, &tls.Config{
		Certificates: []tls.Certificate{ours.issue(t, -time.Hour, time.Hour, "atm.example")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})
	client := ours.issue(t, -time.Hour, time.Hour, "rhid")
	der, err := x509.MarshalPKCS8PrivateKey(client.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	o := HTTPSOptions{
		CAFile: ours.file, ServerName: "atm.example",
		CertFile: writePEM(t, "CERTIFICATE", client.Certificate[0]), KeyFile: writePEM(t, "PRIVATE KEY", der),
	}
	wantOutcome(t, probeOnce(t, &o, to), outcome{true, CauseNone, "HTTP status 200"})
	o.CertFile, o.KeyFile = "", ""
	wantOutcome(t, probeOnce(t, &o, to), outcome{false, CauseTLS, "the target refused the TLS connection: certificate required"})
}

func TestHTTPSNoHandshake(t *testing.T) {
	tests := []struct {
		name  string
		limit time.Duration
		serve func(net.Conn)
		want  outcome
	}{
		{"plain text", probeLimit, holds("220 mail.example ready\r\n"), outcome{false, CauseTLS, "the target does not speak TLS on this port"}},
		{"closed", probeLimit, func(c net.Conn) {
			var b [2048]byte
			_, _ = c.Read(b[:]) // all of the hello, or closing would be a reset
		}, outcome{false, CauseTLS, "the target closed the connection during the TLS handshake"}},
		{"mute", shortLimit, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, outcome{false, CauseTimeout, "connected, but the TLS handshake did not end within 300ms"}},
		{"old TLS", probeLimit, func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}).HandshakeContext(context.Background()) // fails as it should
			_, _ = io.Copy(io.Discard, c)
		}, outcome{false, CauseTLS, "the target refused the TLS connection: protocol version not supported"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to := serve(t, "127.0.0.1:0", tt.serve)
			wantOutcome(t, probeOnce(t, &HTTPSOptions{}, targetOf(to, tt.limit)), tt.want)
		})
	}
}

func TestHTTPSFiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	to := Target{Host: "10.0.0.1", Port: 443}
	tests := []struct {
		opts HTTPSOptions
		want string
	}{
		{HTTPSOptions{CAFile: "/no/such.pem"}, "https check: read ca_file: open /no/such.pem: no such file or directory"},
		{HTTPSOptions{CAFile: empty}, "has no certificate in PEM form"},
		{HTTPSOptions{CertFile: empty, KeyFile: empty}, "https check: load cert_file and key_file: "},
		{HTTPSOptions{KeyFile: empty}, "https check: cert_file is missing"},
	}
	for _, tt := range tests {
		if _, err := tt.opts.Prober(to); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

func TestSpan(t *testing.T) {
	tests := map[time.Duration]string{
		30 * time.Second: "0 minutes", time.Minute: "1 minute", 119 * time.Minute: "119 minutes",
		2 * time.Hour: "2 hours", 47 * time.Hour: "47 hours", 49 * time.Hour: "2 days", 24 * 90 * time.Hour: "90 days",
	}
	for d, want := range tests {
		if got := span(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}
