package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
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
	switch {
	case !filepath.IsAbs(r.TokenFile):
		v.fail(p.With("token_file"), "%q must be an absolute path", r.TokenFile)
	case v.readFile != nil:
		if _, err := r.Token(v.readFile); err != nil {
			v.fail(p.With("token_file"), "%v", err)
		}
	}
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
