package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const (
	dnsUDPSize = 1232 // bytes of an answer that pass every network unfragmented (DNS flag day 2020)
	dnsStrays  = 16   // answers to something else that one probe passes over
	dnsNames   = 4    // answers that a sentence lists
)

// DNSOptions are the settings of a dns check.
type DNSOptions struct {
	Query         string   `yaml:"query" required:"true" doc:"the name to ask for"`
	Record        string   `yaml:"record" default:"A" enum:"A,AAAA,CNAME,MX,NS,PTR,SOA,SRV,TXT" doc:"type of the records to ask for"`
	Expect        []string `yaml:"expect" doc:"records that must be in the answer, written as in a zone file without name and type; without any, one record of the type will do"`
	Match         string   `yaml:"match" default:"contains" enum:"contains,exact" doc:"whether further records may be in the answer"`
	ExpectRcode   string   `yaml:"expect_rcode" default:"NOERROR" enum:"NOERROR,NXDOMAIN,REFUSED" doc:"response code that is wanted; with one other than NOERROR no record is"`
	Transport     string   `yaml:"transport" default:"udp" enum:"udp,tcp" doc:"how to ask"`
	Authoritative bool     `yaml:"authoritative" doc:"the answer must be authoritative (AA)"`
	NoRecursion   bool     `yaml:"no_recursion" doc:"ask without recursion, as for a zone of the server's own"`
}

// NeedsTarget implements Options.
func (*DNSOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *DNSOptions) Problems() []Problem {
	var ps []Problem
	add := func(key, format string, args ...any) { ps = append(ps, Problem{key, fmt.Sprintf(format, args...)}) }
	if o.Query == "" {
		add("query", "is missing: the name to ask for")
	} else if _, ok := dns.IsDomainName(o.Query); !ok {
		add("query", "%q is not a domain name", o.Query)
	}
	record, known := dnsRecords[orDefault(o.Record, "A")]
	if !known {
		add("record", "%q is not a type of record that can be asked for", o.Record)
	}
	rcode, known := dnsRcodes[orDefault(o.ExpectRcode, "NOERROR")]
	if !known {
		add("expect_rcode", "%q is not NOERROR, NXDOMAIN or REFUSED", o.ExpectRcode)
	}
	if !slices.Contains([]string{"", "udp", "tcp"}, o.Transport) {
		add("transport", "%q is neither udp nor tcp", o.Transport)
	}
	switch {
	case !slices.Contains([]string{"", "contains", "exact"}, o.Match):
		add("match", "%q is neither contains nor exact", o.Match)
	case o.Match == "exact" && len(o.Expect) == 0:
		add("match", "needs expect")
	case len(o.Expect) > 0 && rcode != dns.RcodeSuccess:
		add("expect", "cannot be met: with expect_rcode %s there are no records", o.ExpectRcode)
	}
	for _, text := range o.Expect {
		if _, err := wantedRecord(record, text); record != 0 && err != nil {
			add("expect", "%q is not a record of type %s", text, dns.TypeToString[record])
		}
	}
	return ps
}

var dnsRecords = map[string]uint16{
	"A": dns.TypeA, "AAAA": dns.TypeAAAA, "CNAME": dns.TypeCNAME, "MX": dns.TypeMX, "NS": dns.TypeNS,
	"PTR": dns.TypePTR, "SOA": dns.TypeSOA, "SRV": dns.TypeSRV, "TXT": dns.TypeTXT,
}

var dnsRcodes = map[string]int{"NOERROR": dns.RcodeSuccess, "NXDOMAIN": dns.RcodeNameError, "REFUSED": dns.RcodeRefused}

// wantedRecord brings a record as people write it to the form in which answers
// are compared.
func wantedRecord(record uint16, text string) (string, error) {
	if strings.ContainsAny(text, "\r\n") {
		return "", errors.New("has a line end")
	}
	if record == dns.TypeTXT && !strings.HasPrefix(text, `"`) {
		text = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
	}
	rr, err := dns.NewRR(". 0 IN " + dns.TypeToString[record] + " " + text)
	if err != nil || rr == nil {
		return "", errors.New("is not a record")
	}
	return recordText(rr), nil
}

// recordText is a record without name, class and lifetime. Names in it have no
// case (RFC 4343); texts do.
func recordText(rr dns.RR) string {
	if txt, ok := rr.(*dns.TXT); ok {
		return fmt.Sprintf("%q", strings.Join(txt.Txt, ""))
	}
	return strings.ToLower(strings.TrimPrefix(rr.String(), rr.Header().String()))
}

// dnsProbe is a dns check of one target.
type dnsProbe struct {
	*aim
	query         string // with its last dot
	record        uint16
	want          []string // as recordText has them
	exact         bool
	rcode         int
	overTCP       bool
	authoritative bool
	recursion     bool
}

// Prober implements Options.
func (o *DNSOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("dns check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("dns check: %w", err)
	}
	p := &dnsProbe{
		aim: a, query: dns.Fqdn(o.Query), record: dnsRecords[orDefault(o.Record, "A")],
		exact: o.Match == "exact", rcode: dnsRcodes[orDefault(o.ExpectRcode, "NOERROR")],
		overTCP: o.Transport == "tcp", authoritative: o.Authoritative, recursion: !o.NoRecursion,
	}
	for _, text := range o.Expect {
		w, err := wantedRecord(p.record, text)
		if err != nil {
			return nil, fmt.Errorf("dns check: expect: %w", err)
		}
		p.want = append(p.want, w)
	}
	return timed(p.probe), nil
}

