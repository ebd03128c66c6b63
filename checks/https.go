package checks

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Problems implements Options. It does not read the files: whether they are
// there is a question of the host, and Prober answers it.
func (o *HTTPSOptions) Problems() []Problem {
	plain := o.plain()
	return append(plain.Problems(), o.settings().problems()...)
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
	if p.tls, err = o.settings().config(); err != nil {
		return nil, fmt.Errorf("https check: %w", err)
	}
	p.tls.NextProtos = []string{"http/1.1"}
	return timed(p.probe), nil
}

// settings are the TLS options.
func (o *HTTPSOptions) settings() tlsSettings {
	return tlsSettings{caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName, skipVerify: o.SkipVerify}
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
	tc, f := p.secure(ctx, conn, cfg)
	if f != nil {
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
