package checks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	execLineLimit   = 256                    // bytes of the first line that go into Detail
	execKeepLimit   = 4 << 10                // bytes kept of each stream, to find that line in
	execOutputLimit = 1 << 20                // bytes of a stream after which a command is killed
	execPipeWait    = 100 * time.Millisecond // for output after the command ended
	execDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Exit statuses of Nagios plugins.
const (
	nagiosOK       = 0
	nagiosWarning  = 1
	nagiosCritical = 2
	nagiosUnknown  = 3
)

// Problems implements Options. Whether the command exists is a question of
// the host, and each probe answers it.
func (o *ExecOptions) Problems() []Problem {
	var ps []Problem
	add := func(key, format string, args ...any) {
		ps = append(ps, Problem{Key: key, Msg: fmt.Sprintf(format, args...)})
	}
	switch {
	case len(o.Command) == 0 || strings.TrimSpace(o.Command[0]) == "":
		add("command", "is missing")
	case o.Shell && len(o.Command) > 1:
		add("command", "must be one element, the script, with shell")
	case !o.Shell && len(o.Command) == 1 && strings.ContainsAny(o.Command[0], " \t\n|&;<>"):
		add("command", "%q is one word with blanks or shell characters; write a list of arguments, or set shell", cut(o.Command[0], 60))
	}
	for _, a := range o.Command {
		if strings.ContainsRune(a, 0) {
			add("command", "cannot contain a NUL character")
		}
	}
	for _, k := range sortedKeys(o.Env) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(o.Env[k], 0) {
			add("env", "%q cannot be set in an environment", k)
		}
	}
	switch o.WarningIs {
	case "", "ok", "fail":
	default:
		add("warning_is", "%q is neither ok nor fail", o.WarningIs)
	}
	return ps
}

// execProbe is an exec check.
type execProbe struct {
	argv   []string
	env    []string
	warnOK bool
	limit  time.Duration
}

// Prober implements Options.
func (o *ExecOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("exec check: %s %s", ps[0].Key, ps[0].Msg)
	}
	p := &execProbe{argv: o.Command, warnOK: o.WarningIs != "fail", limit: t.Limit}
	if o.Shell {
		p.argv = []string{"/bin/sh", "-c", o.Command[0]}
	}
	p.env = o.environment(t)
	return timed(p.probe), nil
}

// environment is small on purpose: what the daemon's own environment holds
// (a watchdog, a notify socket, perhaps a secret) is no business of a command.
func (o *ExecOptions) environment(t Target) []string {
	env := []string{"PATH=" + orDefault(os.Getenv("PATH"), execDefaultPath), "LANG=C.UTF-8"}
	if t.Host != "" {
		env = append(env, "RHID_TARGET_HOST="+t.Host)
	}
	if t.Port != 0 {
		env = append(env, "RHID_TARGET_PORT="+strconv.Itoa(int(t.Port)))
	}
	if t.Source.IsValid() {
		env = append(env, "RHID_SOURCE="+t.Source.String())
	}
	if t.Limit > 0 {
		env = append(env, "RHID_TIMEOUT="+strconv.FormatFloat(t.Limit.Seconds(), 'f', -1, 64))
	}
	for _, k := range sortedKeys(o.Env) {
		env = append(env, k+"="+o.Env[k]) // a later one wins
	}
	return env
}

// probe runs the command once. It returns when the command is gone, which is
// right after ctx ended, except when the kernel cannot end it; then whoever
// runs the checks knows from the missing result that no second one may start.
func (p *execProbe) probe(ctx context.Context) Result {
	if ctx.Err() != nil {
		return (&failure{CauseInternal, "the probe was stopped"}).result("")
	}
	g, err := startGroup(p.argv, p.env)
	if err != nil {
		return startFailure(p.argv[0], err).result("")
	}
	var ended, flooded bool
	select {
	case <-g.exited:
		ended = true
	case <-ctx.Done():
	case <-g.flooded:
		flooded = true
	}
	state := g.finish()
	line := g.firstLine()
	switch {
	case ended:
		return p.judge(state, line)
	case flooded:
		return failf(CauseExec, "killed after it printed more than %d KiB", execOutputLimit>>10).result("")
	case errors.Is(context.Cause(ctx), context.Canceled):
		return (&failure{CauseInternal, "the probe was stopped"}).result("")
	default:
		return withLine(failf(CauseTimeout, "killed because it did not end within %s", (&aim{limit: p.limit}).limitText()), line).result("")
	}
}

// judge takes the exit status as Nagios plugins mean it.
func (p *execProbe) judge(state *os.ProcessState, line string) Result {
	if state == nil {
		return (&failure{CauseExec, "its exit status was lost"}).result("")
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return withLine(failf(CauseExec, "died of signal %d (%s)", ws.Signal(), ws.Signal()), line).result("")
	}
	switch code := state.ExitCode(); {
	case code == nagiosOK:
		return Result{OK: true, Detail: orDefault(line, "exit status 0")}
	case code == nagiosWarning && p.warnOK:
		return Result{OK: true, Detail: strings.TrimSuffix("warning: "+line, ": ")}
	case code == nagiosWarning:
		return withLine(&failure{CauseAnswer, "exit status 1 (warning)"}, line).result("")
	case code == nagiosCritical:
		return withLine(&failure{CauseAnswer, "exit status 2 (critical)"}, line).result("")
	case code == nagiosUnknown:
		return withLine(&failure{CauseExec, "exit status 3 (unknown)"}, line).result("")
	default:
		return withLine(failf(CauseExec, "exit status %d", code), line).result("")
	}
}

func withLine(f *failure, line string) *failure {
	if line != "" {
		f.detail += ": " + line
	}
	return f
}

// startFailure explains why a command could not be started.
func startFailure(name string, err error) *failure {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM:
			return errnoFailure(errno)
		case syscall.EAGAIN:
			return &failure{CauseInternal, "this host has no room for one more process"}
		}
		return failf(CauseExec, "cannot run %s: %s", name, errno)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return failf(CauseExec, "cannot run %s: not found in PATH", name)
	}
	return failf(CauseExec, "cannot run %s: %v", name, err)
}
