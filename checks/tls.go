package checks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

const (
	tlsWarnDays = 14 // by default
	tlsMaxDays  = 3650
	day         = 24 * time.Hour
)

// TLSOptions are the settings of a tls check.
type TLSOptions struct {
	CAFile     string `yaml:"ca_file" doc:"PEM file of the authorities to trust; those of the system by default"`
	CertFile   string `yaml:"cert_file" doc:"PEM file of the client certificate and its chain"`
	KeyFile    string `yaml:"key_file" doc:"PEM file of the client certificate's key"`
	ServerName string `yaml:"server_name" doc:"name that the certificate must have, and that is sent as SNI; the host by default"`
	SkipVerify bool   `yaml:"skip_verify" doc:"look neither at the chain nor at the name of the certificate, only at its last day"`
	WarnDays   int    `yaml:"warn_days" default:"14" min:"-1" max:"3650" doc:"days before a certificate of the chain ends from which on the check is degraded; -1 never"`
	FailDays   int    `yaml:"fail_days" min:"0" max:"3650" doc:"the same for a failure; one that has ended is a failure in any case"`
}

// NeedsTarget implements Options.
func (*TLSOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *TLSOptions) Problems() []Problem {
	ps := o.settings().problems()
	switch {
	case o.WarnDays < -1 || o.WarnDays > tlsMaxDays:
		ps = append(ps, Problem{"warn_days", fmt.Sprintf("%d is not between -1 and %d", o.WarnDays, tlsMaxDays)})
	case o.FailDays < 0 || o.FailDays > tlsMaxDays:
		ps = append(ps, Problem{"fail_days", fmt.Sprintf("%d is not between 0 and %d", o.FailDays, tlsMaxDays)})
	case o.warnDays() >= 0 && o.FailDays >= o.warnDays():
		ps = append(ps, Problem{"fail_days", fmt.Sprintf("%d must be below warn_days %d, or nobody is warned", o.FailDays, o.warnDays())})
	}
	return ps
}

// warnDays is WarnDays with its default.
func (o *TLSOptions) warnDays() int {
	if o.WarnDays == 0 {
		return tlsWarnDays
	}
	return o.WarnDays
}

// settings are the TLS options.
func (o *TLSOptions) settings() tlsSettings {
	return tlsSettings{caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName, skipVerify: o.SkipVerify}
}

// tlsProbe is a tls check of one target.
type tlsProbe struct {
	*aim
	config     *tls.Config
	warn, fail int // days
}

// Prober implements Options.
func (o *TLSOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("tls check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("tls check: %w", err)
	}
	p := &tlsProbe{aim: a, warn: o.warnDays(), fail: o.FailDays}
	if p.config, err = o.settings().config(); err != nil {
		return nil, fmt.Errorf("tls check: %w", err)
	}
	return timed(p.probe), nil
}

func (p *tlsProbe) probe(ctx context.Context) Result {
	conn, f := p.dial(ctx)
	if f != nil {
		return f.result("")
	}
	tc, f := p.secure(ctx, conn, p.config)
	if f != nil {
		return f.result("")
	}
	defer tc.Close()
	defer bind(ctx, tc)()
	return p.judge(tc.ConnectionState(), time.Now())
}

// judge looks at the time that is left to the certificates.
func (p *tlsProbe) judge(cs tls.ConnectionState, now time.Time) Result {
	cert, which := endsFirst(cs)
	left := cert.NotAfter.Sub(now)
	until := fmt.Sprintf("%s ends in %s, on %s", which, span(left), cert.NotAfter.UTC().Format(time.DateOnly))
	switch {
	case left <= 0: // seen with skip_verify only
		return failf(CauseTLS, "%s expired %s ago", which, span(-left)).result("")
	case left < time.Duration(p.fail)*day:
		return failf(CauseTLS, "%s; fail_days is %d", until, p.fail).result("")
	case p.warn >= 0 && left < time.Duration(p.warn)*day:
		return Result{OK: true, Degraded: true, Detail: fmt.Sprintf("%s; warn_days is %d", until, p.warn)}
	}
	return Result{OK: true, Detail: fmt.Sprintf("%s; %s", tls.VersionName(cs.Version), until)}
}

// endsFirst returns the certificate whose end makes the target's one
// worthless: of the chain that lasts longest, the one that ends first.
func endsFirst(cs tls.ConnectionState) (cert *x509.Certificate, which string) {
	cert = cs.PeerCertificates[0] // a TLS server always has one
	var last time.Time
	for _, chain := range cs.VerifiedChains {
		first := chain[0]
		for _, c := range chain[1:] {
			if c.NotAfter.Before(first.NotAfter) {
				first = c
			}
		}
		if first.NotAfter.After(last) {
			cert, last = first, first.NotAfter
		}
	}
	if cert.Equal(cs.PeerCertificates[0]) {
		return cert, "certificate"
	}
	return cert, "the authority's certificate " + cut(cert.Subject.String(), 120)
}
