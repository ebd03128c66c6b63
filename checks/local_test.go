package checks

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestLocalProblems(t *testing.T) {
	wantProblems(t, &FileOptions{Path: "/run/x", MaxAge: time.Minute, Expect: "^ok"})
	wantProblems(t, &FileOptions{Path: "x", MaxAge: -1, Expect: "("}, `path: "x" is not an absolute path`, "max_age: -1ns is negative", "expect: is not a regular")
	wantProblems(t, &FileOptions{Path: "/x", Absent: true, Expect: "x"}, "absent: cannot stand together")
	wantProblems(t, &ProcessOptions{Name: "haproxy", PIDFile: "/run/haproxy.pid"})
	wantProblems(t, &ProcessOptions{}, "name: is missing")
	wantProblems(t, &ProcessOptions{Name: "/usr/sbin/haproxy", PIDFile: "x", Min: 2}, `name: "/usr/sbin/haproxy" is not a name`, `pid_file: "x" is not`, "min: 2 must be")
	wantProblems(t, &UnitOptions{Unit: "haproxy@a.service", States: []string{"inactive"}, Socket: "/run/systemd/private"})
	wantProblems(t, &UnitOptions{Unit: "haproxy", States: []string{"up"}, Socket: "x"}, `unit: "haproxy" is not`, `states: "up" is none of`, `socket: "x" is not`)
}

// here is a target of checks that look at this host.
func here(limit time.Duration) Target { return Target{Limit: limit} }

