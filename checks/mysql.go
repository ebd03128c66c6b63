package checks

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
)

const (
	myPacketLimit = 16 << 10 // bytes of one packet
	myHead        = 4        // bytes of length and sequence number
	myMaxRounds   = 4        // questions of the server during a login
)

// Capability flags of the protocol.
const (
	myLongPassword  = 1 << 0
	myProtocol41    = 1 << 9
	mySSL           = 1 << 11
	mySecureConnect = 1 << 15
	myPluginAuth    = 1 << 19
)

// First bytes of a packet.
const (
	myOK       = 0x00
	myMore     = 0x01 // more data for the login
	myVersion  = 0x0a // greeting
	mySwitch   = 0xfe // another way to log in
	myErr      = 0xff
	myCharset  = 45 // utf8mb4
	myCOMQuit  = 1
	mySequence = 3 // place of the sequence number in a packet's head
)

// MySQLOptions are the settings of a mysql check: it logs in without a
// password, and takes a refusal for what it is. It does so, and does not just
// look at the greeting, because a server counts handshakes that break off and
// in the end blocks the host that they come from (max_connect_errors).
type MySQLOptions struct {
	User       string `yaml:"user" doc:"user to log in as, without a password; where it is set, a refusal of the login is a failure. Without, rhid is the name, and a refusal shows a server that takes connections"`
	TLS        bool   `yaml:"tls" doc:"ask for TLS, and fail where the server has none"`
	CAFile     string `yaml:"ca_file" doc:"PEM file of the authorities to trust; those of the system by default"`
	CertFile   string `yaml:"cert_file" doc:"PEM file of the client certificate and its chain"`
	KeyFile    string `yaml:"key_file" doc:"PEM file of the client certificate's key"`
	ServerName string `yaml:"server_name" doc:"name that the certificate must have, and that is sent as SNI; the host by default"`
	SkipVerify bool   `yaml:"skip_verify" doc:"take any certificate, even an expired one"`
}

// NeedsTarget implements Options.
func (*MySQLOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *MySQLOptions) Problems() []Problem {
	ps := o.settings().problems()
	if !o.TLS {
		ps = o.settings().unusedWithout("tls: true")
	}
	return append(ps, loginProblems("user", o.User)...)
}

func (o *MySQLOptions) settings() tlsSettings {
	return tlsSettings{caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName, skipVerify: o.SkipVerify}
}

// myProbe is a mysql check of one target.
type myProbe struct {
	*aim
	user   string
	strict bool        // a refused login is a failure
	tls    *tls.Config // nil without TLS
}

// Prober implements Options.
func (o *MySQLOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("mysql check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("mysql check: %w", err)
	}
	p := &myProbe{aim: a, user: orDefault(o.User, "rhid"), strict: o.User != ""}
	if o.TLS {
		if p.tls, err = o.settings().config(); err != nil {
			return nil, fmt.Errorf("mysql check: %w", err)
		}
	}
	return timed(p.probe), nil
}

func (p *myProbe) probe(ctx context.Context) Result {
	conn, f := p.dial(ctx)
	if f != nil {
		return f.result("")
	}
	defer func() { _ = conn.Close() }() // of whatever it has become
	defer bind(ctx, conn)()
	greeting, f := p.packet(ctx, p.newDialogue(conn, "MySQL greeting", myPacketLimit))
	if f != nil {
		return f.result("")
	}
	capabilities, f := p.judgeGreeting(greeting.body)
	if f != nil {
		return f.result("")
	}
	flags := uint32(myLongPassword | myProtocol41 | mySecureConnect | myPluginAuth)
	if p.tls == nil {
		return p.login(ctx, conn, greeting.sequence+1, flags)
	}
	if capabilities&mySSL == 0 {
		return (&failure{CauseTLS, "the server does not offer TLS"}).result("")
	}
	flags |= mySSL
	if _, err := conn.Write(myPacket(greeting.sequence+1, myLogin(flags))); err != nil {
		return netFailure(ctx, err, "connected, but could not send within "+p.limitText()).result("")
	}
	secured, f := p.secure(ctx, conn, p.tls)
	if f != nil {
		return f.result("")
	}
	conn = secured
	return p.login(ctx, conn, greeting.sequence+2, flags)
}

