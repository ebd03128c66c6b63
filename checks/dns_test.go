package checks

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// reply makes what a name server would answer.
func reply(t testing.TB, ask *dns.Msg, change func(m *dns.Msg), records ...string) []byte {
	t.Helper()
	m := new(dns.Msg)
	m.SetReply(ask)
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	if change != nil {
		change(m)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rcode(code int) func(*dns.Msg) { return func(m *dns.Msg) { m.Rcode = code } }

func TestDNSAnswers(t *testing.T) {
	type server = func(t *testing.T, ask *dns.Msg) []byte
	with := func(change func(*dns.Msg), records ...string) server {
		return func(t *testing.T, ask *dns.Msg) []byte { return reply(t, ask, change, records...) }
	}
	two := []string{"a.example. 60 IN A 10.0.0.2", "a.example. 60 IN A 10.0.0.1"}
	tests := []struct {
		name  string
		opts  DNSOptions
		serve server
		want  outcome
	}{
		{"any record", DNSOptions{}, with(nil, two...), outcome{true, "", "answered 10.0.0.1, 10.0.0.2"}},
		{"one of two", DNSOptions{Expect: []string{"10.0.0.1"}}, with(nil, two...), outcome{true, "", "answered 10.0.0.1, 10.0.0.2"}},
		{"both", DNSOptions{Expect: []string{"10.0.0.1", "10.0.0.2"}, Match: "exact"}, with(nil, two...), outcome{true, "", "answered 10.0.0.1, 10.0.0.2"}},
		{"behind an alias", DNSOptions{Expect: []string{"10.0.0.1"}, Match: "exact"}, with(nil, "a.example. 60 IN CNAME b.example.", "b.example. 60 IN A 10.0.0.1"), outcome{true, "", "answered 10.0.0.1"}},
		{"one too many", DNSOptions{Expect: []string{"10.0.0.1"}, Match: "exact"}, with(nil, two...), outcome{false, CauseAnswer, "answered 10.0.0.1, 10.0.0.2, wanted nothing besides 10.0.0.1"}},
		{"another one", DNSOptions{Expect: []string{"10.0.0.3"}}, with(nil, two...), outcome{false, CauseAnswer, "answered 10.0.0.1, 10.0.0.2, wanted 10.0.0.3"}},
		{"none", DNSOptions{}, with(nil), outcome{false, CauseAnswer, "the answer has no record of type A"}},
		{"SERVFAIL", DNSOptions{}, with(rcode(dns.RcodeServerFailure)), outcome{false, CauseAnswer, "answered SERVFAIL, wanted NOERROR"}},
		{"NXDOMAIN as it should be", DNSOptions{ExpectRcode: "NXDOMAIN"}, with(rcode(dns.RcodeNameError)), outcome{true, "", "answered NXDOMAIN"}},
		{"no such code", DNSOptions{}, with(rcode(13)), outcome{false, CauseAnswer, "answered response code 13, wanted NOERROR"}},
		{"without authority", DNSOptions{Authoritative: true}, with(nil, two...), outcome{false, CauseAnswer, "answered NOERROR, but not with authority"}},
		{"with authority", DNSOptions{Authoritative: true}, with(func(m *dns.Msg) { m.Authoritative = true }, two...), outcome{true, "", "answered 10.0.0.1, 10.0.0.2"}},
		{"cut off", DNSOptions{Expect: []string{"10.0.0.3"}}, with(func(m *dns.Msg) { m.Truncated = true }, two...), outcome{false, CauseAnswer, "the answer lacks 10.0.0.3, and is cut off; use transport: tcp"}},
		{"cut off, all of it", DNSOptions{}, with(func(m *dns.Msg) { m.Truncated = true }), outcome{false, CauseAnswer, "the answer is cut off; use transport: tcp"}},
		{"another question", DNSOptions{}, with(func(m *dns.Msg) { m.Question[0].Name = "b.example." }), outcome{false, CauseAnswer, "the answer repeats another question than the one that was asked"}},
		{"names have no case", DNSOptions{Record: "MX", Expect: []string{"10 Mail.Example."}}, with(nil, "a.example. 60 IN MX 10 mAIL.example."), outcome{true, "", "answered 10 mail.example."}},
		{"texts have", DNSOptions{Record: "TXT", Expect: []string{"v=spf1 -ALL"}}, with(nil, `a.example. 60 IN TXT "v=spf1 " "-all"`), outcome{false, CauseAnswer, `answered "v=spf1 -all", wanted "v=spf1 -ALL"`}},
		{"texts in parts", DNSOptions{Record: "TXT", Expect: []string{`"v=spf1 -a" "ll"`}}, with(nil, `a.example. 60 IN TXT "v=spf1 " "-all"`), outcome{true, "", `answered "v=spf1 -all"`}},
		{"not DNS", DNSOptions{}, func(*testing.T, *dns.Msg) []byte { return []byte("SSH-2.0-OpenSSH\r\n") }, outcome{false, CauseAnswer, "the answer is not DNS: "}},
		{"too short", DNSOptions{}, func(*testing.T, *dns.Msg) []byte { return []byte("no") }, outcome{false, CauseAnswer, "the answer is not DNS: "}},
		{"to nobody's question", DNSOptions{}, with(func(m *dns.Msg) { m.Id++ }), outcome{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Query = "a.example"
			for _, transport := range []string{"udp", "tcp"} {
				tt.opts.Transport = transport
				limit := probeLimit
				if tt.want == (outcome{}) {
					limit = shortLimit
				}
				res := probeOnce(t, &tt.opts, serveDNS(t, transport, tt.serve).withLimit(limit))
				switch {
				case tt.want == (outcome{}): // passed over, until time or the server ends it
					if res.OK || transport == "udp" && res.Cause != CauseTimeout {
						t.Errorf("%s: %+v", transport, res)
					}
				case strings.HasSuffix(tt.want.Detail, ": "):
					if res.OK || res.Cause != tt.want.Cause || !strings.HasPrefix(res.Detail, tt.want.Detail) {
						t.Errorf("%s: %+v, want %+v", transport, res, tt.want)
					}
				default:
					wantOutcome(t, res, tt.want)
				}
			}
		})
	}
}

type dnsTarget Target

func (d dnsTarget) withLimit(limit time.Duration) Target { d.Limit = limit; return Target(d) }

// serveDNS answers over one of the two transports.
func serveDNS(t *testing.T, transport string, f func(t *testing.T, ask *dns.Msg) []byte) dnsTarget {
	t.Helper()
	answer := func(b []byte) []byte {
		ask := new(dns.Msg)
		if err := ask.Unpack(b); err != nil {
			t.Errorf("the question: %v", err)
		}
		return f(t, ask)
	}
	if transport == "udp" {
		return dnsTarget(targetOf(serveUDP(t, "127.0.0.1:0", answer), 0))
	}
	return dnsTarget(targetOf(serve(t, "127.0.0.1:0", func(c net.Conn) {
		buf := make([]byte, 512)
		n, err := c.Read(buf)
		if err != nil || n < 2 || int(binary.BigEndian.Uint16(buf)) != n-2 {
			t.Errorf("the question over TCP: %d bytes, %v", n, err)
			return
		}
		b := answer(buf[2:n])
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)) // the probe may have seen enough
	}), 0))
}

