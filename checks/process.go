package checks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	commLength       = 15 // bytes that the kernel keeps of a name
	processReadLimit = 4 << 10
)

// ProcessOptions are the settings of a process check.
type ProcessOptions struct {
	Name    string `yaml:"name" doc:"name of the program, without its directory"`
	PIDFile string `yaml:"pid_file" doc:"file with the process number; with name, that process must have the name"`
	Min     int    `yaml:"min" default:"1" doc:"how many processes of the name there must be"`
}

// NeedsTarget implements Options.
func (*ProcessOptions) NeedsTarget() TargetKind { return TargetNone }

// Problems implements Options.
func (o *ProcessOptions) Problems() []Problem {
	var ps []Problem
	add := func(key, format string, args ...any) {
		ps = append(ps, Problem{Key: key, Msg: fmt.Sprintf(format, args...)})
	}
	if o.Name == "" && o.PIDFile == "" {
		add("name", "is missing: a process check needs name or pid_file")
	}
	if strings.ContainsAny(o.Name, "/\x00") {
		add("name", "%q is not a name without its directory", o.Name)
	}
	if o.PIDFile != "" && !filepath.IsAbs(o.PIDFile) {
		add("pid_file", "%q is not an absolute path", o.PIDFile)
	}
	if o.Min < 0 || o.Min > 1 && o.PIDFile != "" {
		add("min", "%d must be at least 1, and 1 with pid_file", o.Min)
	}
	return ps
}

// processProbe is a process check.
type processProbe struct {
	proc    string // where the processes are
	name    string
	pidFile string
	min     int
}

// Prober implements Options.
func (o *ProcessOptions) Prober(Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("process check: %s %s", ps[0].Key, ps[0].Msg)
	}
	p := &processProbe{proc: "/proc", name: o.Name, pidFile: o.PIDFile, min: max(o.Min, 1)}
	return timed(p.probe), nil
}

func (p *processProbe) probe(ctx context.Context) Result {
	if p.pidFile != "" {
		return p.byFile()
	}
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return failf(CauseInternal, "the processes cannot be listed: %v", err).result("")
	}
	var found, dead int
	for _, e := range entries {
		if ctx.Err() != nil {
			return (&failure{CauseTimeout, "the processes were not all looked at in time"}).result("")
		}
		if !digits(e.Name()) || !p.named(e.Name()) {
			continue
		}
		if p.alive(e.Name()) {
			found++
		} else {
			dead++
		}
	}
	if found < p.min {
		return failf(CauseAnswer, "%s: %d of %d processes run%s", p.name, found, p.min, deadText(dead)).result("")
	}
	return Result{OK: true, Detail: fmt.Sprintf("%s runs, number of processes: %d", p.name, found)}
}

func deadText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d that ended and were not cleared away", n)
}

// byFile looks at the process that a file names.
func (p *processProbe) byFile() Result {
	text, err := p.read(p.pidFile)
	pid := strings.TrimSpace(string(text))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failf(CauseAnswer, "%s is not there", p.pidFile).result("")
	case err != nil:
		return failf(CauseInternal, "%s cannot be read: %v", p.pidFile, err).result("")
	}
	if n, err := strconv.Atoi(pid); err != nil || n < 1 {
		return failf(CauseAnswer, "%s has %s, which is not a process number", p.pidFile, quoted(text, quoteLimit)).result("")
	}
	switch {
	case !p.alive(pid):
		return failf(CauseAnswer, "process %s of %s does not run", pid, p.pidFile).result("")
	case p.name != "" && !p.named(pid):
		return failf(CauseAnswer, "process %s of %s is not %s", pid, p.pidFile, p.name).result("")
	}
	return Result{OK: true, Detail: fmt.Sprintf("process %s runs", pid)}
}

// named says whether a process is of the program: by the name that the kernel
// keeps, of which it keeps the beginning only, and by that of its command line
// beyond.
func (p *processProbe) named(pid string) bool {
	comm, err := p.read(filepath.Join(p.proc, pid, "comm"))
	if err != nil || string(bytes.TrimRight(comm, "\n")) != p.name[:min(len(p.name), commLength)] {
		return false // gone meanwhile, or another
	}
	if len(p.name) <= commLength {
		return true
	}
	line, err := p.read(filepath.Join(p.proc, pid, "cmdline"))
	first, _, _ := bytes.Cut(line, []byte{0})
	return err == nil && filepath.Base(string(first)) == p.name
}

// alive says whether a process is there and more than a zombie.
func (p *processProbe) alive(pid string) bool {
	stat, err := p.read(filepath.Join(p.proc, pid, "stat"))
	if err != nil {
		return false
	}
	// The name stands in parentheses and may have some itself.
	after := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " ")
	return len(after) > 0 && after[0] != 'Z' && after[0] != 'X'
}

func (p *processProbe) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, processReadLimit))
}
