package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rhid/internal/config"
)

// certify writes a certificate for 127.0.0.1 that ends at a time, with its key,
// and returns it.
func certify(t *testing.T, c *config.ReportTLS, end time.Time) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(end.UnixNano()), NotBefore: end.Add(-1000 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c.CertFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put(t, c.KeyFile, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})))
	return cert
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask sends a report over a connection of its own, trusting one certificate.
func (e *endpoint) ask(ctx context.Context, token string, root *x509.Certificate) (int, error) {
	pool := x509.NewCertPool()
	pool.AddCert(root)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+e.listen+"/v1/reports", strings.NewReader(`[{"service":"atm","ok":1}]`))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// alarm is the one alarm of the endpoint, or empty.
func (e *endpoint) alarm(now time.Time) string {
	var all []string
	for _, a := range e.alarms(now) {
		all = append(all, a.Code+" "+a.What+": "+a.Detail)
	}
	return strings.Join(all, "\n")
}

// TestEndpoint: that it cannot open is an alarm and not the daemon's end; it
// opens as soon as it can; and a reload reads token and certificate anew.
func TestEndpoint(t *testing.T) {
	d := reporting(t)
	busy, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", freePort(t, "127.0.0.1")))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := &config.Report{
		Listen: busy.Addr().String(), TokenFile: filepath.Join(dir, "token"),
		TLS: &config.ReportTLS{CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key")},
	}
	now := time.Now()
	cert := certify(t, r.TLS, now.Add(time.Hour))
	e := newEndpoint(&model{cfg: &config.Config{Control: config.Control{Report: r}}}, slog.New(slog.DiscardHandler))
	e.retry = time.Millisecond

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.serve(ctx, d) }()
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(limit); !ok(); <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not so after %s: %s", what, limit, e.alarm(now))
			}
		}
	}
	says := func(want string) func() bool {
		return func() bool { return strings.Contains(e.alarm(now), want) }
	}
	until("there is no token", says("reports "+e.listen+": control.report: token file "+r.TokenFile+" cannot be read: no such file"))
	put(t, r.TokenFile, "0123456789abcdef")
	until("the port is in use", says("address already in use"))
	busy.Close()
	works := func(token string, cert *x509.Certificate) func() bool {
		return func() bool {
			code, err := e.ask(ctx, token, cert)
			return err == nil && code == http.StatusOK
		}
	}
	until("it is open", works("0123456789abcdef", cert))
	want := "reports " + e.listen + ": the certificate in " + r.TLS.CertFile
	if got := e.alarm(now); got != want+" ends "+cert.NotAfter.Format(time.RFC3339) {
		t.Errorf("alarms with a certificate that ends soon: %s", got)
	}
	if got := e.alarm(now.Add(time.Hour)); got != want+" has ended "+cert.NotAfter.Format(time.RFC3339) {
		t.Errorf("alarms with a certificate that has ended: %s", got)
	}

	renewed := certify(t, r.TLS, now.Add(900*time.Hour))
	put(t, r.TokenFile, "another-token-1234")
	e.reload()
	if got := e.alarm(now); got != "" {
		t.Errorf("alarms after the certificate was renewed: %s", got)
	}
	if !works("another-token-1234", renewed)() {
		t.Error("the new token and certificate are not in force")
	}
	if code, err := e.ask(ctx, "0123456789abcdef", renewed); code != http.StatusUnauthorized {
		t.Errorf("the old token: HTTP status %d, %v", code, err)
	}
	if _, err := e.ask(ctx, "another-token-1234", cert); err == nil {
		t.Error("the old certificate is still shown")
	}
	put(t, r.TLS.KeyFile, "no key")
	e.reload()
	if !says("control.report.tls: the certificate in ")() || !works("another-token-1234", renewed)() {
		t.Errorf("with files that do not fit, those before are not in force: %s", e.alarm(now))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A daemon without an endpoint has no alarms of it.
func TestNoEndpoint(t *testing.T) {
	e := newEndpoint(&model{cfg: &config.Config{}}, nil)
	e.reload()
	if e != nil || e.alarms(time.Now()) != nil {
		t.Errorf("an endpoint that was not configured: %+v", e)
	}
}
