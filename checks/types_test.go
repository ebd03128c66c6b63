package checks

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Every option needs what the configuration, its schema and the manual are
// made from, and must not hide a key that all checks have.
func TestTypesAreDescribed(t *testing.T) {
	common := "type interval fast_interval timeout fall rise address source allow_vip"
	plain := map[reflect.Type]bool{
		reflect.TypeFor[string](): true, reflect.TypeFor[bool](): true, reflect.TypeFor[int](): true,
		reflect.TypeFor[time.Duration](): true, reflect.TypeFor[[]string](): true, reflect.TypeFor[map[string]string](): true,
	}
	names := map[string]bool{}
	for _, typ := range Types() {
		if typ.Doc == "" || names[typ.Name] {
			t.Errorf("type %s has no description or is there twice", typ.Name)
		}
		names[typ.Name] = true
		rt := reflect.TypeOf(typ.New()).Elem()
		for i := range rt.NumField() {
			f := rt.Field(i)
			key := f.Tag.Get("yaml")
			if key == "" || f.Tag.Get("doc") == "" || !plain[f.Type] {
				t.Errorf("%s.%s lacks a yaml or doc tag, or is of type %s", rt.Name(), f.Name, f.Type)
			}
			if strings.Contains(" "+common+" ", " "+key+" ") {
				t.Errorf("%s: key %s means something else in every check", typ.Name, key)
			}
		}
	}
	for _, want := range []string{"tcp", "http", "https", "icmp", "exec", "interface", "route", "load", "bfd"} {
		if !names[want] {
			t.Errorf("type %s is missing", want)
		}
	}
}

