//go:build integration

package checks

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// startFTP starts vsftpd, which lets anonymous see dir.
func startFTP(t *testing.T, port, dir, more string) *server {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "vsftpd.conf")
	text := "listen=YES\nbackground=NO\nlisten_address=127.0.0.1\nlisten_port=" + port + "\nanonymous_enable=YES\nanon_root=" + dir +
		"\nsecure_chroot_dir=" + t.TempDir() + "\nlocal_enable=NO\nseccomp_sandbox=NO\nxferlog_enable=NO\npasv_min_port=7690\npasv_max_port=7699\n" + more
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return startServer(t, "tcp "+port, "vsftpd", conf)
}

// The ftp check against vsftpd.
func TestFTPSicknesses(t *testing.T) {
	ca := newAuthority(t, "ours")
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		dir := t.TempDir()
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for user ftp
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "pub"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, size := range map[string]int{"pub/probe.txt": 1000, "pub/large": 3 << 20} {
			if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tlsConf := func(from, to time.Duration) string {
			cert, key := ca.certFiles(t, from, to, "ftp.example")
			return "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\nssl_ciphers=HIGH\nrsa_cert_file=" + cert + "\nrsa_private_key_file=" + key + "\n"
		}
		vsftpd := startFTP(t, "7601", dir, "")
		startFTP(t, "7602", dir, tlsConf(-time.Hour, 90*day))
		startFTP(t, "7603", dir, tlsConf(-90*day, -3*day-time.Hour))
		acceptsAndCloses(t, "7605")
		startServer(t, "tcp 7606", "socat", "TCP4-LISTEN:7606,fork,reuseaddr", "SYSTEM:echo '421 too many connections'; cat >/dev/null")
		login := &FTPOptions{}
		pub := &FTPOptions{Directory: "pub"}
		file := &FTPOptions{Directory: "pub", File: "probe.txt"}
		secure := &FTPOptions{Directory: "/pub", File: "probe.txt", TLS: "explicit", CAFile: ca.file, ServerName: "ftp.example"}
		nobody := &FTPOptions{User: "nobody-here", Password: "wrong-passw0rd"}
		showSicknesses(t, "ftp", []sickness{
			{name: "healthy", opts: login, to: on(7601, probeLimit), ok: true, says: "logged in"},
			{name: "healthy, directory", opts: pub, to: on(7601, probeLimit), ok: true, says: "changed to the directory"},
			{name: "healthy, file", opts: file, to: on(7601, probeLimit), ok: true, says: "fetched 1000 bytes of the file"},
			{name: "healthy, large file", opts: &FTPOptions{File: "/pub/large"}, to: on(7601, probeLimit), ok: true, says: "fetched " + strconv.Itoa(ftpFileLimit) + " bytes"},
			{name: "healthy, TLS and a file", opts: secure, to: on(7602, probeLimit), ok: true, says: "fetched 1000 bytes of the file"},
			{name: "refused", opts: login, to: on(7609, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: login, to: on(7601, shortLimit), makes: dropped("tcp dport 7601"), cause: CauseTimeout, says: "SYN not answered"},
			{name: "black hole for data", opts: file, to: on(7601, partLimit), makes: dropped("tcp dport 7690-7699"), cause: CauseTimeout, says: "data connection to port 769"},
			{name: "hung process", opts: login, to: on(7601, shortLimit), makes: vsftpd.hung, cause: CauseTimeout, says: "connected, but no reply as greeting within 300ms"},
			{name: "half-closed", opts: login, to: on(7605, probeLimit), cause: CauseAnswer, says: "closed the connection without a whole reply as greeting"},
			{name: "wrong answer", opts: login, to: on(7606, probeLimit), cause: CauseAnswer, says: `answered 421 "too many connections" as greeting`},
			{name: "wrong password", opts: nobody, to: on(7601, probeLimit), cause: CauseAnswer, says: "answered 530"},
			{name: "no such directory", opts: &FTPOptions{Directory: "gone"}, to: on(7601, probeLimit), cause: CauseAnswer, says: "answered 550 \"Failed to change directory.\" to CWD"},
			{name: "no such file", opts: &FTPOptions{File: "gone"}, to: on(7601, probeLimit), cause: CauseAnswer, says: "answered 550 \"Failed to open file.\" to RETR"},
			{name: "wants TLS", opts: login, to: on(7602, probeLimit), cause: CauseAnswer, says: "answered 530"},
			{name: "no TLS", opts: secure, to: on(7601, probeLimit), cause: CauseAnswer, says: "to AUTH, wanted 234"},
			{name: "certificate expired", opts: secure, to: on(7603, probeLimit), cause: CauseTLS, says: "certificate expired 3 days ago"},
		})
	})
}
