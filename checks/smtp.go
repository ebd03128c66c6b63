package checks

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"strings"
)

// SMTPOptions are the settings of an smtp check.
type SMTPOptions struct {
	Helo       string `yaml:"helo" doc:"name that EHLO gives; the name of this host by default"`
	TLS        string `yaml:"tls" default:"none" enum:"none,starttls,implicit" doc:"whether to go on with TLS after STARTTLS (RFC 3207), or to begin with it"`
	CAFile     string `yaml:"ca_file" doc:"PEM file of the authorities to trust; those of the system by default"`
	CertFile   string `yaml:"cert_file" doc:"PEM file of the client certificate and its chain"`
	KeyFile    string `yaml:"key_file" doc:"PEM file of the client certificate's key"`
	ServerName string `yaml:"server_name" doc:"name that the certificate must have, and that is sent as SNI; the host by default"`
	SkipVerify bool   `yaml:"skip_verify" doc:"take any certificate, even an expired one"`
}

// NeedsTarget implements Options.
func (*SMTPOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *SMTPOptions) Problems() []Problem {
	var ps []Problem
	if unsayable(o.Helo) || strings.Contains(o.Helo, " ") {
		ps = append(ps, Problem{"helo", fmt.Sprintf("%q is not a name", o.Helo)})
	}
	switch o.TLS {
	case "starttls", "implicit":
		return append(ps, o.settings().problems()...)
	case "", "none":
		return append(ps, o.settings().unusedWithout("tls: starttls or implicit")...)
	}
	return append(ps, Problem{"tls", fmt.Sprintf("%q is not none, starttls or implicit", o.TLS)})
}

// settings are the TLS options.
func (o *SMTPOptions) settings() tlsSettings {
	return tlsSettings{caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName, skipVerify: o.SkipVerify}
}

// smtpProbe is an smtp check of one target.
type smtpProbe struct {
	*aim
	helo     string
	starttls bool
	implicit bool
	tls      *tls.Config
}

// Prober implements Options.
func (o *SMTPOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("smtp check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("smtp check: %w", err)
	}
	p := &smtpProbe{aim: a, helo: o.Helo, starttls: o.TLS == "starttls", implicit: o.TLS == "implicit"}
	if p.helo == "" {
		if p.helo, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("smtp check: the name of this host, in place of helo: %w", err)
		}
	}
	if p.tls, err = o.settings().config(); err != nil {
		return nil, fmt.Errorf("smtp check: %w", err)
	}
	return timed(p.probe), nil
}

func (p *smtpProbe) probe(ctx context.Context) Result {
	conn, f := p.dial(ctx)
	if f != nil {
		return f.result("")
	}
	defer conn.Close()
	defer bind(ctx, conn)()
	d := newReplies(p.aim, "SMTP", conn)
	if p.implicit {
		if f := d.secured(ctx, p.tls); f != nil {
			return f.result("")
		}
	}
	_, banner, f := d.reply(ctx, "as greeting", 220)
	if f != nil {
		return f.result("")
	}
	if f := p.hello(ctx, d); f != nil {
		return f.result("")
	}
	d.quit(ctx)
	return Result{OK: true, Detail: "greeted as " + quoted([]byte(oneLine([]byte(banner), quoteLimit)), quoteLimit)}
}

// hello says EHLO, and again after STARTTLS, as RFC 3207 asks for.
func (p *smtpProbe) hello(ctx context.Context, d *replies) *failure {
	_, offers, f := d.command(ctx, "EHLO "+p.helo, 250)
	if f != nil || !p.starttls {
		return f
	}
	lines := strings.Split(offers, "\n")
	if !slices.ContainsFunc(lines[1:], func(l string) bool { return strings.EqualFold(strings.TrimSpace(l), "STARTTLS") }) {
		return &failure{CauseTLS, "the target does not offer STARTTLS"}
	}
	if _, _, f := d.command(ctx, "STARTTLS", 220); f != nil {
		return f
	}
	if f := d.secured(ctx, p.tls); f != nil {
		return f
	}
	_, _, f = d.command(ctx, "EHLO "+p.helo, 250)
	return f
}
