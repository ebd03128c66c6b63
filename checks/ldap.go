package checks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"
)

const (
	ldapBytesLimit = 64 << 10 // bytes of all that a server says
	ldapStartLimit = 4 << 10  // bytes of its answer to StartTLS
	ldapSequence   = 0x30
	ldapExtended   = 24 // tag of an ExtendedResponse
)

// LDAPOptions are the settings of an ldap check. Without any it reads the root
// DSE, which every server shows to everybody.
type LDAPOptions struct {
	BindDN       string `yaml:"bind_dn" doc:"whom to bind as; without, nobody binds"`
	Password     string `yaml:"password" secret:"true" doc:"password of bind_dn"`
	PasswordFile string `yaml:"password_file" doc:"file whose first line is the password, instead of password"`
	Base         string `yaml:"base" doc:"entry that must be there; without bind_dn it is the root DSE by default"`
	Filter       string `yaml:"filter" default:"(objectClass=*)" doc:"filter that the entry must match"`
	TLS          string `yaml:"tls" default:"none" enum:"none,starttls,ldaps" doc:"plain, TLS begun by StartTLS, or TLS from the start"`
	CAFile       string `yaml:"ca_file" doc:"PEM file of the authorities to trust; those of the system by default"`
	CertFile     string `yaml:"cert_file" doc:"PEM file of the client certificate and its chain"`
	KeyFile      string `yaml:"key_file" doc:"PEM file of the client certificate's key"`
	ServerName   string `yaml:"server_name" doc:"name that the certificate must have, and that is sent as SNI; the host by default"`
	SkipVerify   bool   `yaml:"skip_verify" doc:"take any certificate, even an expired one"`
}

// NeedsTarget implements Options.
func (*LDAPOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *LDAPOptions) Problems() []Problem {
	ps := wordProblems("tls", o.TLS, "none", "starttls", "ldaps")
	if o.TLS == "" || o.TLS == "none" {
		ps = append(ps, o.settings().unusedWithout("tls: starttls or ldaps")...)
	} else {
		ps = append(ps, o.settings().problems()...)
	}
	ps = append(ps, secretProblems("password", o.Password, o.PasswordFile)...)
	switch secret := o.Password != "" || o.PasswordFile != ""; {
	case o.BindDN != "" && !secret:
		ps = append(ps, Problem{"bind_dn", "needs password or password_file: a bind without one proves nothing (RFC 4513, 5.1.2)"})
	case o.BindDN == "" && secret:
		ps = append(ps, Problem{"bind_dn", "is missing: the password belongs to it"})
	}
	// A directory may take another name to bind as: user@domain, DOMAIN\user.
	if _, err := ldap.ParseDN(o.BindDN); err != nil && strings.Contains(o.BindDN, "=") {
		ps = append(ps, Problem{"bind_dn", fmt.Sprintf("%q is not a distinguished name: %v", o.BindDN, err)})
	}
	if _, err := ldap.ParseDN(o.Base); err != nil {
		ps = append(ps, Problem{"base", fmt.Sprintf("%q is not a distinguished name: %v", o.Base, err)})
	}
	if o.Filter != "" {
		if _, err := ldap.CompileFilter(o.Filter); err != nil {
			ps = append(ps, Problem{"filter", fmt.Sprintf("%q is not a filter such as (objectClass=*): %v", o.Filter, bareLDAP(err))})
		}
	}
	return ps
}

func (o *LDAPOptions) settings() tlsSettings {
	return tlsSettings{caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName, skipVerify: o.SkipVerify}
}

// ldapProbe is an ldap check of one target.
type ldapProbe struct {
	*aim
	bindDN, password string
	search           *ldap.SearchRequest // nil where the bind is all
	tls              *tls.Config         // nil without TLS
	start            bool                // with StartTLS
}

