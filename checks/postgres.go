package checks

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
)

const (
	pgMessageLimit = 16 << 10 // bytes of one message
	pgMaxNotices   = 8        // messages before the one that counts
	pgProtocol     = 3 << 16  // version 3.0
	pgSSLRequest   = 80877103
	pgHead         = 5 // bytes of kind and length
)

// SQLSTATE codes that tell what state a server is in.
const (
	pgCannotConnectNow = "57P03" // starting up, shutting down, in recovery
	pgTooMany          = "53300"
	pgNoDatabase       = "3D000"
	pgLoginClass       = "28" // class: the login was refused
)

// PostgresOptions are the settings of a postgres check: it begins to log in, as
// pg_isready does, and never gets as far as a password.
type PostgresOptions struct {
	User       string `yaml:"user" doc:"user to log in as; where it is set, a refusal of the login is a failure. Without, rhid is the name, and a refusal shows a server that takes connections"`
	Database   string `yaml:"database" default:"postgres" doc:"database to ask for"`
	TLS        bool   `yaml:"tls" doc:"ask for TLS (SSLRequest), and fail where the server has none"`
	CAFile     string `yaml:"ca_file" doc:"PEM file of the authorities to trust; those of the system by default"`
	CertFile   string `yaml:"cert_file" doc:"PEM file of the client certificate and its chain"`
	KeyFile    string `yaml:"key_file" doc:"PEM file of the client certificate's key"`
	ServerName string `yaml:"server_name" doc:"name that the certificate must have, and that is sent as SNI; the host by default"`
	SkipVerify bool   `yaml:"skip_verify" doc:"take any certificate, even an expired one"`
}

// NeedsTarget implements Options.
func (*PostgresOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *PostgresOptions) Problems() []Problem {
	ps := o.settings().problems()
	if !o.TLS {
		ps = o.settings().unusedWithout("tls: true")
	}
	ps = append(ps, loginProblems("user", o.User)...)
	return append(ps, loginProblems("database", o.Database)...)
}

// loginProblems are those of a name in a handshake.
func loginProblems(key, name string) []Problem {
	if len(name) > 63 || strings.ContainsRune(name, 0) {
		return []Problem{{key, fmt.Sprintf("%q is not a name of at most 63 bytes", cut(name, 80))}}
	}
	return nil
}

func (o *PostgresOptions) settings() tlsSettings {
	return tlsSettings{caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName, skipVerify: o.SkipVerify}
}

// pgProbe is a postgres check of one target.
type pgProbe struct {
	*aim
	startup  []byte
	tls      *tls.Config // nil without TLS
	strict   bool        // a refused login is a failure
	database string
}

// Prober implements Options.
func (o *PostgresOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("postgres check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("postgres check: %w", err)
	}
	p := &pgProbe{aim: a, strict: o.User != "", database: orDefault(o.Database, "postgres")}
	p.startup = pgStartup(orDefault(o.User, "rhid"), p.database)
	if o.TLS {
		if p.tls, err = o.settings().config(); err != nil {
			return nil, fmt.Errorf("postgres check: %w", err)
		}
		p.tls.NextProtos = []string{"postgresql"}
	}
	return timed(p.probe), nil
}

// pgStartup is the first message of a client (StartupMessage).
func pgStartup(user, database string) []byte {
	out := binary.BigEndian.AppendUint32(make([]byte, 4), pgProtocol)
	for _, s := range []string{"user", user, "database", database, "application_name", "rhid"} {
		out = append(append(out, s...), 0)
	}
	out = append(out, 0)
	binary.BigEndian.PutUint32(out, uint32(len(out)))
	return out
}

