package checks

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const ftpFileLimit = 1 << 20 // bytes of a file that are read

// FTPOptions are the settings of an ftp check.
type FTPOptions struct {
	User         string `yaml:"user" default:"anonymous" doc:"whom to log in as"`
	Password     string `yaml:"password" secret:"true" doc:"the user's password"`
	PasswordFile string `yaml:"password_file" doc:"file whose first line is the password"`
	Directory    string `yaml:"directory" doc:"directory to change to"`
	File         string `yaml:"file" doc:"file to fetch, at most its first MiB, over a passive connection"`
	TLS          string `yaml:"tls" default:"none" enum:"none,explicit" doc:"whether to go on with TLS after AUTH TLS (RFC 4217)"`
	CAFile       string `yaml:"ca_file" doc:"PEM file of the authorities to trust; those of the system by default"`
	CertFile     string `yaml:"cert_file" doc:"PEM file of the client certificate and its chain"`
	KeyFile      string `yaml:"key_file" doc:"PEM file of the client certificate's key"`
	ServerName   string `yaml:"server_name" doc:"name that the certificate must have, and that is sent as SNI; the host by default"`
	SkipVerify   bool   `yaml:"skip_verify" doc:"take any certificate, even an expired one"`
}

// NeedsTarget implements Options.
func (*FTPOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *FTPOptions) Problems() []Problem {
	ps := secretProblems("password", o.Password, o.PasswordFile)
	for _, k := range []struct{ key, value string }{
		{"user", o.User}, {"password", o.Password}, {"directory", o.Directory}, {"file", o.File},
	} {
		if unsayable(k.value) {
			ps = append(ps, Problem{k.key, "has characters that no command can have"})
		}
	}
	switch o.TLS {
	case "explicit":
		return append(ps, o.settings().problems()...)
	case "", "none":
		return append(ps, o.settings().unusedWithout("tls: explicit")...)
	}
	return append(ps, Problem{"tls", fmt.Sprintf("%q is neither none nor explicit", o.TLS)})
}

// settings are the TLS options.
func (o *FTPOptions) settings() tlsSettings {
	return tlsSettings{caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName, skipVerify: o.SkipVerify}
}

// ftpProbe is an ftp check of one target.
type ftpProbe struct {
	*aim
	user, password  string
	directory, file string
	tls             *tls.Config // nil without TLS
}

// Prober implements Options.
func (o *FTPOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("ftp check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("ftp check: %w", err)
	}
	p := &ftpProbe{aim: a, user: orDefault(o.User, "anonymous"), directory: o.Directory, file: o.File}
	if p.password, err = secretOf(o.Password, o.PasswordFile); err != nil {
		return nil, fmt.Errorf("ftp check: password_file: %w", err)
	}
	if unsayable(p.password) {
		return nil, fmt.Errorf("ftp check: the password in %s has characters that no command can have", o.PasswordFile)
	}
	if o.TLS == "explicit" {
		if p.tls, err = o.settings().config(); err != nil {
			return nil, fmt.Errorf("ftp check: %w", err)
		}
	}
	return timed(p.probe), nil
}

