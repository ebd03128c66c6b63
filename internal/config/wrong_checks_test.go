package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wrongChecks are checks in place of the one named web, and all that must be
// said of them. The schema refuses those that it can know to be wrong.
var wrongChecks = []struct {
	check  string
	want   []string
	schema bool
}{
	{
		check: "{type: udp, match: prefix, silence: sure}",
		want: []string{
			"rhid.yaml:10:8: checks.web.send: is missing: a udp check sends something; use send or send_hex",
			`rhid.yaml:10:27: checks.web.match: needs expect or expect_hex`,
			`rhid.yaml:10:44: checks.web.silence: "sure" is not one of fail, ok`,
		},
		schema: true,
	},
	{
		check: "{type: grpc, service: a b, ca_file: /etc/rhid/ca.pem}",
		want: []string{
			`rhid.yaml:10:30: checks.web.service: "a b" is not the name of a gRPC service`,
			"rhid.yaml:10:44: checks.web.ca_file: has no effect without tls: true",
		},
	},
	{
		check: "{type: grpc, tls: true, cert_file: /etc/rhid/x.pem, authority: a/b}",
		want: []string{
			"rhid.yaml:10:8: checks.web.key_file: is missing: a client certificate needs cert_file and key_file",
			`rhid.yaml:10:71: checks.web.authority: "a/b" is not a host name or host:port`,
		},
	},
	{
		check: "{type: iso8583, header: ascii3, tpdu: 60, code: 1, fields: {\"11\": x, \"24\": \"001\"}, formats: {\"63\": z..9}}",
		want: []string{
			`rhid.yaml:10:32: checks.web.header: "ascii3" is not one of binary2, ascii4, bcd2, none; did you mean "ascii4"?`,
			`rhid.yaml:10:46: checks.web.tpdu: "60" is not ten hexadecimal digits`,
			`rhid.yaml:10:56: checks.web.code: "1" is neither three digits nor none`,
			`rhid.yaml:10:67: checks.web.fields: "11" is set anew at each probe; leave it out`,
			`rhid.yaml:10:100: checks.web.formats: "63": "z..9" is not a format such as n6, an..25, ans...999 or b8`,
		},
		schema: true,
	},
	{
		check: "{type: iso8583, fields: {\"24\": \"1\"}}",
		want: []string{
			`rhid.yaml:10:32: checks.web.fields: cannot be written: failed to pack field 24 (n3): failed to encode length: field length: 1 should be fixed: 3`,
		},
	},
	{
		check: "{type: postgres, server_name: db, database: 7}",
		want: []string{
			`rhid.yaml:10:38: checks.web.server_name: has no effect without tls: true`,
		},
	},
	{
		check: "{type: mysql, database: atm, tls: true, skip_verify: true, ca_file: /etc/rhid/ca.pem}",
		want: []string{
			`rhid.yaml:10:22: checks.web.database: unknown key`,
			`rhid.yaml:10:76: checks.web.ca_file: has no effect with skip_verify; leave one of them out`,
		},
		schema: true,
	},
	{
		check: "{type: ldap, tls: tls, bind_dn: \"cn=rhid,dc=bank\", base: bank}",
		want: []string{
			`rhid.yaml:10:26: checks.web.tls: "tls" is not one of none, starttls, ldaps`,
			`rhid.yaml:10:40: checks.web.bind_dn: needs password or password_file: a bind without one proves nothing (RFC 4513, 5.1.2)`,
			`rhid.yaml:10:65: checks.web.base: "bank" is not a distinguished name: DN ended with incomplete type, value pair`,
		},
		schema: true,
	},
	{
		check: "{type: ldap, bind_dn: cn=rhid, password: s3cret, password_file: /etc/rhid/x}",
		want: []string{
			`rhid.yaml:10:72: checks.web.password_file: cannot stand together with password; use one of them`,
		},
	},
	{
		check: "{type: file}",
		want: []string{
			`rhid.yaml:10:8: checks.web.path: is required`,
			`rhid.yaml:16:12: services[0] "atm": check: does not look at the servers: it has an address of its own, or needs no target; take the address out, or leave servers out`,
		},
		schema: true,
	},
	{
		check: "{type: process, min: 2}",
		want: []string{
			`rhid.yaml:10:8: checks.web.name: is missing: a process check needs name or pid_file`,
			`rhid.yaml:16:12: services[0] "atm": check: does not look at the servers: it has an address of its own, or needs no target; take the address out, or leave servers out`,
		},
	},
	{
		check: "{type: unit, unit: haproxy}",
		want: []string{
			`rhid.yaml:10:27: checks.web.unit: "haproxy" is not the name of a unit, such as haproxy.service`,
			`rhid.yaml:16:12: services[0] "atm": check: does not look at the servers: it has an address of its own, or needs no target; take the address out, or leave servers out`,
		},
	},
	{
		check:  "{type: grpc, tls: maybe}",
		want:   []string{`rhid.yaml:10:26: checks.web.tls: must be true or false, not "maybe"`},
		schema: true,
	},
	{
		check: "{type: tls, warn_days: 10, fail_days: 10}",
		want:  []string{"rhid.yaml:10:46: checks.web.fail_days: 10 must be below warn_days 10, or nobody is warned"},
	},
	{
		check:  "{type: tls, warn_days: -2}",
		want:   []string{"rhid.yaml:10:31: checks.web.warn_days: must be at least -1, not -2"},
		schema: true,
	},
	{
		check: "{type: held, keepalive: 1500ms, server_name: a.example}",
		want: []string{
			"rhid.yaml:10:32: checks.web.keepalive: 1.5s is not whole seconds, 1s to 1h",
			"rhid.yaml:10:53: checks.web.server_name: has no effect without tls: true",
		},
	},
	{
		check: `{type: dns, query: a..b, record: AAAA, expect: [10.0.0.1], match: exact}`,
		want: []string{
			`rhid.yaml:10:27: checks.web.query: "a..b" is not a domain name`,
			`rhid.yaml:10:55: checks.web.expect: "10.0.0.1" is not a record of type AAAA`,
		},
	},
	{
		check: "{type: radius, secret: s3cret, secret_file: /etc/rhid/radius.secret, user: probe, expect: maybe}",
		want: []string{
			"rhid.yaml:10:52: checks.web.secret_file: cannot stand together with secret; use one of them",
			`rhid.yaml:10:98: checks.web.expect: "maybe" is not one of accept, reject, any`,
		},
		schema: true,
	},
	{
		check: "{type: radius, request: status, user: probe}",
		want: []string{
			"rhid.yaml:10:8: checks.web.secret: is missing; use secret or secret_file",
			"rhid.yaml:10:46: checks.web.user: has no effect with request: status",
		},
	},
	{
		check: `{type: ftp, user: "a\nDELE x", tls: implicit}`,
		want: []string{
			`rhid.yaml:10:26: checks.web.user: has characters that no command can have`,
			`rhid.yaml:10:44: checks.web.tls: "implicit" is not one of none, explicit; did you mean "explicit"?`,
		},
		schema: true,
	},
	{
		check: "{type: smtp, server_name: mail.example}",
		want:  []string{"rhid.yaml:10:34: checks.web.server_name: has no effect without tls: starttls or implicit"},
	},
	{
		check: "{type: dns, transport: https}",
		want: []string{
			"rhid.yaml:10:8: checks.web.query: is required",
			`rhid.yaml:10:31: checks.web.transport: "https" is not one of udp, tcp`,
		},
		schema: true,
	},
	{
		check: "{type: held, resolve: all}",
		want:  []string{"rhid.yaml:10:30: checks.web.resolve: all cannot be for type held, which holds one connection"},
	},
}

func TestWrongChecks(t *testing.T) {
	schema := compileSchema(t)
	for _, tt := range wrongChecks {
		t.Run(tt.check, func(t *testing.T) {
			text := apply(t, []edit{{"{type: http, interval: 1s}", tt.check}})
			_, err := Parse("rhid.yaml", []byte(text), noFiles)
			var errs Errors
			if !errors.As(err, &errs) {
				t.Fatalf("error is %v, want Errors", err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(errs.Error(), "\n")); diff != "" {
				t.Errorf("errors differ (-want +got):\n%s", diff)
			}
			if refused := schema.Validate(anyValue(t, []byte(text))) != nil; refused != tt.schema {
				t.Errorf("the schema refuses it: %t, want %t", refused, tt.schema)
			}
		})
	}
}
