//go:build integration

package checks

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sickness is one state of a real server, and what its check must say of it.
type sickness struct {
	name  string
	opts  Options
	to    Target
	makes func(t *testing.T) (heal func()) // brings the state about; nil where opts or to do

	ok, degraded bool
	cause        Cause
	says         string // part of the sentence
}

// showSicknesses probes once in each state, on the calling thread, and prints
// type, state and sentence for the table of the manual.
func showSicknesses(t *testing.T, typ string, rows []sickness) {
	t.Helper()
	for _, s := range rows {
		heal := func() {}
		if s.makes != nil {
			heal = s.makes(t)
		}
		res := probeOnce(t, s.opts, s.to)
		heal()
		s.show(t, typ, res)
	}
}

// is says whether a result is as wanted.
func (s *sickness) is(res Result) bool {
	return res.OK == s.ok && res.Degraded == s.degraded && res.Cause == s.cause && strings.Contains(res.Detail, s.says)
}

// show prints one line of the table, and compares.
func (s *sickness) show(t *testing.T, typ string, res Result) {
	t.Helper()
	word := string(res.Cause)
	switch {
	case res.Degraded:
		word = "degraded"
	case res.OK:
		word = "ok"
	}
	t.Logf("%-8s | %-28s | %-8s | %s", typ, s.name, word, res.Detail)
	if !s.is(res) {
		t.Errorf("%s, %s: %+v, want ok %t, degraded %t, cause %q and %q", typ, s.name, res, s.ok, s.degraded, s.cause, s.says)
	}
}

// server is a program from Debian in the namespace of the thread that started
// it, the leader of a process group.
type server struct {
	cmd    *exec.Cmd
	output bytes.Buffer
}

// startServer starts a program in the foreground and waits until it listens
// on its ports: "tcp 25", "udp 53 54". It ends with the test.
func startServer(t *testing.T, listens, name string, args ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(name, args...)}
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	s.cmd.WaitDelay = time.Second // a grandchild may have left the group, and keep the output open
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("%v; scripts/install-test-deps.sh installs it", err)
	}
	t.Cleanup(s.end)
	protocol, ports, _ := strings.Cut(listens, " ")
	for _, port := range strings.Fields(ports) {
		for end := time.Now().Add(time.Minute); !listening(t, protocol, port); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				s.end()
				t.Fatalf("%s does not listen on %s port %s:\n%s", name, protocol, port, s.output.String())
			}
		}
	}
	return s
}

// end kills the server with all that it started; once is enough.
func (s *server) end() {
	if s.cmd.ProcessState == nil {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // it may have ended by itself
		_ = s.cmd.Wait()                                      // its status is that of a killed one
	}
}

// listening looks for a port in the tables of the thread's own namespace.
func listening(t *testing.T, protocol, port string) bool {
	t.Helper()
	number := 0
	if _, err := fmt.Sscan(port, &number); err != nil {
		t.Fatal(err)
	}
	state := map[string]string{"tcp": "0A", "udp": "07"}[protocol] // LISTEN, unconnected
	for _, table := range []string{protocol, protocol + "6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) && f[3] == state {
				return true
			}
		}
	}
	return false
}

// hung stops all processes of a server: the kernel still answers for it, but
// nobody else does.
func (s *server) hung(t *testing.T) (heal func()) {
	t.Helper()
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	// The signal takes its time.
	eventually(t, s.cmd.Path+" stops", func() bool { return stopped(t, s.cmd.Process.Pid) })
	return func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGCONT) } // it ends with the test otherwise
}

// stopped says whether all threads of a process stand still.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		t.Fatalf("no threads of process %d: %v", pid, err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that just ended
		}
		if _, after, ok := strings.Cut(string(text), ") "); ok && !strings.HasPrefix(after, "T") {
			return false
		}
	}
	return true
}

// dropped makes a black hole of a port in the thread's namespace:
// "tcp dport 25", say.
func dropped(what string) func(t *testing.T) (heal func()) {
	return func(t *testing.T) func() {
		t.Helper()
		nft := func(line string) {
			if out, err := exec.Command("nft", line).CombinedOutput(); err != nil {
				t.Errorf("nft %s: %v: %s", line, err, out)
			}
		}
		nft("add table inet hole; add chain inet hole in { type filter hook input priority 0; }; add rule inet hole in " + what + " drop")
		return func() { nft("delete table inet hole") }
	}
}

// acceptsAndCloses starts a server that accepts, says nothing more at once (FIN), and
// listens on for 9 s.
func acceptsAndCloses(t *testing.T, port string) {
	t.Helper()
	startServer(t, "tcp "+port, "socat", "-t9", "TCP4-LISTEN:"+port+",fork,reuseaddr", "OPEN:/dev/null")
}

// certFiles issues a certificate and writes it and its key to PEM files, for
// servers that are not ours.
func (a *authority) certFiles(t *testing.T, from, to time.Duration, names ...string) (cert, key string) {
	t.Helper()
	c := a.issue(t, from, to, names...)
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, "CERTIFICATE", c.Certificate[0]), writePEM(t, "PRIVATE KEY", der)
}

// on is a target on the loopback of the namespace.
func on(port uint16, limit time.Duration) Target {
	return Target{Host: "127.0.0.1", Port: port, Limit: limit}
}
