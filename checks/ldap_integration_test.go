//go:build integration

package checks

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startSlapd makes a directory of one entry, dc=bank, and starts its server for
// plain LDAP and ldaps. more are further lines of its configuration.
func startSlapd(t *testing.T, cert tls.Certificate, plain, secure int, more ...string) *server {
	t.Helper()
	dir := ownedDir(t, "root")
	keepPair(t, "root", dir, cert)
	data, conf := filepath.Join(dir, "data"), filepath.Join(dir, "slapd.conf")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	lines := append([]string{
		"include /etc/ldap/schema/core.schema", "modulepath /usr/lib/ldap", "moduleload back_mdb",
		"TLSCertificateFile " + filepath.Join(dir, "server.crt"), "TLSCertificateKeyFile " + filepath.Join(dir, "server.key"),
	}, more...)
	lines = append(lines, "database mdb", "suffix dc=bank", "rootdn cn=admin,dc=bank", "rootpw s3cret", "directory "+data, "maxsize 1048576", "")
	keep(t, "root", conf, strings.Join(lines, "\n"))
	entry := filepath.Join(dir, "bank.ldif")
	keep(t, "root", entry, "dn: dc=bank\nobjectClass: dcObject\nobjectClass: organization\ndc: bank\no: Bank\n")
	command(t, "slapadd", "-f", conf, "-l", entry)
	urls := fmt.Sprintf("ldap://127.0.0.1:%d/ ldaps://127.0.0.1:%d/", plain, secure)
	return startServer(t, fmt.Sprint("tcp ", plain, " ", secure), "slapd", "-h", urls, "-f", conf, "-d", "0")
}

func TestLDAPSicknesses(t *testing.T) {
	const day = 24 * time.Hour
	ours := newAuthority(t, "Bank CA")
	good, expired := ours.issue(t, -day, day, "ldap.example"), ours.issue(t, -30*day, -3*day-time.Hour, "ldap.example")
	rootDSE, entry := &LDAPOptions{}, &LDAPOptions{Base: "dc=bank", Filter: "(o=Bank)"}
	binds := &LDAPOptions{BindDN: "cn=admin,dc=bank", Password: "s3cret"}
	starts := &LDAPOptions{TLS: "starttls", CAFile: ours.file, ServerName: "ldap.example"}
	ldaps := &LDAPOptions{TLS: "ldaps", CAFile: ours.file, ServerName: "ldap.example", BindDN: "cn=admin,dc=bank", Password: "s3cret", Base: "dc=bank"}
	otherName := *starts
	otherName.ServerName = "other.example"
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		dir := startSlapd(t, good, 389, 636)
		startSlapd(t, expired, 390, 637, "security simple_bind=128", "require authc")
		showSicknesses(t, "ldap", []sickness{
			{name: "healthy, root DSE", opts: rootDSE, to: on(389, probeLimit), ok: true, says: "the server showed the root DSE"},
			{name: "healthy, entry", opts: entry, to: on(389, probeLimit), ok: true, says: "the server showed dc=bank"},
			{name: "healthy, bind", opts: binds, to: on(389, probeLimit), ok: true, says: "the server accepted the bind"},
			{name: "healthy, StartTLS", opts: starts, to: on(389, probeLimit), ok: true, says: "the server showed the root DSE"},
			{name: "healthy, ldaps and bind", opts: ldaps, to: on(636, probeLimit), ok: true, says: "the server showed dc=bank"},
			{name: "refused", opts: rootDSE, to: on(399, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: rootDSE, to: on(389, shortLimit), makes: dropped("tcp dport 389"), cause: CauseTimeout, says: "SYN not answered"},
			{name: "hung process", opts: rootDSE, to: on(389, shortLimit), makes: dir.hung, cause: CauseTimeout, says: "connected, but no answer to the search for the root DSE within 300ms"},
			{name: "hung process, StartTLS", opts: starts, to: on(389, shortLimit), makes: dir.hung, cause: CauseTimeout, says: "connected, but no StartTLS answer within 300ms"},
			{name: "hung process, ldaps", opts: ldaps, to: on(636, shortLimit), makes: dir.hung, cause: CauseTimeout, says: "the TLS handshake did not end within 300ms"},
			{name: "half-closed", opts: rootDSE, to: targetOf(halfClosed(t), probeLimit), cause: CauseAnswer, says: "closed the connection without a whole answer"},
			{name: "not LDAP", opts: rootDSE, to: targetOf(babbler(t, "220 mail ESMTP\r\n"), probeLimit), cause: CauseAnswer, says: "does not speak LDAP"},
			{name: "wrong password", opts: &LDAPOptions{BindDN: "cn=admin,dc=bank", Password: "secret"}, to: on(389, probeLimit), cause: CauseAnswer, says: "the server refused the bind: invalid credentials (49)"},
			{name: "no such entry", opts: &LDAPOptions{Base: "ou=atm,dc=bank"}, to: on(389, probeLimit), cause: CauseAnswer, says: "no such object (32)"},
			{name: "another entry", opts: &LDAPOptions{Base: "dc=bank", Filter: "(o=Other)"}, to: on(389, probeLimit), cause: CauseAnswer, says: "the server shows no entry for dc=bank with (o=Other)"},
			{name: "bind needs TLS", opts: binds, to: on(390, probeLimit), cause: CauseAnswer, says: "confidentiality required (13)"},
			{name: "login needed", opts: rootDSE, to: on(390, probeLimit), cause: CauseAnswer, says: "authentication required"},
			{name: "certificate expired, StartTLS", opts: starts, to: on(390, probeLimit), cause: CauseTLS, says: "certificate expired 3 days ago"},
			{name: "certificate expired, ldaps", opts: ldaps, to: on(637, probeLimit), cause: CauseTLS, says: "certificate expired 3 days ago"},
			{name: "certificate of another name", opts: &otherName, to: on(389, probeLimit), cause: CauseTLS, says: "certificate is for ldap.example, not for other.example"},
			{name: "no TLS where wanted", opts: ldaps, to: on(389, probeLimit), cause: CauseTLS, says: ""},
		})
	})
}
