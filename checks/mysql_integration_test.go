//go:build integration

package checks

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// startMariaDB makes a database with the account nobody@% and starts its server
// on port 3306.
func startMariaDB(t *testing.T, dir string) *server {
	t.Helper()
	const user = "mysql"
	data := filepath.Join(dir, "data")
	command(t, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--user="+user, "--auth-root-authentication-method=normal", "--skip-test-db")
	keep(t, user, filepath.Join(dir, "init.sql"), "CREATE USER IF NOT EXISTS 'nobody'@'near.example' IDENTIFIED BY 'x';\n")
	// Only a host with a name has its failed handshakes counted.
	hosts := filepath.Join(dir, "hosts")
	keep(t, user, hosts, "127.0.0.1 localhost\n10.1.1.1 near.example\n10.1.1.2 far.example\n")
	return startServer(t, "tcp 3306", "unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts, "mariadbd", "--no-defaults", "--datadir="+data, "--user="+user, "--socket="+filepath.Join(dir, "sock"),
		"--bind-address=0.0.0.0", "--init-file="+filepath.Join(dir, "init.sql"), "--max-connections=10", "--max-connect-errors=3", "--innodb-flush-method=nosync",
		"--ssl-cert="+filepath.Join(dir, "server.crt"), "--ssl-key="+filepath.Join(dir, "server.key"))
}

// greeted connects so often and closes without a login.
func greeted(t *testing.T, from string, n int) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	for range n {
		c, err := d.DialContext(t.Context(), "tcp", from+":3306")
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := c.Read(make([]byte, 100)); err != nil {
			t.Error(err)
		}
		c.Close()
	}
}

// heldOpen makes connections that do not log in.
func heldOpen(t *testing.T, to string, n int) (heal func()) {
	t.Helper()
	return occupy(t, to, n, func(c net.Conn) bool {
		greeting := make([]byte, myHead+1)
		if _, err := io.ReadFull(c, greeting); err != nil {
			t.Error(err)
		}
		return greeting[myHead] != myErr
	})
}

func TestMySQLSicknesses(t *testing.T) {
	const day = 24 * time.Hour
	ours := newAuthority(t, "Bank CA")
	plain := &MySQLOptions{}
	secure := &MySQLOptions{TLS: true, CAFile: ours.file, ServerName: "db.example"}
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		ipCommand(t, "ip address add 10.1.1.1/32 dev lo")
		ipCommand(t, "ip address add 10.1.1.2/32 dev lo")
		dir := ownedDir(t, "mysql")
		keepPair(t, "mysql", dir, ours.issue(t, -day, day, "db.example"))
		db := startMariaDB(t, dir)
		eventually(t, "the server is up", func() bool { return probeOnce(t, plain, on(3306, probeLimit)).OK })
		full := func(t *testing.T) func() {
			leave := heldOpen(t, "127.0.0.1:3306", 11) // one more than max-connections is for administrators
			return func() {
				leave()
				eventually(t, "there is room again", func() bool { return probeOnce(t, plain, on(3306, probeLimit)).OK })
			}
		}
		remote, foreign := on(3306, probeLimit), on(3306, probeLimit)
		remote.Host, foreign.Host = "10.1.1.1", "10.1.1.2"
		blocked := func(t *testing.T) func() {
			greeted(t, "10.1.1.1", 4)
			eventually(t, "the host is blocked", func() bool { return !probeOnce(t, plain, remote).OK })
			return func() {}
		}
		for range 12 { // four times max_connect_errors
			if res := probeOnce(t, plain, remote); !res.OK {
				t.Errorf("probed again and again: %+v", res)
			}
		}
		showSicknesses(t, "mysql", []sickness{
			{name: "healthy", opts: plain, to: on(3306, probeLimit), ok: true, says: "the server accepts connections"},
			{name: "healthy after 12 probes", opts: plain, to: remote, ok: true, says: "the server accepts connections"},
			{name: "healthy, login taken", opts: &MySQLOptions{User: "root"}, to: on(3306, probeLimit), ok: true, says: "the server accepts connections"},
			{name: "healthy, TLS", opts: secure, to: on(3306, probeLimit), ok: true, says: "the server accepts connections"},
			{name: "refused", opts: plain, to: on(3309, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: plain, to: on(3306, shortLimit), makes: dropped("tcp dport 3306"), cause: CauseTimeout, says: "SYN not answered"},
			{name: "hung process", opts: plain, to: on(3306, shortLimit), makes: db.hung, cause: CauseTimeout, says: "connected, but no MySQL greeting within 300ms"},
			{name: "half-closed", opts: plain, to: targetOf(halfClosed(t), probeLimit), cause: CauseAnswer, says: "closed the connection without a MySQL greeting"},
			{name: "not MySQL", opts: plain, to: targetOf(babbler(t, "SSH-2.0-OpenSSH_9.2\r\n"), probeLimit), cause: CauseAnswer, says: "does not speak MySQL"},
			{name: "login refused", opts: &MySQLOptions{User: "atm"}, to: on(3306, probeLimit), cause: CauseAnswer, says: "Access denied for user 'atm'@"},
			{name: "host not allowed", opts: plain, to: foreign, cause: CauseAnswer, says: "is not allowed to connect"},
			{name: "too many connections", opts: plain, to: on(3306, probeLimit), makes: full, cause: CauseAnswer, says: "Too many connections (1040)"},
			{name: "certificate of another name", opts: &MySQLOptions{TLS: true, CAFile: ours.file, ServerName: "other.example"}, to: on(3306, probeLimit),
				cause: CauseTLS, says: "certificate is for db.example, not for other.example"},
			{name: "host blocked", opts: plain, to: remote, makes: blocked, cause: CauseAnswer, says: "is blocked because of many connection errors"},
		})
	})
}
