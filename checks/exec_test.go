package checks

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sh(script string) *ExecOptions { return &ExecOptions{Command: []string{script}, Shell: true} }

func TestExecStatus(t *testing.T) {
	strict := sh("echo low; exit 1")
	strict.WarningIs = "fail"
	tests := []struct {
		name string
		opts *ExecOptions
		want outcome
	}{
		{"ok", sh("echo 'DISK OK - 9 GB free | /=9GB'; echo more"), outcome{true, CauseNone, "DISK OK - 9 GB free"}},
		{"ok and silent", sh("true"), outcome{true, CauseNone, "exit status 0"}},
		{"arguments, no shell", &ExecOptions{Command: []string{"echo", "$HOME", "a  b"}}, outcome{true, CauseNone, "$HOME a  b"}},
		{"warning", sh("echo low; exit 1"), outcome{true, CauseNone, "warning: low"}},
		{"silent warning", sh("exit 1"), outcome{true, CauseNone, "warning"}},
		{"warning fails", strict, outcome{false, CauseAnswer, "exit status 1 (warning): low"}},
		{"critical", sh("echo full; exit 2"), outcome{false, CauseAnswer, "exit status 2 (critical): full"}},
		{"unknown", sh("exit 3"), outcome{false, CauseExec, "exit status 3 (unknown)"}},
		{"other", sh("echo odd; exit 42"), outcome{false, CauseExec, "exit status 42: odd"}},
		{"signal", sh("kill -SEGV $$"), outcome{false, CauseExec, "died of signal 11 (segmentation fault)"}},
		{"error output", sh("echo oops >&2; exit 2"), outcome{false, CauseAnswer, "exit status 2 (critical): oops"}},
		{"output before error output", sh("echo oops >&2; echo full; exit 2"), outcome{false, CauseAnswer, "exit status 2 (critical): full"}},
		{"no input", sh("cat; echo end"), outcome{true, CauseNone, "end"}},
		{"long line", sh("head -c 9999 /dev/zero | tr '\\0' x"), outcome{true, CauseNone, strings.Repeat("x", 253) + "…"}},
		{"much output is no trouble", sh("echo first; head -c 500000 /dev/zero"), outcome{true, CauseNone, "first"}},
		{"no such command", &ExecOptions{Command: []string{"/no/such/check"}}, outcome{false, CauseExec, "cannot run /no/such/check: no such file or directory"}},
		{"not in PATH", &ExecOptions{Command: []string{"no-such-check"}}, outcome{false, CauseExec, "cannot run no-such-check: not found in PATH"}},
		{"not executable", &ExecOptions{Command: []string{"/etc/passwd"}}, outcome{false, CauseExec, "cannot run /etc/passwd: permission denied"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantOutcome(t, probeOnce(t, tt.opts, Target{Limit: probeLimit}), tt.want)
		})
	}
}

func TestExecEnvironment(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/notify")
	t.Setenv("PATH", "/usr/bin:/bin")
	o := sh("env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD= | sort | tr '\\n' ' '")
	o.Env = map[string]string{"B": "2", "A": "1 1", "LANG": "C"}
	to := Target{Host: "10.9.1.1", Port: 9100, Source: netip.MustParseAddr("10.1.0.11"), Limit: probeLimit}
	want := "A=1 1 B=2 LANG=C PATH=/usr/bin:/bin RHID_SOURCE=10.1.0.11 RHID_TARGET_HOST=10.9.1.1 RHID_TARGET_PORT=9100 RHID_TIMEOUT=10"
	wantOutcome(t, probeOnce(t, o, to), outcome{true, CauseNone, want})

	o = sh("echo ${RHID_TARGET_HOST-none} ${RHID_TARGET_PORT-none}")
	wantOutcome(t, probeOnce(t, o, Target{Limit: probeLimit}), outcome{true, CauseNone, "none none"})
}

// pidsFrom reads process numbers that a monster wrote, one a line.
func pidsFrom(t *testing.T, file string, n int) []int {
	t.Helper()
	var pids []int
	eventually(t, "the command wrote its process numbers", func() bool {
		b, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pids = nil
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) == n
	})
	return pids
}

// gone says whether a process has ended; one that nobody has reaped counts as
// ended.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z")
}

