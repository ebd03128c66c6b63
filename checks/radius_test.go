package checks

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The example of RFC 2865, 7.1: user nemo, password arctangent.
func TestRADIUSExampleOfTheRFC(t *testing.T) {
	secret := []byte("xyzzy5461")
	auth := radiusAuthenticator(fromHex(t, "0f403f9473978057bd83d5cb98f4227a"))
	r := &radiusRequest{auth: auth}
	r.addPAP([]byte("arctangent"), secret)
	if want := fromHex(t, "02 12 0dbe708d93d413ce3196e43f782a0aee"); !bytes.Equal(r.buf, want) {
		t.Errorf("User-Password %x, want %x", r.buf, want)
	}
	answer, err := parseRadius(fromHex(t, "02 00 0026 86fe220e7624ba2a1005f6bf9b55e0b2 0606 00000001 0f06 00000000 0e06 c0a80103"))
	if err != nil {
		t.Fatal(err)
	}
	if f := answer.verify(auth, secret, false); f != nil {
		t.Error(f.detail)
	}
	if f := answer.verify(auth, []byte("xyzzy5462"), false); f == nil || !strings.Contains(f.detail, "wrong authenticator") {
		t.Errorf("another secret: %+v", f)
	}
	if f := answer.verify(auth, secret, true); f == nil || !strings.Contains(f.detail, "without a Message-Authenticator") {
		t.Errorf("with a Message-Authenticator that has to be there: %+v", f)
	}
}

