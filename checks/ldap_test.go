package checks

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestLDAPProblems(t *testing.T) {
	wantProblems(t, &LDAPOptions{TLS: "starttls", CAFile: "c", BindDN: "cn=rhid,dc=bank", PasswordFile: "p", Base: "dc=bank", Filter: "(&(uid=a)(cn=b))"})
	wantProblems(t, &LDAPOptions{BindDN: "rhid@bank.example", Password: "x"})
	wantProblems(t, &LDAPOptions{TLS: "ssl"}, `tls: "ssl" is none of none, starttls, ldaps`)
	wantProblems(t, &LDAPOptions{CAFile: "c"}, "ca_file: has no effect without tls: starttls or ldaps")
	wantProblems(t, &LDAPOptions{TLS: "ldaps", KeyFile: "k"}, "cert_file: is missing")
	wantProblems(t, &LDAPOptions{BindDN: "cn=x"}, "bind_dn: needs password or password_file")
	wantProblems(t, &LDAPOptions{Password: "s3cret", PasswordFile: "p"}, "password_file: cannot stand together with password", "bind_dn: is missing")
	wantProblems(t, &LDAPOptions{BindDN: "cn=x,", Password: "s3cret", Base: "bank", Filter: "uid=a)"},
		`bind_dn: "cn=x,"`, `base: "bank" is not a distinguished name`, `filter: "uid=a)" is not a filter`)
}

// The library's own words for a refusal that a real server seldom gives.
const (
	ldapBusy   = "\x30\x0c\x02\x01\x01\x65\x07\x0a\x01\x33\x04\x00\x04\x00"
	ldapTLSOK  = "\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00"
	ldapTLSNo  = "\x30\x84\x00\x00\x00\x10\x02\x01\x01\x78\x84\x00\x00\x00\x07\x0a\x01\x34\x04\x00\x04\x00" // lengths as Active Directory writes them
	ldapNoBind = "\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x31\x04\x00\x04\x00"
)

func TestLDAPAnswers(t *testing.T) {
	rootDSE, start := &LDAPOptions{}, &LDAPOptions{TLS: "starttls"}
	tests := []struct {
		name  string
		opts  *LDAPOptions
		limit time.Duration
		says  string
		want  outcome
	}{
		{"busy", rootDSE, probeLimit, ldapBusy, outcome{false, CauseAnswer, "the server refused the search for the root DSE: busy (51)"}},
		{"no entry", rootDSE, probeLimit, strings.Replace(ldapBusy, "\x33", "\x00", 1), outcome{false, CauseAnswer, "the server shows no entry for the root DSE with (objectClass=*)"}},
		{"wrong password", &LDAPOptions{BindDN: "cn=x", Password: "s3cret"}, probeLimit, ldapNoBind, outcome{false, CauseAnswer, "the server refused the bind: invalid credentials (49)"}},
		{"nothing", rootDSE, shortLimit, "", outcome{false, CauseTimeout, "connected, but no answer to the search for the root DSE within 300ms"}},
		{"another protocol", rootDSE, probeLimit, "220 mail ESMTP\r\n", outcome{false, CauseAnswer, `the target does not speak LDAP: answered "220 mail ESMTP\r\n"`}},
		{"not what was asked", rootDSE, partLimit, "\x30\x03\x02\x01\x07", outcome{false, CauseAnswer, "no whole answer to the search for the root DSE within 1s"}},
		{"endless", rootDSE, probeLimit, "\x30\x84\x7f\xff\xff\xff" + strings.Repeat("\x04\x00", ldapBytesLimit), outcome{false, CauseAnswer, "the target sends more than 65536 bytes in answer to the search for the root DSE"}},
		{"StartTLS refused", start, probeLimit, ldapTLSNo, outcome{false, CauseTLS, "the server refused StartTLS: unavailable (52)"}},
		{"StartTLS in another protocol", start, probeLimit, "220 mail ESMTP\r\n", outcome{false, CauseAnswer, `the target does not speak LDAP: answered "220 mail ESMTP\r\n"`}},
		{"StartTLS answered with a bind", start, probeLimit, ldapNoBind, outcome{false, CauseAnswer, "the target does not speak LDAP: answered \"0"}},
		{"StartTLS of any length", start, probeLimit, "\x30\x84\x7f\xff\xff\xff", outcome{false, CauseAnswer, "the target does not speak LDAP: answered \"0"}},
		{"StartTLS in part", start, partLimit, ldapTLSOK[:5], outcome{false, CauseAnswer, "only 5 bytes of a StartTLS answer within 1s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := probeOnce(t, tt.opts, targetOf(serve(t, "127.0.0.1:0", func(c net.Conn) {
				var buf [512]byte
				if _, err := c.Read(buf[:]); err == nil {
					holds(tt.says)(c)
				}
			}), tt.limit))
			if strings.HasPrefix(res.Detail, tt.want.Detail) {
				res.Detail = tt.want.Detail
			}
			wantOutcome(t, res, tt.want)
		})
	}
}

// FuzzLDAP gives any bytes to a probe as the answer of a server.
func FuzzLDAP(f *testing.F) {
	for _, s := range []string{
		ldapBusy, ldapTLSOK, ldapTLSNo, ldapNoBind, "\x30\x80\x00\x00", "\x30\x84\xff\xff\xff\xff", "\x30", "\x30\x00", "220 mail\r\n",
		"\x30\x13\x02\x01\x01\x64\x0e\x04\x00\x30\x0a\x30\x08\x04\x02cn\x31\x02\x04\x00" + strings.Replace(ldapBusy, "\x33", "\x00", 1),
	} {
		f.Add([]byte(s))
	}
	probe := &ldapProbe{aim: &aim{}, search: ldapEntry("", "(objectClass=*)")}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 0 {
			if used, fail := ldapStartAnswer(data); used > len(data) || fail != nil && fail.detail == "" {
				t.Fatalf("%d bytes used of %d: %+v", used, len(data), fail)
			}
		}
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			var request [512]byte
			if _, err := far.Read(request[:]); err == nil {
				_, _ = far.Write(data)
			}
		}()
		defer near.Close()
		ctx, cancel := context.WithTimeout(t.Context(), probeLimit)
		defer cancel()
		defer bind(ctx, near)()
		if res := probe.ask(ctx, near); res.OK != (res.Cause == CauseNone) || res.Detail == "" || res.Cause == CauseTimeout {
			t.Fatalf("%+v", res)
		}
		_, _ = io.Copy(io.Discard, near)
	})
}