// The monsters: each must be over soon after its time, with all its processes.
func TestExecMonsters(t *testing.T) {
	const limit = 3 * time.Second // of those that are to run into it, after some work
	tests := []struct {
		name   string
		limit  time.Duration
		script string // writes process numbers to $PIDS
		pids   int
		want   outcome
	}{
		{"ignores SIGTERM, and so does a child that holds the output", limit,
			`trap "" TERM; sh -c 'trap "" TERM; echo $$ >>$PIDS; while :; do sleep 1; done' & echo $$ >>$PIDS; echo stuck; wait; while :; do sleep 1; done`,
			2, outcome{false, CauseTimeout, "killed because it did not end within 3s: stuck"}},
		{"ends, and leaves a child that holds the output", probeLimit,
			`sh -c 'echo $$ >>$PIDS; exec sleep 1000' & while ! [ -s $PIDS ]; do :; done; echo fine`,
			1, outcome{true, CauseNone, "fine"}},
		{"prints without end", probeLimit, `echo $$ >>$PIDS; exec yes`, 1, outcome{false, CauseExec, "killed after it printed more than 1024 KiB"}},
		{"prints errors without end", probeLimit, `echo $$ >>$PIDS; exec yes >&2`, 1, outcome{false, CauseExec, "killed after it printed more than 1024 KiB"}},
		{"stops itself", limit, `echo $$ >>$PIDS; kill -STOP $$`, 1, outcome{false, CauseTimeout, "killed because it did not end within 3s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := sh(tt.script)
			file := filepath.Join(t.TempDir(), "pids")
			o.Env = map[string]string{"PIDS": file}
			p, err := o.Prober(Target{Limit: tt.limit})
			if err != nil {
				t.Fatal(err)
			}
			files, routines := openFiles(t), runtime.NumGoroutine()
			wantOutcome(t, probeWithin(t, p, tt.limit), tt.want)
			for _, pid := range pidsFrom(t, file, tt.pids) {
				eventually(t, "process "+strconv.Itoa(pid)+" is gone", func() bool { return gone(pid) })
			}
			eventually(t, "descriptors and goroutines are back to what they were", func() bool {
				return openFiles(t) <= files && runtime.NumGoroutine() <= routines
			})
		})
	}
}

// A child that left the process group cannot be killed with it, but it holds
// up nothing.
func TestExecChildOutsideTheGroup(t *testing.T) {
	o := sh(`setsid sh -c 'echo $$ >$PIDS; exec sleep 1000' & while ! [ -s $PIDS ]; do :; done; echo fine`)
	file := filepath.Join(t.TempDir(), "pids")
	o.Env = map[string]string{"PIDS": file}
	files := openFiles(t)
	res := probeOnce(t, o, Target{Limit: probeLimit})
	for _, pid := range pidsFrom(t, file, 1) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("kill %d: %v", pid, err)
		}
	}
	wantOutcome(t, res, outcome{true, CauseNone, "fine"})
	if res.Took > probeLimit/2 {
		t.Errorf("took %s", res.Took)
	}
	eventually(t, "descriptors are back to what they were", func() bool { return openFiles(t) <= files })
}

func TestExecStopped(t *testing.T) {
	p, err := sh("exec sleep 1000").Prober(Target{Limit: probeLimit})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	wantOutcome(t, p.Probe(ctx), outcome{false, CauseInternal, "the probe was stopped"})
}

// Many runs leave nothing behind.
func TestExecLeavesNothing(t *testing.T) {
	run := func(n int) {
		for range n {
			probeOnce(t, sh("sleep 1000 & echo x"), Target{Limit: probeLimit})
			probeOnce(t, &ExecOptions{Command: []string{"/no/such/check"}}, Target{Limit: probeLimit})
		}
	}
	run(1)
	files, routines := openFiles(t), runtime.NumGoroutine()
	run(20)
	eventually(t, "descriptors and goroutines are back to what they were", func() bool {
		return openFiles(t) <= files && runtime.NumGoroutine() <= routines
	})
	if kids := children(t); len(kids) > 0 {
		t.Errorf("children left: %v", kids)
	}
}

// children lists the children of the test process.
func children(t *testing.T) []string {
	t.Helper()
	var out []string
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // a thread that has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.Fields(string(b))...)
	}
	return out
}

func TestStartFailure(t *testing.T) {
	tests := []struct {
		err  error
		want outcome
	}{
		{&os.PathError{Op: "fork/exec", Path: "/x", Err: syscall.EAGAIN}, outcome{false, CauseInternal, "this host has no room for one more process"}},
		{&os.PathError{Op: "pipe", Path: "/x", Err: syscall.EMFILE}, outcome{false, CauseInternal, "this process has no file descriptor left (EMFILE)"}},
		{&os.PathError{Op: "fork/exec", Path: "/x", Err: syscall.ENOEXEC}, outcome{false, CauseExec, "cannot run /x: exec format error"}},
		{errors.New("odd"), outcome{false, CauseExec, "cannot run /x: odd"}},
	}
	for _, tt := range tests {
		wantOutcome(t, startFailure("/x", tt.err).result(""), tt.want)
	}
}

func TestExecUnusable(t *testing.T) {
	_, err := (&ExecOptions{}).Prober(Target{})
	if d := cmp.Diff("exec check: command is missing", err.Error()); d != "" {
		t.Error(d)
	}
}