func (p *pgProbe) probe(ctx context.Context) Result {
	conn, f := p.dial(ctx)
	if f != nil {
		return f.result("")
	}
	defer func() { _ = conn.Close() }() // of whatever it has become
	defer bind(ctx, conn)()
	if p.tls != nil {
		secured, f := p.upgrade(ctx, conn)
		if f != nil {
			return f.result("")
		}
		conn = secured
	}
	if _, err := conn.Write(p.startup); err != nil {
		return netFailure(ctx, err, "connected, but could not send within "+p.limitText()).result("")
	}
	in := p.newDialogue(conn, "PostgreSQL answer", pgMessageLimit)
	for range pgMaxNotices {
		var res Result
		var done bool
		f := in.next(ctx, func(got []byte) (int, *failure) {
			kind, body, used, f := pgMessage(got)
			if used > 0 {
				res, done = p.judge(kind, body)
			}
			return used, f
		})
		switch {
		case f != nil:
			return f.result("")
		case done:
			return res
		}
	}
	return failf(CauseAnswer, "more than %d messages before the server asked for a login", pgMaxNotices).result("")
}

// upgrade asks for TLS and makes it.
func (p *pgProbe) upgrade(ctx context.Context, conn net.Conn) (net.Conn, *failure) {
	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), pgSSLRequest)
	if _, err := conn.Write(request); err != nil {
		return nil, netFailure(ctx, err, "connected, but could not send within "+p.limitText())
	}
	// One byte and no more: what comes after it must be TLS.
	f := p.newDialogue(conn, "PostgreSQL answer", 1).next(ctx, func(got []byte) (int, *failure) {
		switch got[0] {
		case 'S':
			return 1, nil
		case 'N':
			return 0, &failure{CauseTLS, "the server does not offer TLS"}
		case 'E':
			return 0, &failure{CauseAnswer, "the server answered the request for TLS with an error: it cannot serve connections now"}
		}
		return 0, failf(CauseAnswer, "the target does not speak PostgreSQL: answered %s to a request for TLS", quoted(got, quoteLimit))
	})
	if f != nil {
		return nil, f
	}
	return p.secure(ctx, conn, p.tls)
}

// pgMessage finds the first message in what has come so far; used is 0 as long
// as it is not whole.
func pgMessage(got []byte) (kind byte, body []byte, used int, f *failure) {
	if !bytes.ContainsRune([]byte("RENvS"), rune(got[0])) {
		return 0, nil, 0, failf(CauseAnswer, "the target does not speak PostgreSQL: answered %s", quoted(got, quoteLimit))
	}
	if len(got) < pgHead {
		return 0, nil, 0, nil
	}
	n := binary.BigEndian.Uint32(got[1:pgHead])
	switch {
	case n < 4 || n >= pgMessageLimit:
		return 0, nil, 0, failf(CauseAnswer, "the target does not speak PostgreSQL: answered %s", quoted(got, quoteLimit))
	case len(got) <= int(n): // the kind is not counted
		return 0, nil, 0, nil
	}
	return got[0], got[pgHead : n+1], int(n) + 1, nil
}

// judge says what a message means; it is done with an authentication request
// or an error.
func (p *pgProbe) judge(kind byte, body []byte) (res Result, done bool) {
	switch kind {
	case 'R':
		return Result{OK: true, Detail: "the server accepts connections"}, true
	case 'E':
		return p.judgeError(body), true
	}
	return Result{}, false // notice, negotiation of the version, parameter
}

// judgeError says what an error before the login means.
func (p *pgProbe) judgeError(body []byte) Result {
	code, text := pgError(body)
	said := fmt.Sprintf("%s (%s)", oneLine([]byte(text), 120), printable(code))
	switch {
	case code == pgCannotConnectNow:
		return failf(CauseAnswer, "the server does not accept connections now: %s", said).result("")
	case code == pgTooMany:
		return failf(CauseAnswer, "the server has too many connections: %s", said).result("")
	case !p.strict && (strings.HasPrefix(code, pgLoginClass) || code == pgNoDatabase):
		return Result{OK: true, Detail: "the server accepts connections, and refused this login: " + said}
	}
	return failf(CauseAnswer, "the server refused: %s", said).result("")
}

// pgError takes the SQLSTATE and the message out of an ErrorResponse.
func pgError(body []byte) (code, text string) {
	for len(body) > 1 && body[0] != 0 {
		value, rest, ok := bytes.Cut(body[1:], []byte{0})
		if !ok {
			break
		}
		switch body[0] {
		case 'C':
			code = string(value)
		case 'M':
			text = string(value)
		}
		body = rest
	}
	return orDefault(code, "no code"), orDefault(text, "no message")
}