// login answers the greeting and whatever the server asks then, always without
// a password.
func (p *myProbe) login(ctx context.Context, conn net.Conn, sequence byte, flags uint32) Result {
	login := append(append(myLogin(flags), p.user...), 0, 0) // no password
	login = append(append(login, "mysql_native_password"...), 0)
	if _, err := conn.Write(myPacket(sequence, login)); err != nil {
		return netFailure(ctx, err, "connected, but could not send within "+p.limitText()).result("")
	}
	in := p.newDialogue(conn, "MySQL answer to the login", myPacketLimit)
	for range myMaxRounds {
		answer, f := p.packet(ctx, in)
		if f != nil {
			return f.result("")
		}
		res, more := p.judgeLogin(answer.body)
		if !more {
			_, _ = conn.Write(myPacket(0, []byte{myCOMQuit})) // a courtesy; the answer is there
			return res
		}
		if _, err := conn.Write(myPacket(answer.sequence+1, nil)); err != nil {
			return netFailure(ctx, err, "connected, but could not send within "+p.limitText()).result("")
		}
	}
	return failf(CauseAnswer, "the server asks more than %d times during the login", myMaxRounds).result("")
}

// myReceived is a packet of the server.
type myReceived struct {
	sequence byte
	body     []byte
}

// packet waits for the next packet.
func (p *myProbe) packet(ctx context.Context, in *dialogue) (out myReceived, f *failure) {
	f = in.next(ctx, func(got []byte) (int, *failure) {
		body, used, f := myBody(got)
		if used > 0 {
			out = myReceived{got[mySequence], bytes.Clone(body)}
		}
		return used, f
	})
	return out, f
}

// myBody finds the first packet in what has come so far; used is 0 as long as
// it is not whole.
func myBody(got []byte) (body []byte, used int, f *failure) {
	if len(got) < myHead {
		return nil, 0, nil
	}
	n := int(got[0]) | int(got[1])<<8 | int(got[2])<<16
	switch {
	case n == 0 || n > myPacketLimit-myHead:
		return nil, 0, failf(CauseAnswer, "the target does not speak MySQL: answered %s", quoted(got, quoteLimit))
	case len(got) < myHead+n:
		return nil, 0, nil
	}
	return got[myHead : myHead+n], myHead + n, nil
}

// myPacket is a packet to the server.
func myPacket(sequence byte, body []byte) []byte {
	n := len(body) // of a name at most, and so below 2^24
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), sequence}, body...)
}

// myLogin is the beginning of the client's answer to the greeting, and all of
// a request for TLS.
func myLogin(flags uint32) []byte {
	out := binary.LittleEndian.AppendUint32(nil, flags)
	out = binary.LittleEndian.AppendUint32(out, 1<<24-1) // longest packet
	return append(append(out, myCharset), make([]byte, 23)...)
}

// judgeGreeting looks at the first packet of a server and returns its
// capabilities.
func (p *myProbe) judgeGreeting(body []byte) (capabilities uint16, f *failure) {
	switch body[0] {
	case myErr:
		code, text := myError(body)
		return 0, failf(CauseAnswer, "the server does not accept connections: %s (%d)", text, code)
	case myVersion:
	default:
		return 0, failf(CauseAnswer, "the target does not speak MySQL: its greeting begins with %s", quoted(body, quoteLimit))
	}
	const afterVersion = 4 + 8 + 1 // thread, part of the challenge, a zero
	_, rest, ok := bytes.Cut(body[1:], []byte{0})
	if !ok || len(rest) < afterVersion+2 {
		return 0, failf(CauseAnswer, "the target does not speak MySQL: its greeting breaks off after %d bytes", len(body))
	}
	return binary.LittleEndian.Uint16(rest[afterVersion:]), nil
}

// judgeLogin says what the answer to the login means; more tells that the
// server asks on.
func (p *myProbe) judgeLogin(body []byte) (res Result, more bool) {
	switch body[0] {
	case myOK:
		return Result{OK: true, Detail: "the server accepts connections"}, false
	case mySwitch, myMore:
		return Result{}, true
	case myErr:
	default:
		return failf(CauseAnswer, "the server answered the login with %s", quoted(body, quoteLimit)).result(""), false
	}
	code, text := myError(body)
	if !p.strict && loginRefused(code) {
		return Result{OK: true, Detail: fmt.Sprintf("the server accepts connections, and refused this login: %s (%d)", text, code)}, false
	}
	return failf(CauseAnswer, "the server refused: %s (%d)", text, code).result(""), false
}

// loginRefused tells the errors that concern this login from those that concern
// the server.
func loginRefused(code uint16) bool {
	switch code {
	case 1044, 1045, 1049, 1251, 1698, 1862, 1820, 3118, 4151:
		// access denied, no such database, no way to log in without a password,
		// password expired, account locked
		return true
	}
	return false
}

// myError takes code and message out of an ERR packet.
func myError(body []byte) (code uint16, text string) {
	if len(body) < 3 {
		return 0, "no message"
	}
	code, rest := binary.LittleEndian.Uint16(body[1:]), body[3:]
	if len(rest) >= 6 && rest[0] == '#' { // and five characters of SQLSTATE
		rest = rest[6:]
	}
	return code, orDefault(oneLine(rest, 120), "no message")
}