func (p *ftpProbe) probe(ctx context.Context) Result {
	addr, f := p.resolve(ctx)
	if f != nil {
		return f.result("")
	}
	conn, f := p.dialAddr(ctx, netip.AddrPortFrom(addr, p.port))
	if f != nil {
		return f.result("")
	}
	defer conn.Close()
	defer bind(ctx, conn)()
	d := newReplies(p.aim, "FTP", conn)
	if _, _, f := d.reply(ctx, "as greeting", 220); f != nil {
		return f.result("")
	}
	cfg := p.tls
	if cfg != nil {
		// Servers ask that a data connection resumes the session of the
		// control connection, as proof that both are of the same client.
		cfg = cfg.Clone()
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	if f := p.login(ctx, d, cfg); f != nil {
		return f.result("")
	}
	good := "logged in"
	if p.directory != "" {
		if _, _, f := d.command(ctx, "CWD "+p.directory, 250); f != nil {
			return f.result("")
		}
		good = "logged in, and changed to the directory"
	}
	if p.file != "" {
		n, f := p.fetch(ctx, d, cfg, addr)
		if f != nil {
			return f.result("")
		}
		good = fmt.Sprintf("logged in, and fetched %d bytes of the file", n)
	}
	d.quit(ctx)
	return Result{OK: true, Detail: good}
}

// login secures the connection where that is asked for, and logs in.
func (p *ftpProbe) login(ctx context.Context, d *replies, cfg *tls.Config) *failure {
	if cfg != nil {
		if _, _, f := d.command(ctx, "AUTH TLS", 234); f != nil {
			return f
		}
		if f := d.secured(ctx, cfg); f != nil {
			return f
		}
		for _, line := range []string{"PBSZ 0", "PROT P"} {
			if _, _, f := d.command(ctx, line, 200); f != nil {
				return f
			}
		}
	}
	code, _, f := d.command(ctx, "USER "+p.user, 331, 230)
	if f != nil || code == 230 { // no password wanted
		return f
	}
	_, _, f = d.command(ctx, "PASS "+p.password, 230, 202)
	return f
}

// fetch reads the file, as far as it counts, and returns how many bytes came.
func (p *ftpProbe) fetch(ctx context.Context, d *replies, cfg *tls.Config, addr netip.Addr) (int64, *failure) {
	if _, _, f := d.command(ctx, "TYPE I", 200); f != nil {
		return 0, f
	}
	port, f := p.passive(ctx, d)
	if f != nil {
		return 0, f
	}
	data, f := p.dialAddr(ctx, netip.AddrPortFrom(addr, port))
	if f != nil {
		return 0, failf(f.cause, "data connection to port %d: %s", port, f.detail)
	}
	defer data.Close()
	defer bind(ctx, data)()
	if _, _, f := d.command(ctx, "RETR "+p.file, 150, 125); f != nil {
		return 0, f
	}
	from := data
	if cfg != nil {
		tc, f := p.secure(ctx, data, cfg)
		if f != nil {
			return 0, failf(f.cause, "data connection: %s", f.detail)
		}
		from = tc
	}
	n, err := io.Copy(io.Discard, io.LimitReader(from, ftpFileLimit))
	switch {
	case err != nil:
		f := netFailure(ctx, err, fmt.Sprintf("only %d bytes of the file within %s", n, p.limitText()))
		return n, failf(f.cause, "data connection: %s", f.detail)
	case n == ftpFileLimit:
		return n, nil // there may be more, of which nobody wants to hear
	}
	from.Close() // servers wait for the farewell of TLS
	_, _, f = d.reply(ctx, "after the file", 226, 250)
	return n, f
}

// passive asks for a port to connect to: with EPSV (RFC 2428), or with PASV
// where a server does not know that. The address is the target's in any case:
// what PASV answers may be that of a host behind a translator, or anybody's.
func (p *ftpProbe) passive(ctx context.Context, d *replies) (uint16, *failure) {
	code, text, f := d.command(ctx, "EPSV", 229)
	verb, parse := "EPSV", parseEPSV
	if f != nil && code >= 500 {
		_, text, f = d.command(ctx, "PASV", 227)
		verb, parse = "PASV", parsePASV
	}
	if f != nil {
		return 0, f
	}
	port, ok := parse(text)
	if !ok {
		return 0, failf(CauseAnswer, "the reply to %s has no port: %s", verb, quoted([]byte(oneLine([]byte(text), quoteLimit)), quoteLimit))
	}
	return port, nil
}

// parseEPSV finds the port in "Entering Extended Passive Mode (|||6446|)",
// where the bar may be any one character.
func parseEPSV(text string) (uint16, bool) {
	_, rest, ok := strings.Cut(text, "(")
	if !ok || len(rest) < 5 || rest[1] != rest[0] || rest[2] != rest[0] {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest[3:], rest[:1])
	port, err := strconv.ParseUint(digits, 10, 16)
	return uint16(port), ok && err == nil && port > 0
}

// parsePASV finds the port in "Entering Passive Mode (10,0,0,1,25,46)", with or
// without the brackets (RFC 1123, 4.1.2.6).
func parsePASV(text string) (uint16, bool) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r != ',' && (r < '0' || r > '9') })
	i := slices.IndexFunc(words, func(w string) bool { return strings.Count(w, ",") == 5 })
	if i < 0 {
		return 0, false
	}
	var n [6]uint64
	for k, digits := range strings.Split(words[i], ",") {
		var err error
		if n[k], err = strconv.ParseUint(digits, 10, 8); err != nil {
			return 0, false
		}
	}
	port := uint16(n[4]<<8 | n[5])
	return port, port > 0
}
