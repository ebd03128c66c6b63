package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"rhid/checks"
	"rhid/internal/config/strict"
)

// Bounds of a token in bytes.
const (
	minToken = 16
	maxToken = 4096
)

// report validates the endpoint for reports.
func (v *validator) report(p strict.Path, r *Report) {
	if r == nil {
		return
	}
	t, err := ParseTarget(checks.TargetPort, r.Listen)
	if err == nil && t.Host != "self" {
		_, err = netip.ParseAddr(t.Host)
	}
	if err != nil {
		v.fail(p.With("listen"), "%q is not an IP address and port, as 127.0.0.1:9151, or self:9151", r.Listen)
	}
	if err == nil && r.TLS == nil && !v.loopback(t.Host) {
		v.fail(p.With("listen"), "%q is on the network, where the token could be read: it needs tls, or 127.0.0.1 in its place", r.Listen)
	}
	v.reportTLS(p.With("tls"), r)
	switch {
	case !filepath.IsAbs(r.TokenFile):
		v.fail(p.With("token_file"), "%q must be an absolute path", r.TokenFile)
	case v.readFile != nil:
		if _, err := r.Token(v.readFile); err != nil {
			v.fail(p.With("token_file"), "%v", err)
		}
	}
}

// loopback says whether an address that is listened on is on this host only.
func (v *validator) loopback(host string) bool {
	if host != "self" {
		a, err := netip.ParseAddr(host)
		return err == nil && a.Unmap().IsLoopback()
	}
	return !slices.ContainsFunc(v.cfg.Nodes, func(n Node) bool { return !n.Address.Unmap().IsLoopback() })
}

func (v *validator) reportTLS(p strict.Path, r *Report) {
	if r.TLS == nil {
		return
	}
	whole := true
	for _, f := range []struct{ key, path string }{{"cert_file", r.TLS.CertFile}, {"key_file", r.TLS.KeyFile}} {
		if !filepath.IsAbs(f.path) {
			v.fail(p.With(f.key), "%q must be an absolute path", f.path)
			whole = false
		}
	}
	if !whole || v.readFile == nil {
		return
	}
	if _, err := r.TLS.Certificate(v.readFile); err != nil {
		v.fail(p, "%v", err)
	}
}

// Certificate returns the certificate with its key. The key is not part of the
// error.
func (t *ReportTLS) Certificate(readFile func(string) ([]byte, error)) (*tls.Certificate, error) {
	var pem [2][]byte
	for i, path := range []string{t.CertFile, t.KeyFile} {
		b, err := readFile(path)
		if err != nil {
			var pe *fs.PathError
			if errors.As(err, &pe) {
				err = pe.Err
			}
			return nil, fmt.Errorf("%s cannot be read: %w", path, err)
		}
		pem[i] = b
	}
	c, err := tls.X509KeyPair(pem[0], pem[1])
	if err != nil {
		return nil, fmt.Errorf("the certificate in %s with the key in %s: %w", t.CertFile, t.KeyFile, err)
	}
	return &c, nil
}

// Token returns the first line of the token file. The token is not part of the
// error.
func (r *Report) Token(readFile func(string) ([]byte, error)) (string, error) {
	data, err := readFile(r.TokenFile)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return "", fmt.Errorf("token file %s cannot be read: %w", r.TokenFile, err)
	}
	token, _, _ := strings.Cut(string(data), "\n")
	token = strings.TrimSuffix(token, "\r")
	switch n := len(token); {
	case n < minToken:
		return "", fmt.Errorf("the token in %s has %d bytes; it must have %d, as openssl rand -hex 16 makes", r.TokenFile, n, minToken)
	case n > maxToken:
		return "", fmt.Errorf("the token in %s has %d bytes; it may have %d", r.TokenFile, n, maxToken)
	case strings.ContainsAny(token, " \t"):
		return "", fmt.Errorf("the token in %s has blanks in it", r.TokenFile)
	}
	return token, nil
}