func TestNeedsTarget(t *testing.T) {
	got := map[string]TargetKind{}
	for _, typ := range Types() {
		got[typ.Name] = typ.New().NeedsTarget()
	}
	want := map[string]TargetKind{
		"tcp": TargetPort, "http": TargetPort, "https": TargetPort, "icmp": TargetHost, "exec": TargetMaybe,
		"udp":       TargetPort,
		"interface": TargetNone, "route": TargetNone, "load": TargetNone, "bfd": TargetNone,
		"grpc": TargetPort, "iso8583": TargetPort, "ldap": TargetPort, "file": TargetNone, "process": TargetNone, "unit": TargetNone, "postgres": TargetPort, "mysql": TargetPort,
		"haproxy": TargetPort, "haproxy-rate": TargetPort, "report": TargetNone, "tcp-diag": TargetPort, "capture": TargetPort,
		"held": TargetPort, "tls": TargetPort,
		"dns": TargetPort, "radius": TargetPort, "smtp": TargetPort, "ftp": TargetPort,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestZeroOptionsHaveNoProblems(t *testing.T) {
	for _, typ := range Types() {
		o := typ.New()
		switch o := o.(type) { // what has no default
		case *ExecOptions:
			o.Command = []string{"true"}
		case *UDPOptions:
			o.Send = "x"
		case *DNSOptions:
			o.Query = "a.example"
		case *RADIUSOptions:
			o.Secret, o.User = "x", "x"
		case *FileOptions:
			o.Path = "/x"
		case *ProcessOptions:
			o.Name = "x"
		case *UnitOptions:
			o.Unit = "x.service"
		case *InterfaceOptions:
			o.Device = "eth0"
		case *RouteOptions:
			o.Prefix = "10.0.0.0/8"
		case *BFDOptions:
			o.Router = "tor-1"
		case *HAProxyOptions:
			o.Backend = "app"
		case *CaptureOptions:
			o.Device = "eth0"
		case *HAProxyRateOptions:
			o.Backend = "app"
		}
		if ps := o.Problems(); len(ps) > 0 {
			t.Errorf("%s: %+v", typ.Name, ps)
		}
	}
}

func TestProblems(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		want []string // key: beginning of the message
	}{
		{"tcp both sends", &TCPOptions{Send: "x", SendHex: "00"}, []string{"send_hex: cannot stand together with send"}},
		{"tcp both expects", &TCPOptions{Expect: "x", ExpectHex: "00"}, []string{"expect_hex: cannot stand together with expect"}},
		{"tcp bad hex", &TCPOptions{SendHex: "0g", ExpectHex: "123"}, []string{"send_hex: must be pairs", "expect_hex: must be pairs"}},
		{"tcp too much expected", &TCPOptions{Expect: strings.Repeat("x", 65537)}, []string{"expect: is longer than the 65536 bytes"}},
		{"tcp prefix of nothing", &TCPOptions{Match: "prefix"}, []string{"match: needs expect"}},
		{"tcp unknown match", &TCPOptions{Match: "suffix"}, []string{`match: "suffix" is neither`}},
		{"http method", &HTTPOptions{Method: "get"}, []string{`method: "get" is not a request method`}},
		{"http method with blank", &HTTPOptions{Method: "GET /"}, []string{`method: "GET /" is not`}},
		{"http path", &HTTPOptions{Path: "health"}, []string{`path: "health" must begin with /`}},
		{"http path with blank", &HTTPOptions{Path: "/a b"}, []string{`path: "/a b" must`}},
		{"http path is a URL", &HTTPOptions{Path: "http://x/"}, []string{"path: "}},
		{"http host", &HTTPOptions{Host: "http://x"}, []string{`host: "http://x" is not`}},
		{"http header name", &HTTPOptions{Headers: map[string]string{"a b": "x"}}, []string{`headers: "a b" is not a header name`}},
		{"http header value", &HTTPOptions{Headers: map[string]string{"a": "x\r\ny: z"}}, []string{`headers: "a" has a value`}},
		{"http header host", &HTTPOptions{Headers: map[string]string{"Host": "x"}}, []string{`headers: "Host" is set with host`}},
		{"http header connection", &HTTPOptions{Headers: map[string]string{"connection": "x"}}, []string{`headers: "connection" is rhid's own`}},
		{"http status", &HTTPOptions{ExpectStatus: []string{"200", "2xx"}}, []string{`expect_status: "2xx" is neither`}},
		{"http status backwards", &HTTPOptions{ExpectStatus: []string{"299-200"}}, []string{`expect_status: "299-200"`}},
		{"http body", &HTTPOptions{ExpectBody: "("}, []string{"expect_body: is not a regular expression"}},
		{"http body of HEAD", &HTTPOptions{Method: "HEAD", ExpectBody: "x"}, []string{"expect_body: cannot be met"}},
		{"https key alone", &HTTPSOptions{KeyFile: "k"}, []string{"cert_file: is missing"}},
		{"https cert alone", &HTTPSOptions{CertFile: "c"}, []string{"key_file: is missing"}},
		{"https CA of no use", &HTTPSOptions{CAFile: "c", SkipVerify: true}, []string{"ca_file: has no effect"}},
		{"https name with port", &HTTPSOptions{ServerName: "a:443"}, []string{`server_name: "a:443" is not a name`}},
		{"https has those of http", &HTTPSOptions{Path: "x"}, []string{"path: "}},
		{"icmp all wrong", &ICMPOptions{Count: 101, Spacing: time.Microsecond, MaxLoss: 100, MaxRTT: -1},
			[]string{"count: 101 is not between", "spacing: 1µs is shorter", "max_loss: 100 is not", "max_rtt: -1ns is negative"}},
		{"udp nothing", &UDPOptions{}, []string{"send: is missing"}},
		{"udp both", &UDPOptions{Send: "x", SendHex: "00", Expect: "x", ExpectHex: "00"}, []string{"send_hex: cannot stand", "expect_hex: cannot stand"}},
		{"udp too much", &UDPOptions{Send: strings.Repeat("x", 65508), Expect: strings.Repeat("x", 8193)}, []string{"send: is longer than the 65507 bytes", "expect: is longer than the 8192 bytes"}},
		{"udp silence expected", &UDPOptions{Send: "x", Expect: "x", Silence: "ok"}, []string{"silence: cannot be ok"}},
		{"udp unknown silence", &UDPOptions{Send: "x", Silence: "golden"}, []string{`silence: "golden" is neither`}},
		{"held keepalive", &HeldOptions{Keepalive: 1500 * time.Millisecond}, []string{"keepalive: 1.5s is not whole seconds"}},
		{"held without TLS", &HeldOptions{CAFile: "c", CertFile: "c", KeyFile: "k", ServerName: "a", SkipVerify: true},
			[]string{"ca_file: has no effect without tls", "cert_file: has", "key_file: has", "server_name: has", "skip_verify: has"}},
		{"held TLS", &HeldOptions{TLS: true, CertFile: "c"}, []string{"key_file: is missing"}},
		{"tls days", &TLSOptions{WarnDays: 7, FailDays: 7}, []string{"fail_days: 7 must be below warn_days 7"}},
		{"tls has those of all", &TLSOptions{SkipVerify: true, CAFile: "c"}, []string{"ca_file: has no effect"}},
		{"smtp all wrong", &SMTPOptions{Helo: "a b", TLS: "maybe"}, []string{`helo: "a b" is not a name`, `tls: "maybe" is not`}},
		{"smtp without TLS", &SMTPOptions{CAFile: "c"}, []string{"ca_file: has no effect without tls: starttls or implicit"}},
		{"ftp all wrong", &FTPOptions{User: "a\r\nDELE x", Password: "p", PasswordFile: "f", File: "a\n", TLS: "implicit"},
			[]string{"password_file: cannot stand", "user: has characters", "file: has characters", `tls: "implicit" is neither`}},
		{"ftp without TLS", &FTPOptions{ServerName: "a"}, []string{"server_name: has no effect without tls: explicit"}},
		{"radius nothing", &RADIUSOptions{}, []string{"secret: is missing", "user: is missing"}},
		{"radius all wrong", &RADIUSOptions{Request: "acct", Secret: "s", SecretFile: "f", Password: "p", PasswordFile: "f", Auth: "eap", Expect: "nothing", NASID: strings.Repeat("x", 254)},
			[]string{`request: "acct" is neither`, "secret_file: cannot stand", "password_file: cannot stand", `auth: "eap" is neither`, `expect: "nothing" is not`, "nas_identifier: has 254 bytes"}},
		{"radius status", &RADIUSOptions{Request: "status", Secret: "s", User: "u", Password: "p", Expect: "reject"},
			[]string{"user: has no effect", "password: has no effect", "expect: cannot be reject"}},
		{"radius long password", &RADIUSOptions{Secret: "s", User: "u", Password: strings.Repeat("x", 129)}, []string{"password: is longer than the 128 bytes"}},
		{"dns nothing", &DNSOptions{}, []string{"query: is missing"}},
		{"dns all wrong", &DNSOptions{Query: "a..b", Record: "ANY", ExpectRcode: "FINE", Transport: "doh", Match: "prefix"},
			[]string{`query: "a..b" is not`, `record: "ANY" is not`, `expect_rcode: "FINE" is not`, `transport: "doh" is neither`, `match: "prefix" is neither`}},
		{"dns records", &DNSOptions{Query: "a.example", Expect: []string{"10.0.0.1", "fd00::1", "10.0.0.1\n$INCLUDE /etc/passwd", "10.0.0.1 x"}},
			[]string{`expect: "fd00::1" is not a record of type A`, `expect: "10.0.0.1\n$INCLUDE`, `expect: "10.0.0.1 x" is not`}},
		{"dns no record", &DNSOptions{Query: "a.example", ExpectRcode: "NXDOMAIN", Expect: []string{"10.0.0.1"}}, []string{"expect: cannot be met"}},
		{"dns exactly nothing", &DNSOptions{Query: "a.example", Match: "exact"}, []string{"match: needs expect"}},
		{"exec nothing", &ExecOptions{}, []string{"command: is missing"}},
		{"exec shell list", &ExecOptions{Command: []string{"a", "b"}, Shell: true}, []string{"command: must be one element"}},
		{"exec line without shell", &ExecOptions{Command: []string{"test -f /x"}}, []string{`command: "test -f /x" is one word`}},
		{"exec NUL", &ExecOptions{Command: []string{"a", "\x00"}}, []string{"command: cannot contain"}},
		{"exec env", &ExecOptions{Command: []string{"a"}, Env: map[string]string{"A=B": "x"}}, []string{`env: "A=B" cannot`}},
		{"bfd nothing", &BFDOptions{}, []string{"router: is missing"}},
		{"interface nothing", &InterfaceOptions{}, []string{"device: is missing"}},
		{"interface wrong", &InterfaceOptions{Device: "a/b", Addresses: []string{"10.1.0.256", "fe80::1%eth0"}},
			[]string{`device: "a/b" is not the name`, `addresses: "10.1.0.256" is neither`, `addresses: "fe80::1%eth0" is neither`}},
		{"interface name too long", &InterfaceOptions{Device: "sixteencharacter"}, []string{`device: "sixteencharacter" is not`}},
		{"route nothing", &RouteOptions{}, []string{"prefix: is missing"}},
		{"route no prefix", &RouteOptions{Prefix: "10.0.0.0"}, []string{`prefix: "10.0.0.0" is not a prefix`}},
		{"route bits", &RouteOptions{Prefix: "10.0.0.1/8"}, []string{"prefix: 10.0.0.1/8 has bits behind its length; write 10.0.0.0/8"}},
		{"route wrong", &RouteOptions{Prefix: "::/0", Via: []string{"x"}, Device: "a b", Table: -1, Protocol: 256},
			[]string{`via: "x" is not`, `device: "a b" is not`, "table: -1 is not", "protocol: 256 is not"}},
		{"load all wrong", &LoadOptions{CPU: 101, Memory: -1, Files: 200, Conntrack: -5},
			[]string{"cpu: 101 is not", "memory: -1 is not", "files: 200 is not", "conntrack: -5 is not"}},
		{"exec warning", &ExecOptions{Command: []string{"a"}, WarningIs: "maybe"}, []string{`warning_is: "maybe" is neither`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantProblems(t, tt.opts, tt.want...) })
	}
}

// wantProblems compares problems with the beginnings of "key: message".
func wantProblems(t *testing.T, o Options, want ...string) {
	t.Helper()
	got := o.Problems()
	if len(got) != len(want) {
		t.Fatalf("%+v, want %q", got, want)
	}
	for i, p := range got {
		if s := p.Key + ": " + p.Msg; !strings.HasPrefix(s, want[i]) {
			t.Errorf("%q, want %q", s, want[i])
		}
	}
}