// Prober implements Options. It reads the password file; a reload that makes a
// new Prober reads it anew.
func (o *LDAPOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("ldap check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("ldap check: %w", err)
	}
	p := &ldapProbe{aim: a, bindDN: o.BindDN, start: o.TLS == "starttls"}
	if p.password, err = secretOf(o.Password, o.PasswordFile); err != nil {
		return nil, fmt.Errorf("ldap check: password_file: %w", err)
	}
	if o.Base != "" || o.BindDN == "" {
		p.search = ldapEntry(o.Base, orDefault(o.Filter, "(objectClass=*)"))
	}
	if o.TLS == "starttls" || o.TLS == "ldaps" {
		if p.tls, err = o.settings().config(); err != nil {
			return nil, fmt.Errorf("ldap check: %w", err)
		}
	}
	return timed(p.probe), nil
}

// ldapEntry asks for one entry without its attributes, which is what 1.1 means
// (RFC 4511, 4.5.1.8).
func ldapEntry(base, filter string) *ldap.SearchRequest {
	return ldap.NewSearchRequest(base, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 1, 0, false, filter, []string{"1.1"}, nil)
}

func (p *ldapProbe) probe(ctx context.Context) Result {
	conn, f := p.dial(ctx)
	if f != nil {
		return f.result("")
	}
	defer func() { _ = conn.Close() }() // of whatever it has become
	defer bind(ctx, conn)()
	if p.start {
		if f := p.startTLS(ctx, conn); f != nil {
			return f.result("")
		}
	}
	if p.tls != nil {
		secured, f := p.secure(ctx, conn, p.tls)
		if f != nil {
			return f.result("")
		}
		conn = secured
	}
	return p.ask(ctx, conn)
}

// ask binds and searches. The library gets a bounded number of bytes, and a
// panic over them is a failure of the target.
func (p *ldapProbe) ask(ctx context.Context, conn net.Conn) (res Result) {
	heard := &heardConn{Conn: conn, begins: ldapSequence, left: ldapBytesLimit}
	client := ldap.NewConn(heard, p.tls != nil)
	if d, ok := ctx.Deadline(); ok {
		client.SetTimeout(time.Until(d) + time.Second) // the connection's own deadline is first
	}
	client.Start()
	defer client.Close()
	defer func() {
		if r := recover(); r != nil {
			res = failf(CauseAnswer, "the answer is not LDAP: %v", r).result("")
		}
	}()
	if p.bindDN != "" {
		if err := client.Bind(p.bindDN, p.password); err != nil {
			return p.askFailure(ctx, "the bind", err, heard).result("")
		}
		if p.search == nil {
			return Result{OK: true, Detail: "the server accepted the bind"}
		}
	}
	found, err := client.Search(p.search)
	what := orDefault(p.search.BaseDN, "the root DSE")
	switch {
	case err != nil:
		return p.askFailure(ctx, "the search for "+what, err, heard).result("")
	case len(found.Entries) == 0:
		return failf(CauseAnswer, "the server shows no entry for %s with %s", what, p.search.Filter).result("")
	}
	return Result{OK: true, Detail: "the server showed " + what}
}

// askFailure explains why an operation failed.
func (p *ldapProbe) askFailure(ctx context.Context, what string, err error, conn *heardConn) *failure {
	heard := conn.err()
	var said *ldap.Error
	if errors.As(err, &said) && said.ResultCode < ldap.ErrorNetwork {
		return failf(CauseAnswer, "the server refused %s: %s", what, ldapText(said.ResultCode, bareLDAP(err)))
	}
	if f := alertFailure(heard); f != nil {
		return f
	}
	switch {
	case errors.Is(heard, errForeign):
		return failf(CauseAnswer, "the target does not speak LDAP: answered %s", quoted(conn.first, quoteLimit))
	case errors.Is(heard, errTooMuch):
		return failf(CauseAnswer, "the target sends more than %d bytes in answer to %s", ldapBytesLimit, what)
	case errors.Is(heard, io.EOF), errors.Is(heard, io.ErrUnexpectedEOF):
		return failf(CauseAnswer, "the target closed the connection without a whole answer to %s", what)
	case heard != nil && !errors.Is(heard, net.ErrClosed), ctx.Err() != nil:
		f := netFailure(ctx, errors.Join(heard, ctx.Err()), fmt.Sprintf("connected, but no answer to %s within %s", what, p.limitText()))
		if f.cause == CauseTimeout && conn.first != nil {
			return failf(CauseAnswer, "no whole answer to %s within %s", what, p.limitText())
		}
		return f
	}
	return failf(CauseAnswer, "the answer to %s is not LDAP: %s", what, oneLine([]byte(bareLDAP(err)), 120))
}

