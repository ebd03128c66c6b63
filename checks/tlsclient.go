package checks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// tlsSettings are the TLS options of a check, whatever its type. Each type
// writes the keys out in its own options.
type tlsSettings struct {
	caFile, certFile, keyFile string
	serverName                string
	skipVerify                bool
}

// problems are those of the keys ca_file, cert_file, key_file, server_name and
// skip_verify. It does not read the files: whether they are there is a question
// of the host, and config answers it.
func (s tlsSettings) problems() []Problem {
	var ps []Problem
	if (s.certFile == "") != (s.keyFile == "") {
		key := "key_file"
		if s.certFile == "" {
			key = "cert_file"
		}
		ps = append(ps, Problem{key, "is missing: a client certificate needs cert_file and key_file"})
	}
	if s.skipVerify && s.caFile != "" {
		ps = append(ps, Problem{"ca_file", "has no effect with skip_verify; leave one of them out"})
	}
	if strings.ContainsAny(s.serverName, ":/ ") {
		ps = append(ps, Problem{"server_name", fmt.Sprintf("%q is not a name; a port does not belong here", s.serverName)})
	}
	return ps
}

// unusedWithout are the problems of a type that does without TLS unless
// another setting says so.
func (s tlsSettings) unusedWithout(setting string) []Problem {
	var ps []Problem
	for _, k := range []struct {
		key   string
		given bool
	}{
		{"ca_file", s.caFile != ""},
		{"cert_file", s.certFile != ""},
		{"key_file", s.keyFile != ""},
		{"server_name", s.serverName != ""},
		{"skip_verify", s.skipVerify},
	} {
		if k.given {
			ps = append(ps, Problem{k.key, "has no effect without " + setting})
		}
	}
	return ps
}

// config reads the certificate files; a reload that makes a new Prober reads
// them anew.
func (s tlsSettings) config() (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         s.serverName,
		InsecureSkipVerify: s.skipVerify, // only where the configuration asks for it
	}
	if s.caFile != "" {
		pem, err := os.ReadFile(s.caFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file %s has no certificate in PEM form", s.caFile)
		}
	}
	if s.certFile != "" {
		cert, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
		if err != nil {
			return nil, fmt.Errorf("load cert_file and key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// secure makes conn a TLS connection, or closes it. Without a ServerName in cfg
// the certificate must be for the target's host.
func (a *aim) secure(ctx context.Context, conn net.Conn, cfg *tls.Config) (*tls.Conn, *failure) {
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = a.host
	}
	tc := tls.Client(conn, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		f := a.handshakeFailure(ctx, err, cfg.ServerName)
		_ = conn.Close() // nothing was agreed that an error here could spoil
		return nil, f
	}
	return tc, nil
}

// handshakeFailure explains why TLS did not come about.
func (a *aim) handshakeFailure(ctx context.Context, err error, name string) *failure {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return &failure{CauseTLS, "the target does not speak TLS on this port"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{CauseTLS, "the target closed the connection during the TLS handshake"}
	}
	if f := certFailure(err, name, time.Now()); f != nil {
		return f
	}
	if f := alertFailure(err); f != nil {
		return f
	}
	f := netFailure(ctx, err, "connected, but the TLS handshake did not end within "+a.limitText())
	if f.cause == CauseNetwork && strings.HasPrefix(f.detail, "tls: ") {
		return failf(CauseTLS, "TLS handshake failed: %s", cut(strings.TrimPrefix(f.detail, "tls: "), 120))
	}
	return f
}

// alertFailure explains a TLS alert that the target sent.
func alertFailure(err error) *failure {
	var oe *net.OpError
	if errors.As(err, &oe) && oe.Op == "remote error" {
		return failf(CauseTLS, "the target refused the TLS connection: %s", strings.TrimPrefix(oe.Err.Error(), "tls: "))
	}
	return nil
}

// certFailure explains why the target's certificate was not accepted.
func certFailure(err error, name string, now time.Time) *failure {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if c := invalid.Cert; now.Before(c.NotBefore) {
			return failf(CauseTLS, "certificate is not valid before %s (in %s)",
				c.NotBefore.UTC().Format("2006-01-02 15:04 MST"), span(c.NotBefore.Sub(now)))
		}
		return failf(CauseTLS, "certificate expired %s ago", span(now.Sub(invalid.Cert.NotAfter)))
	case errors.As(err, &host):
		return failf(CauseTLS, "certificate is for %s, not for %s", certNames(host.Certificate), name)
	case errors.As(err, &unknown):
		if unknown.Cert == nil {
			return &failure{CauseTLS, "certificate comes from an authority that is not trusted"}
		}
		return failf(CauseTLS, "certificate comes from an authority that is not trusted: %s",
			cut(unknown.Cert.Issuer.String(), 120))
	case errors.As(err, &verify):
		return failf(CauseTLS, "certificate was not accepted: %s",
			cut(strings.TrimPrefix(verify.Err.Error(), "x509: "), 120))
	}
	return nil
}

// certNames lists what a certificate is for.
func certNames(c *x509.Certificate) string {
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names[:len(names):len(names)], ip.String())
	}
	if len(names) == 0 {
		return "no name at all"
	}
	return cut(strings.Join(names, ", "), 120)
}

// span is a length of time in the unit that people would use.
func span(d time.Duration) string {
	n, unit := int(d/time.Minute), "minute"
	switch {
	case d >= 48*time.Hour:
		n, unit = int(d/(24*time.Hour)), "day"
	case d >= 2*time.Hour:
		n, unit = int(d/time.Hour), "hour"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}