func (p *dnsProbe) probe(ctx context.Context) Result {
	addr, f := p.resolve(ctx)
	if f != nil {
		return f.result("")
	}
	conn, f := p.dial(ctx, netip.AddrPortFrom(addr, p.port))
	if f != nil {
		return f.result("")
	}
	defer conn.Close()
	defer bind(ctx, conn)()
	ask := new(dns.Msg)
	ask.SetQuestion(p.query, p.record)
	ask.RecursionDesired = p.recursion
	ask.SetEdns0(dnsUDPSize, false)
	answer, f := p.exchange(ctx, &dns.Conn{Conn: conn, UDPSize: dnsUDPSize}, ask)
	if f != nil {
		return f.result("")
	}
	good, f := p.judge(answer)
	return f.result(good)
}

func (p *dnsProbe) dial(ctx context.Context, to netip.AddrPort) (net.Conn, *failure) {
	if p.overTCP {
		return p.dialAddr(ctx, to)
	}
	conn, f := p.dialUDP(ctx, to)
	if f != nil {
		return nil, f
	}
	return conn, nil
}

// exchange asks, and waits for the answer that belongs to the question.
func (p *dnsProbe) exchange(ctx context.Context, conn *dns.Conn, ask *dns.Msg) (*dns.Msg, *failure) {
	if err := conn.WriteMsg(ask); err != nil {
		return nil, p.lost(ctx, err)
	}
	for range dnsStrays {
		answer, err := conn.ReadMsg()
		var ne net.Error
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, &failure{CauseAnswer, "the target closed the connection without a whole answer"}
		case errors.As(err, &ne):
			return nil, p.lost(ctx, err)
		case err != nil:
			return nil, failf(CauseAnswer, "the answer is not DNS: %s", cut(err.Error(), 120))
		case answer.Id == ask.Id && answer.Response:
			return answer, nil
		}
	}
	return nil, failf(CauseAnswer, "%d answers came, none of them to the question", dnsStrays)
}

// lost explains a question that was not answered.
func (p *dnsProbe) lost(ctx context.Context, err error) *failure {
	if p.overTCP {
		return netFailure(ctx, err, "connected, but no answer within "+p.limitText())
	}
	return p.udpFailure(ctx, err)
}

// judge looks at an answer, and returns the sentence of success.
func (p *dnsProbe) judge(m *dns.Msg) (string, *failure) {
	if m.Rcode != p.rcode {
		return "", failf(CauseAnswer, "answered %s, wanted %s", rcodeText(m.Rcode), rcodeText(p.rcode))
	}
	if len(m.Question) != 1 || m.Question[0].Qtype != p.record || !strings.EqualFold(m.Question[0].Name, p.query) {
		return "", &failure{CauseAnswer, "the answer repeats another question than the one that was asked"}
	}
	if p.authoritative && !m.Authoritative {
		return "", failf(CauseAnswer, "answered %s, but not with authority", rcodeText(m.Rcode))
	}
	if p.rcode != dns.RcodeSuccess {
		return "answered " + rcodeText(m.Rcode), nil
	}
	var got []string
	for _, rr := range m.Answer {
		if rr.Header().Rrtype == p.record {
			got = append(got, recordText(rr))
		}
	}
	slices.Sort(got)
	if f := p.judgeRecords(got, m.Truncated); f != nil {
		return "", f
	}
	return "answered " + recordList(got), nil
}

// judgeRecords compares the records of the type asked for, sorted, with those
// wanted.
func (p *dnsProbe) judgeRecords(got []string, truncated bool) *failure {
	kind := dns.TypeToString[p.record]
	if len(got) == 0 && !truncated {
		return failf(CauseAnswer, "the answer has no record of type %s", kind)
	}
	for _, w := range p.want {
		switch {
		case slices.Contains(got, w):
		case truncated:
			return failf(CauseAnswer, "the answer lacks %s, and is cut off; use transport: tcp", cut(w, 120))
		default:
			return failf(CauseAnswer, "answered %s, wanted %s", recordList(got), cut(w, 120))
		}
	}
	switch {
	case truncated && (p.exact || len(got) == 0):
		return &failure{CauseAnswer, "the answer is cut off; use transport: tcp"}
	case !p.exact:
		return nil
	}
	for _, g := range got {
		if !slices.Contains(p.want, g) {
			return failf(CauseAnswer, "answered %s, wanted nothing besides %s", recordList(got), recordList(p.want))
		}
	}
	return nil
}

// recordList names some records for a sentence.
func recordList(records []string) string {
	var b strings.Builder
	for i, r := range records[:min(len(records), dnsNames)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(cut(r, 80))
	}
	if more := len(records) - dnsNames; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return oneLine([]byte(b.String()), 400)
}

func rcodeText(code int) string {
	if s, ok := dns.RcodeToString[code]; ok {
		return s
	}
	return fmt.Sprintf("response code %d", code)
}
