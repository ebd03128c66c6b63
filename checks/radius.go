package checks

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

const radiusStrays = 16 // packets that belong to no request of the probe and are passed over

// RADIUSOptions are the settings of a radius check.
type RADIUSOptions struct {
	Request      string `yaml:"request" default:"access" enum:"access,status" doc:"what to send: an Access-Request for user, or a Status-Server (RFC 5997), which needs none"`
	Secret       string `yaml:"secret" secret:"true" doc:"secret that the server has for this host"`
	SecretFile   string `yaml:"secret_file" doc:"file whose first line is the secret; this or secret is required"`
	User         string `yaml:"user" doc:"User-Name of an Access-Request"`
	Password     string `yaml:"password" secret:"true" doc:"the user's password"`
	PasswordFile string `yaml:"password_file" doc:"file whose first line is the password"`
	Auth         string `yaml:"auth" default:"pap" enum:"pap,chap" doc:"how the password is sent"`
	Expect       string `yaml:"expect" default:"accept" enum:"accept,reject,any" doc:"answer to an Access-Request that is wanted; any is for a server that is healthy when it decides at all"`
	RequireMAC   bool   `yaml:"require_message_authenticator" doc:"an answer must have a Message-Authenticator; one that is there must be right in any case"`
	NASID        string `yaml:"nas_identifier" default:"rhid" doc:"NAS-Identifier of the request"`
}

// NeedsTarget implements Options.
func (*RADIUSOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *RADIUSOptions) Problems() []Problem {
	ps := append(secretProblems("secret", o.Secret, o.SecretFile), secretProblems("password", o.Password, o.PasswordFile)...)
	add := func(key, format string, args ...any) { ps = append(ps, Problem{key, fmt.Sprintf(format, args...)}) }
	if o.Secret == "" && o.SecretFile == "" {
		add("secret", "is missing; use secret or secret_file")
	}
	switch o.Request {
	case "", "access":
		if o.User == "" {
			add("user", "is missing: an Access-Request is for a user; request: status needs none")
		}
	case "status":
		for key, set := range map[string]bool{"user": o.User != "", "password": o.Password != "", "password_file": o.PasswordFile != ""} {
			if set {
				add(key, "has no effect with request: status")
			}
		}
		if o.Expect != "" && o.Expect != "accept" {
			add("expect", "cannot be %s with request: status, which is never rejected", o.Expect)
		}
	default:
		add("request", "%q is neither access nor status", o.Request)
	}
	if !slices.Contains([]string{"", "pap", "chap"}, o.Auth) {
		add("auth", "%q is neither pap nor chap", o.Auth)
	}
	if !slices.Contains([]string{"", "accept", "reject", "any"}, o.Expect) {
		add("expect", "%q is not accept, reject or any", o.Expect)
	}
	for key, value := range map[string]string{"user": o.User, "nas_identifier": o.NASID} {
		if len(value) > radiusMaxValue {
			add(key, "has %d bytes; an attribute takes %d", len(value), radiusMaxValue)
		}
	}
	if len(o.Password) > radiusMaxPassword {
		add("password", "is longer than the %d bytes that RADIUS takes", radiusMaxPassword)
	}
	slices.SortFunc(ps, func(a, b Problem) int { return slices.Index(radiusKeys, a.Key) - slices.Index(radiusKeys, b.Key) })
	return ps
}

// radiusKeys is the order of problems, which come from maps.
var radiusKeys = []string{"request", "secret", "secret_file", "user", "password", "password_file", "auth", "expect", "nas_identifier"}

// radiusProbe is a radius check of one target.
type radiusProbe struct {
	*aim
	secret, password []byte
	user, nas        string
	status, chap     bool
	expect           string
	needMAC          bool
	buf              []byte
}