func TestDNSAsks(t *testing.T) {
	for _, recursion := range []bool{true, false} {
		to := serveDNS(t, "udp", func(t *testing.T, ask *dns.Msg) []byte {
			if ask.RecursionDesired != recursion || ask.IsEdns0() == nil || ask.IsEdns0().UDPSize() != dnsUDPSize {
				t.Errorf("asked %s", ask)
			}
			return reply(t, ask, nil, "a.example. 60 IN AAAA fd00::1")
		})
		o := &DNSOptions{Query: "A.example.", Record: "AAAA", Expect: []string{"FD00:0::1"}, NoRecursion: !recursion}
		wantOutcome(t, probeOnce(t, o, to.withLimit(probeLimit)), outcome{true, "", "answered fd00::1"})
	}
}

func TestRecordList(t *testing.T) {
	for _, tt := range []struct {
		in   []string
		want string
	}{
		{[]string{"a", "b", "c", "d"}, "a, b, c, d"},
		{[]string{"a", "b", "c", "d", "e", "f"}, "a, b, c, d and 2 more"},
		{[]string{strings.Repeat("x", 99)}, strings.Repeat("x", 77) + "…"},
	} {
		if d := cmp.Diff(tt.want, recordList(tt.in)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

func FuzzDNSAnswer(f *testing.F) {
	ask := new(dns.Msg)
	ask.SetQuestion("a.example.", dns.TypeTXT)
	f.Add(reply(f, ask, nil, `a.example. 60 IN TXT "x" "\000\255"`), "x", true)
	f.Add(reply(f, ask, rcode(dns.RcodeRefused)), "", false)
	f.Add(reply(f, ask, func(m *dns.Msg) { m.Truncated = true; m.Question = nil }), "", false)
	f.Add([]byte{0, 0, 0x80, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0xc0, 12}, "x", false)
	f.Fuzz(func(t *testing.T, b []byte, want string, exact bool) {
		m := new(dns.Msg)
		if m.Unpack(b) != nil {
			return
		}
		p := &dnsProbe{query: "a.example.", record: dns.TypeTXT, exact: exact && want != ""}
		if w, err := wantedRecord(dns.TypeTXT, want); err == nil && want != "" {
			p.want = []string{w}
		}
		good, fail := p.judge(m)
		if res := fail.result(good); len(res.Detail) > 1000 || strings.ContainsAny(res.Detail, "\n\x00\x1b") {
			t.Errorf("%q", res.Detail)
		}
	})
}
