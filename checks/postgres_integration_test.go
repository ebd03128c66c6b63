//go:build integration

package checks

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownedDir is a directory for the data of a daemon that does not run as root.
func ownedDir(t *testing.T, user string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rhid-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a process that its daemon has left behind may still write there
		eventually(t, "its files are gone", func() bool { return os.RemoveAll(dir) == nil })
	})
	own(t, user, dir)
	return dir
}

// own gives files to a user.
func own(t *testing.T, user string, files ...string) {
	t.Helper()
	if out, err := exec.Command("chown", append([]string{"-R", user}, files...)...).CombinedOutput(); err != nil {
		t.Fatalf("chown: %v: %s", err, out)
	}
}

// command runs a command to its end.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v; scripts/install-test-deps.sh installs it\n%s", name, err, out)
	}
}

// keep writes a file for a daemon.
func keep(t *testing.T, user, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	own(t, user, file)
}

// keepPair writes a certificate and its key for a daemon: server.crt and
// server.key.
func keepPair(t *testing.T, user, dir string, cert tls.Certificate) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keep(t, user, filepath.Join(dir, "server.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	keep(t, user, filepath.Join(dir, "server.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
}

// debianPostgres is the directory of PostgreSQL's programs, which Debian keeps
// out of the path.
func debianPostgres(t *testing.T) string {
	t.Helper()
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("PostgreSQL is needed; scripts/install-test-deps.sh installs it: %v", err)
	}
	return dirs[len(dirs)-1]
}

// startPostgres makes a database and starts its server on port 5432.
func startPostgres(t *testing.T, cert tls.Certificate) (s *server, data string) {
	t.Helper()
	const user = "postgres"
	bin, dir := debianPostgres(t), ownedDir(t, user)
	data = filepath.Join(dir, "data")
	as := []string{"--reuid", user, "--regid", user, "--clear-groups"}
	command(t, "setpriv", append(as, filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "--no-sync", "--no-instructions")...)
	keepPair(t, user, data, cert)
	keep(t, user, filepath.Join(data, "pg_hba.conf"), strings.Join([]string{
		"host all postgres 127.0.0.1/32 trust", "host all blocked 127.0.0.1/32 reject", "host all all 127.0.0.1/32 scram-sha-256", "",
	}, "\n"))
	s = startServer(t, "tcp 5432", "setpriv", append(as, filepath.Join(bin, "postgres"), "-D", data, "-k", dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=5", "-c", "superuser_reserved_connections=0",
		"-c", "max_wal_senders=0", "-c", "ssl=on")...)
	return s, data
}

// loggedIn opens n sessions and returns what ends them.
func loggedIn(t *testing.T, n int) (heal func()) {
	t.Helper()
	return occupy(t, "127.0.0.1:5432", n, func(c net.Conn) bool {
		answer := make([]byte, 1)
		if _, err := c.Write(pgStartup("postgres", "postgres")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			t.Error(err)
		}
		return answer[0] == 'R' // accepted
	})
}

// occupy makes n connections that a server takes, which it does not as long as
// it has not cleared away those of before. It returns what closes them.
func occupy(t *testing.T, addr string, n int, taken func(net.Conn) bool) (heal func()) {
	t.Helper()
	var open []net.Conn
	eventually(t, fmt.Sprint(n, " connections to ", addr), func() bool {
		c, err := net.Dial("tcp", addr)
		switch {
		case err != nil:
			t.Error(err)
		case taken(c):
			open = append(open, c)
		default:
			c.Close()
		}
		return len(open) == n
	})
	return func() {
		for _, c := range open {
			c.Close()
		}
	}
}

func TestPostgresSicknesses(t *testing.T) {
	const day = 24 * time.Hour
	ours := newAuthority(t, "Bank CA")
	good, expired := ours.issue(t, -day, day, "db.example"), ours.issue(t, -30*day, -3*day-time.Hour, "db.example")
	plain := &PostgresOptions{}
	secure := &PostgresOptions{TLS: true, CAFile: ours.file, ServerName: "db.example"}
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		db, data := startPostgres(t, good)
		eventually(t, "the server is up", func() bool { return probeOnce(t, plain, on(5432, probeLimit)).OK })
		expire := func(t *testing.T) func() {
			keepPair(t, "postgres", data, expired)
			if err := db.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Error(err)
			}
			eventually(t, "the other certificate is in use", func() bool { return !probeOnce(t, secure, on(5432, probeLimit)).OK })
			return func() {}
		}
		full := func(t *testing.T) func() {
			leave := loggedIn(t, 5)
			return func() {
				leave()
				eventually(t, "there is room again", func() bool { return probeOnce(t, plain, on(5432, probeLimit)).OK })
			}
		}
		stopping := func(t *testing.T) func() {
			heal := loggedIn(t, 1)
			if err := db.cmd.Process.Signal(syscall.SIGTERM); err != nil { // waits for the session to end
				t.Error(err)
			}
			eventually(t, "the server stops", func() bool { return !probeOnce(t, plain, on(5432, probeLimit)).OK })
			return heal
		}
		showSicknesses(t, "postgres", []sickness{
			{name: "healthy", opts: plain, to: on(5432, probeLimit), ok: true, says: "the server accepts connections"},
			{name: "healthy, no password asked", opts: &PostgresOptions{User: "postgres"}, to: on(5432, probeLimit), ok: true, says: "the server accepts connections"},
			{name: "healthy, TLS", opts: secure, to: on(5432, probeLimit), ok: true, says: "the server accepts connections"},
			{name: "refused", opts: plain, to: on(5439, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: plain, to: on(5432, shortLimit), makes: dropped("tcp dport 5432"), cause: CauseTimeout, says: "SYN not answered"},
			{name: "hung process", opts: plain, to: on(5432, shortLimit), makes: db.hung, cause: CauseTimeout, says: "connected, but no PostgreSQL answer within 300ms"},
			{name: "half-closed", opts: plain, to: targetOf(halfClosed(t), probeLimit), cause: CauseAnswer, says: "closed the connection without a PostgreSQL answer"},
			{name: "not PostgreSQL", opts: plain, to: targetOf(babbler(t, "SSH-2.0-OpenSSH_9.2\r\n"), probeLimit), cause: CauseAnswer, says: "does not speak PostgreSQL"},
			{name: "too many connections", opts: plain, to: on(5432, probeLimit), makes: full, cause: CauseAnswer, says: "too many clients already (53300)"},
			{name: "login refused", opts: &PostgresOptions{User: "blocked"}, to: on(5432, probeLimit), cause: CauseAnswer, says: "pg_hba.conf rejects connection"},
			{name: "no such database", opts: &PostgresOptions{User: "postgres", Database: "atm"}, to: on(5432, probeLimit), ok: true, says: "the server accepts connections"},
			{name: "certificate of another name", opts: &PostgresOptions{TLS: true, CAFile: ours.file, ServerName: "other.example"}, to: on(5432, probeLimit),
				cause: CauseTLS, says: "certificate is for db.example, not for other.example"},
			{name: "certificate expired", opts: secure, to: on(5432, probeLimit), makes: expire, cause: CauseTLS, says: "certificate expired 3 days ago"},
			{name: "shutting down", opts: plain, to: on(5432, probeLimit), makes: stopping, cause: CauseAnswer, says: "the database system is shutting down (57P03)"},
		})
	})
}