// radiusAnswer makes the packet that a server with this secret would answer,
// with a Message-Authenticator where mac says so.
func radiusAnswer(request []byte, code byte, secret string, mac bool, message string) []byte {
	b := append([]byte{code, request[1], 0, 0}, request[4:radiusHead]...)
	if mac {
		b = append(append(b, attrMessageAuthenticator, 18), make([]byte, md5.Size)...)
	}
	if message != "" {
		b = append(append(b, attrReplyMessage, byte(2+len(message))), message...)
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	if mac {
		h := hmac.New(md5.New, []byte(secret))
		h.Write(b)
		copy(b[radiusHead+2:], h.Sum(nil))
	}
	sum := md5.Sum(slices.Concat(b, []byte(secret)))
	copy(b[4:], sum[:])
	return b
}

func TestRADIUSAnswers(t *testing.T) {
	reject := func(b []byte) []byte { return radiusAnswer(b, radiusAccessReject, "s", true, "no\x1b[31m") }
	accept := func(b []byte) []byte { return radiusAnswer(b, radiusAccessAccept, "s", true, "") }
	changed := func(b []byte) []byte { // by somebody who can make the response authenticator right
		a := radiusAnswer(b, radiusAccessAccept, "s", true, "")
		a[radiusHead+5] ^= 1
		copy(a[4:], b[4:radiusHead])
		sum := md5.Sum(slices.Concat(a, []byte("s")))
		copy(a[4:], sum[:])
		return a
	}
	timeout := "no answer within 300ms; a RADIUS server says nothing to a host, or to a secret, that it does not know"
	tests := []struct {
		name  string
		opts  RADIUSOptions
		serve func([]byte) []byte
		want  outcome
	}{
		{"accept", RADIUSOptions{}, accept, outcome{true, "", "answered Access-Accept"}},
		{"accept to CHAP", RADIUSOptions{Auth: "chap"}, accept, outcome{true, "", "answered Access-Accept"}},
		{"reject", RADIUSOptions{}, reject, outcome{false, CauseAnswer, `answered Access-Reject ("no [31m"), wanted Access-Accept`}},
		{"reject wanted", RADIUSOptions{Expect: "reject"}, reject, outcome{true, "", `answered Access-Reject ("no [31m")`}},
		{"accept not wanted", RADIUSOptions{Expect: "reject"}, accept, outcome{false, CauseAnswer, "answered Access-Accept, wanted Access-Reject"}},
		{"any", RADIUSOptions{Expect: "any"}, reject, outcome{true, "", `answered Access-Reject ("no [31m")`}},
		{"no decision", RADIUSOptions{Expect: "any"}, func(b []byte) []byte { return radiusAnswer(b, 13, "s", false, "") }, outcome{false, CauseAnswer, "answered a packet of code 13, wanted a decision"}},
		{"status of an accounting port", RADIUSOptions{Request: "status"}, func(b []byte) []byte { return radiusAnswer(b, radiusAccountingResponse, "s", true, "") }, outcome{true, "", "answered Accounting-Response"}},
		{"status rejected", RADIUSOptions{Request: "status"}, reject, outcome{false, CauseAnswer, `answered Access-Reject ("no [31m"), wanted Access-Accept`}},
		{"padding", RADIUSOptions{}, func(b []byte) []byte { return append(accept(b), "padding"...) }, outcome{true, "", "answered Access-Accept"}},
		{"mute", RADIUSOptions{}, mute, outcome{false, CauseTimeout, timeout}},
		{"another secret", RADIUSOptions{}, func(b []byte) []byte { return radiusAnswer(b, radiusAccessAccept, "t", true, "") },
			outcome{false, CauseAnswer, "an answer came with a wrong authenticator: the server has another secret for this host, or somebody else answered"}},
		{"changed on its way", RADIUSOptions{}, changed, outcome{false, CauseAnswer, "an answer came with a wrong Message-Authenticator: somebody has changed it on its way"}},
		{"not signed", RADIUSOptions{RequireMAC: true}, func(b []byte) []byte { return radiusAnswer(b, radiusAccessAccept, "s", false, "") }, outcome{false, CauseAnswer, "an answer came without a Message-Authenticator"}},
		{"of another request", RADIUSOptions{}, func(b []byte) []byte { a := accept(b); a[1]++; return a }, outcome{false, CauseAnswer, "an answer came that belongs to another request"}},
		{"not RADIUS", RADIUSOptions{}, says("hello"), outcome{false, CauseAnswer, "the answer is not RADIUS: 5 bytes are no packet"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Secret = "s"
			if tt.opts.Request == "" {
				tt.opts.User, tt.opts.Password = "u", "p"
			}
			wantOutcome(t, probeOnce(t, &tt.opts, targetOf(serveUDP(t, "127.0.0.1:0", tt.serve), radiusLimitOf(tt.want))), tt.want)
		})
	}
}

// radiusLimitOf is short where the probe waits for a better answer to the end.
func radiusLimitOf(want outcome) (limit time.Duration) {
	if want.OK || strings.HasPrefix(want.Detail, "answered") {
		return probeLimit
	}
	if want.Cause == CauseTimeout {
		return shortLimit
	}
	return partLimit
}

// A forged answer does not keep the real one from being heard.
func TestRADIUSWaitsForTheRealAnswer(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	go func() {
		buf := make([]byte, radiusLimit)
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		for _, secret := range []string{"forged", "s"} {
			_, _ = pc.WriteTo(radiusAnswer(buf[:n], radiusAccessAccept, secret, true, "from who has "+secret), from) // it shows below
		}
	}()
	res := probeOnce(t, &RADIUSOptions{Secret: "s", User: "u"}, targetOf(addrPort(t, pc.LocalAddr()), probeLimit))
	wantOutcome(t, res, outcome{true, "", `answered Access-Accept ("from who has s")`})
}

func TestRADIUSSecretFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	o := &RADIUSOptions{SecretFile: file("secret", "s\n"), User: "u", PasswordFile: file("password", "p3nguin\n")}
	to := targetOf(serveUDP(t, "127.0.0.1:0", func(b []byte) []byte { return radiusAnswer(b, radiusAccessAccept, "s", true, "") }), probeLimit)
	wantOutcome(t, probeOnce(t, o, to), outcome{true, "", "answered Access-Accept"})
	for want, o := range map[string]*RADIUSOptions{
		"secret_file: ":         {SecretFile: dir + "/none", User: "u"},
		"password_file: ":       {Secret: "s", User: "u", PasswordFile: dir + "/none"},
		"longer than the 128 b": {Secret: "s", User: "u", PasswordFile: file("long", strings.Repeat("p3nguin", 30))},
	} {
		if _, err := o.Prober(to); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "p3nguin") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzParseRADIUS(f *testing.F) {
	request := newRadiusRequest(radiusAccessRequest, 7, radiusAuthenticator{1, 2, 3}).sealed([]byte("s"))
	f.Add(request)
	f.Add(radiusAnswer(request, radiusAccessReject, "s", true, "locked"))
	f.Add(radiusAnswer(request, radiusAccessAccept, "s", false, ""))
	f.Add([]byte("\x02\x00\x00\x16................\x50\x12"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseRadius(b)
		if err != nil {
			return
		}
		before := bytes.Clone(b)
		good := p.verify(radiusAuthenticator{1, 2, 3}, []byte("s"), false) == nil
		if p.verify(radiusAuthenticator{1, 2, 3}, []byte("s"), true) == nil && !good {
			t.Error("more is believed when more is asked for")
		}
		if !bytes.Equal(b, before) {
			t.Error("looking at it changed it")
		}
		if len(p.message) > radiusLimit {
			t.Errorf("a message of %d bytes", len(p.message))
		}
		probe := &radiusProbe{expect: "accept"}
		text, fail := probe.judge(p)
		if res := fail.result(text); len(res.Detail) > 500 || strings.ContainsAny(res.Detail, "\n\x00\x1b") {
			t.Errorf("%q", res.Detail)
		}
	})
}