// startTLS asks for TLS (RFC 4511, 4.14). It does so by itself, because the
// library would make the handshake, too, and say little of how it failed.
func (p *ldapProbe) startTLS(ctx context.Context, conn net.Conn) *failure {
	const oid = "1.3.6.1.4.1.1466.20037"
	request := append([]byte{ldapSequence, 29, 0x02, 1, 1, 0x77, 24, 0x80, byte(len(oid))}, oid...)
	if _, err := conn.Write(request); err != nil {
		return netFailure(ctx, err, "connected, but could not send within "+p.limitText())
	}
	return p.newDialogue(conn, "StartTLS answer", ldapStartLimit).next(ctx, ldapStartAnswer)
}

// ldapStartAnswer looks at what a server answered to StartTLS.
func ldapStartAnswer(got []byte) (used int, f *failure) {
	defer func() {
		if r := recover(); r != nil {
			used, f = 0, failf(CauseAnswer, "the answer to StartTLS is not LDAP: %v", r)
		}
	}()
	n, ok := ldapLength(got)
	switch {
	case !ok:
		return 0, failf(CauseAnswer, "the target does not speak LDAP: answered %s", quoted(got, quoteLimit))
	case n == 0 || len(got) < n:
		return 0, nil
	}
	packet, err := ber.DecodePacketErr(got[:n])
	if err != nil || len(packet.Children) < 2 || packet.Children[1].Tag != ldapExtended {
		return 0, failf(CauseAnswer, "the target does not speak LDAP: answered %s to StartTLS", quoted(got[:n], quoteLimit))
	}
	var said *ldap.Error
	if err := ldap.GetLDAPError(packet); errors.As(err, &said) {
		return 0, failf(CauseTLS, "the server refused StartTLS: %s", ldapText(said.ResultCode, bareLDAP(err)))
	}
	return n, nil
}

// ldapLength is the length of the message that begins here, head and all; 0
// when not enough of it has come. It is not ok when no message of a bearable
// length begins here.
func ldapLength(got []byte) (n int, ok bool) {
	if got[0] != ldapSequence {
		return 0, false
	}
	if len(got) < 2 {
		return 0, true
	}
	if got[1] < 0x80 {
		return 2 + int(got[1]), true
	}
	octets := int(got[1] & 0x7f)
	if octets == 0 || octets > 4 {
		return 0, false
	}
	if len(got) < 2+octets {
		return 0, true
	}
	for _, b := range got[2 : 2+octets] {
		n = n<<8 | int(b)
	}
	return 2 + octets + n, n <= ldapStartLimit
}

// ldapText is a result code with its name and what the server says of it.
func ldapText(code uint16, said string) string {
	name := orDefault(ldap.LDAPResultCodeMap[code], "result code")
	text := fmt.Sprintf("%s (%d)", strings.ToLower(name), code)
	if said = oneLine([]byte(said), 120); said != "" {
		text += ": " + said
	}
	return text
}

// bareLDAP is the text of an error without the words of the library.
func bareLDAP(err error) string {
	var said *ldap.Error
	if errors.As(err, &said) && said.Err != nil {
		return strings.TrimPrefix(said.Err.Error(), "ldap: ")
	}
	return strings.TrimPrefix(err.Error(), "ldap: ")
}
