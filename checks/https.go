package checks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Problems implements Options. It does not read the files: whether they are
// there is a question of the host, and Prober answers it.
func (o *HTTPSOptions) Problems() []Problem {
	plain := o.plain()
	ps := plain.Problems()
	if (o.CertFile == "") != (o.KeyFile == "") {
		key := "key_file"
		if o.CertFile == "" {
			key = "cert_file"
		}
		ps = append(ps, Problem{key, "is missing: a client certificate needs cert_file and key_file"})
	}
	if o.SkipVerify && o.CAFile != "" {
		ps = append(ps, Problem{"ca_file", "has no effect with skip_verify; leave one of them out"})
	}
	if strings.ContainsAny(o.ServerName, ":/ ") {
		ps = append(ps, Problem{"server_name", fmt.Sprintf("%q is not a name; a port does not belong here", o.ServerName)})
	}
	return ps
}

// plain returns the settings that http has, too.
func (o *HTTPSOptions) plain() HTTPOptions {
	return HTTPOptions{
		Method:          o.Method,
		Path:            o.Path,
		Host:            o.Host,
		Headers:         o.Headers,
		ExpectStatus:    o.ExpectStatus,
		ExpectBody:      o.ExpectBody,
		FollowRedirects: o.FollowRedirects,
	}
}

// Prober implements Options. It reads the certificate files; a reload that
// makes a new Prober reads them anew.
func (o *HTTPSOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("https check: %s %s", ps[0].Key, ps[0].Msg)
	}
	plain := o.plain()
	p, err := plain.probeOf(t, "https")
	if err != nil {
		return nil, err
	}
	p.named = o.ServerName != ""
	p.tls, err = o.tlsConfig()
	if err != nil {
		return nil, fmt.Errorf("https check: %w", err)
	}
	return timed(p.probe), nil
}

func (o *HTTPSOptions) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		ServerName:         o.ServerName,
		InsecureSkipVerify: o.SkipVerify, // only where the configuration asks for it
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file %s has no certificate in PEM form", o.CAFile)
		}
	}
	if o.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load cert_file and key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// handshake makes conn a TLS connection, or closes it.
func (p *httpProbe) handshake(ctx context.Context, conn net.Conn, req *http.Request) (net.Conn, *failure) {
	cfg := p.tls
	if cfg == nil { // an http check that was redirected to https
		cfg = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	if !p.named {
		cfg = cfg.Clone()
		cfg.ServerName = hostOnly(req.Host)
	}
	tc := tls.Client(conn, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		f := p.handshakeFailure(ctx, err, cfg.ServerName)
		_ = conn.Close() // nothing was agreed that an error here could spoil
		return nil, f
	}
	return tc, nil
}

// hostOnly returns the host of a Host header, without port and brackets.
func hostOnly(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.Trim(host, "[]")
}

// handshakeFailure explains why TLS did not come about.
func (p *httpProbe) handshakeFailure(ctx context.Context, err error, name string) *failure {
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
	f := netFailure(ctx, err, "connected, but the TLS handshake did not end within "+p.limitText())
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