// Prober implements Options. It reads the secrets; a reload that makes a new
// Prober reads them anew.
func (o *RADIUSOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("radius check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("radius check: %w", err)
	}
	secret, err := secretOf(o.Secret, o.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("radius check: secret_file: %w", err)
	}
	password, err := secretOf(o.Password, o.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("radius check: password_file: %w", err)
	}
	if len(password) > radiusMaxPassword {
		return nil, fmt.Errorf("radius check: password_file: the password is longer than the %d bytes that RADIUS takes", radiusMaxPassword)
	}
	p := &radiusProbe{
		aim: a, secret: []byte(secret), password: []byte(password), user: o.User, nas: orDefault(o.NASID, "rhid"),
		status: o.Request == "status", chap: o.Auth == "chap", expect: orDefault(o.Expect, "accept"),
		needMAC: o.RequireMAC, buf: make([]byte, radiusLimit),
	}
	return timed(p.probe), nil
}

func (p *radiusProbe) probe(ctx context.Context) Result {
	addr, f := p.resolve(ctx)
	if f != nil {
		return f.result("")
	}
	conn, f := p.dialUDP(ctx, netip.AddrPortFrom(addr, p.port))
	if f != nil {
		return f.result("")
	}
	defer conn.Close()
	defer bind(ctx, conn)()
	var nonce [17]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	id, auth := nonce[16], radiusAuthenticator(nonce[:16])
	if _, err := conn.Write(p.request(id, auth)); err != nil {
		return p.udpFailure(ctx, err).result("")
	}
	answer, f := p.await(ctx, conn, id, auth)
	if f != nil {
		return f.result("")
	}
	good, f := p.judge(answer)
	return f.result(good)
}

// request makes the packet to send.
func (p *radiusProbe) request(id byte, auth radiusAuthenticator) []byte {
	code := byte(radiusAccessRequest)
	if p.status {
		code = radiusStatusServer
	}
	r := newRadiusRequest(code, id, auth)
	if !p.status {
		r.add(attrUserName, []byte(p.user))
		if p.chap {
			r.addCHAP(p.password, id)
		} else {
			r.addPAP(p.password, p.secret)
		}
	}
	r.add(attrNASIdentifier, []byte(p.nas))
	return r.sealed(p.secret)
}

// await waits for the answer. One that cannot be believed is passed over, as
// the RFC says, so that nobody can make the server look sick; but if no other
// comes, it is the reason.
func (p *radiusProbe) await(ctx context.Context, conn net.Conn, id byte, auth radiusAuthenticator) (*radiusReply, *failure) {
	var doubt *failure
	for range radiusStrays {
		n, err := conn.Read(p.buf)
		if err != nil {
			return nil, p.unanswered(ctx, err, doubt)
		}
		answer, err := parseRadius(p.buf[:n])
		switch {
		case err != nil:
			doubt = failf(CauseAnswer, "the answer is not RADIUS: %v", err)
		case answer.id != id:
			doubt = &failure{CauseAnswer, "an answer came that belongs to another request"}
		default:
			if doubt = answer.verify(auth, p.secret, p.needMAC); doubt == nil {
				return answer, nil
			}
		}
	}
	return nil, doubt
}

// unanswered explains a request without an answer that can be believed.
func (p *radiusProbe) unanswered(ctx context.Context, err error, doubt *failure) *failure {
	f := p.udpFailure(ctx, err)
	switch {
	case f.cause == CauseTimeout && doubt != nil:
		return doubt
	case f.cause == CauseTimeout:
		f.detail += "; a RADIUS server says nothing to a host, or to a secret, that it does not know"
	}
	return f
}

// judge looks at an answer that was verified, and returns the sentence of
// success.
func (p *radiusProbe) judge(answer *radiusReply) (string, *failure) {
	text := radiusName(answer.code)
	if m := oneLine(answer.message, quoteLimit); m != "" {
		text += fmt.Sprintf(" (%q)", m)
	}
	ok := false
	switch answer.code {
	case radiusAccessAccept:
		ok = p.expect != "reject"
	case radiusAccessReject:
		ok = p.expect != "accept" && !p.status
	case radiusAccessChallenge:
		ok = p.expect == "any"
	case radiusAccountingResponse:
		ok = p.status // of an accounting port
	}
	if ok {
		return "answered " + text, nil
	}
	want := map[string]string{"accept": radiusName(radiusAccessAccept), "reject": radiusName(radiusAccessReject), "any": "a decision"}[p.expect]
	return "", failf(CauseAnswer, "answered %s, wanted %s", text, want)
}