func TestFile(t *testing.T) {
	dir := t.TempDir()
	file, old, pipe := filepath.Join(dir, "state"), filepath.Join(dir, "old"), filepath.Join(dir, "pipe")
	for _, f := range []string{file, old} {
		if err := os.WriteFile(f, []byte("role=primary\n"+strings.Repeat("x", fileReadLimit)+"end"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	missing, seconds := filepath.Join(dir, "missing"), regexp.MustCompile(`\d+s ago`)
	tests := []struct {
		name string
		opts FileOptions
		want outcome
	}{
		{"healthy", FileOptions{Path: file, MaxAge: time.Hour, Expect: "(?m)^role=primary$"}, outcome{true, CauseNone, file + " was changed 0s ago"}},
		{"healthy, absent", FileOptions{Path: missing, Absent: true}, outcome{true, CauseNone, missing + " is not there"}},
		{"missing", FileOptions{Path: missing}, outcome{false, CauseAnswer, missing + " is not there"}},
		{"there", FileOptions{Path: file, Absent: true}, outcome{false, CauseAnswer, file + " is there"}},
		{"old", FileOptions{Path: old, MaxAge: time.Minute}, outcome{false, CauseAnswer, old + " was changed 1h0m0s ago, at most 1m0s are allowed"}},
		{"wrong content", FileOptions{Path: file, Expect: "^role=standby"}, outcome{false, CauseAnswer, file + ` has "role=primary\n` + strings.Repeat("x", 47) + `"…, which does not match "^role=standby"`}},
		{"content out of sight", FileOptions{Path: file, Expect: "end$"}, outcome{false, CauseAnswer, file + ` has "role=primary\n` + strings.Repeat("x", 47) + `"…, which does not match "end$"`}},
		{"a pipe", FileOptions{Path: pipe, Expect: "x"}, outcome{false, CauseAnswer, pipe + " is not a file"}},
		{"a directory", FileOptions{Path: dir}, outcome{false, CauseAnswer, dir + " is not a file"}},
		{"below a file", FileOptions{Path: file + "/x"}, outcome{false, CauseAnswer, file + "/x cannot be read: not a directory"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := probeOnce(t, &tt.opts, here(probeLimit))
			t.Logf("%-8s | %-20s | %-8s | %s", "file", tt.name, orDefault(string(res.Cause), "ok"), res.Detail)
			if tt.name == "old" || tt.want.OK { // seconds may have passed
				res.Detail = seconds.ReplaceAllString(res.Detail, "0s ago")
			}
			wantOutcome(t, res, tt.want)
		})
	}
}

// sleeper starts a program of that name, which sleeps until the test ends.
func sleeper(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // its status is that of a killed one
	})
	return cmd
}

func TestProcess(t *testing.T) {
	short, long := fmt.Sprint("rhid-", os.Getpid()), fmt.Sprint("rhid-with-a-long-name-", os.Getpid())
	cmd := sleeper(t, short)
	sleeper(t, long)
	pidFile, stale := filepath.Join(t.TempDir(), "pid"), filepath.Join(t.TempDir(), "stale")
	for file, text := range map[string]string{pidFile: fmt.Sprintln(cmd.Process.Pid), stale: "4194305\n"} { // beyond the highest number there is
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the programs run", func() bool {
		return probeOnce(t, &ProcessOptions{Name: short}, here(probeLimit)).OK && probeOnce(t, &ProcessOptions{Name: long}, here(probeLimit)).OK
	})
	check := func(name string, o ProcessOptions, want outcome) {
		t.Helper()
		res := probeOnce(t, &o, here(probeLimit))
		t.Logf("%-8s | %-20s | %-8s | %s", "process", name, orDefault(string(res.Cause), "ok"), res.Detail)
		wantOutcome(t, res, want)
	}
	pid := fmt.Sprint(cmd.Process.Pid)
	check("healthy", ProcessOptions{Name: short}, outcome{true, CauseNone, short + " runs, number of processes: 1"})
	check("healthy, long name", ProcessOptions{Name: long}, outcome{true, CauseNone, long + " runs, number of processes: 1"})
	check("healthy, pid file", ProcessOptions{PIDFile: pidFile, Name: short}, outcome{true, CauseNone, "process " + pid + " runs"})
	check("too few", ProcessOptions{Name: short, Min: 2}, outcome{false, CauseAnswer, short + ": 1 of 2 processes run"})
	check("another long name", ProcessOptions{Name: long + "x"}, outcome{false, CauseAnswer, long + "x: 0 of 1 processes run"})
	check("number used again", ProcessOptions{PIDFile: pidFile, Name: "haproxy"}, outcome{false, CauseAnswer, "process " + pid + " of " + pidFile + " is not haproxy"})
	check("stale pid file", ProcessOptions{PIDFile: stale}, outcome{false, CauseAnswer, "process 4194305 of " + stale + " does not run"})
	check("no pid file", ProcessOptions{PIDFile: "/no/such/file"}, outcome{false, CauseAnswer, "/no/such/file is not there"})
	check("no number", ProcessOptions{PIDFile: "/proc/self/comm"}, outcome{false, CauseAnswer, "/proc/self/comm has " + fmt.Sprintf("%q", contents(t, "/proc/self/comm")) + ", which is not a process number"})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program is a zombie", func() bool { return !probeOnce(t, &ProcessOptions{Name: short}, here(probeLimit)).OK })
	check("zombie", ProcessOptions{Name: short}, outcome{false, CauseAnswer, short + ": 0 of 1 processes run, and 1 that ended and were not cleared away"})
	check("zombie, pid file", ProcessOptions{PIDFile: pidFile}, outcome{false, CauseAnswer, "process " + pid + " of " + pidFile + " does not run"})
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A manager that does not answer holds nothing up and leaves nothing behind.
func TestUnitWithoutSystemd(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "private")
	res := probeOnce(t, &UnitOptions{Unit: "x.service", Socket: socket}, here(probeLimit))
	wantOutcome(t, res, outcome{false, CauseInternal, "systemd cannot be asked at " + socket + ": connect: no such file or directory"})
	serveUnix(t, socket)
	before := openFiles(t)
	for range 3 {
		res := probeOnce(t, &UnitOptions{Unit: "x.service", Socket: socket}, here(shortLimit))
		wantOutcome(t, res, outcome{false, CauseTimeout, "systemd did not answer within 300ms"})
	}
	eventually(t, "the descriptors are closed", func() bool { return openFiles(t) <= before })
}

// serveUnix listens on a socket and says nothing to anybody.
func serveUnix(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c) // until the probe closes
			}()
		}
	}()
}
