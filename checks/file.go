package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

const fileReadLimit = 64 << 10 // bytes of a file that are looked at

// FileOptions are the settings of a file check.
type FileOptions struct {
	Path   string        `yaml:"path" required:"true" doc:"the file, as an absolute path"`
	MaxAge time.Duration `yaml:"max_age" doc:"how long ago it may have been changed; any time by default"`
	Expect string        `yaml:"expect" doc:"regular expression (RE2) that must match within its first 64 KiB"`
	Absent bool          `yaml:"absent" doc:"it must not be there"`
}

// NeedsTarget implements Options.
func (*FileOptions) NeedsTarget() TargetKind { return TargetNone }

// Problems implements Options.
func (o *FileOptions) Problems() []Problem {
	var ps []Problem
	add := func(key, format string, args ...any) {
		ps = append(ps, Problem{Key: key, Msg: fmt.Sprintf(format, args...)})
	}
	if !filepath.IsAbs(o.Path) {
		add("path", "%q is not an absolute path", o.Path)
	}
	if o.MaxAge < 0 {
		add("max_age", "%s is negative", o.MaxAge)
	}
	if _, err := regexp.Compile(o.Expect); err != nil {
		add("expect", "is not a regular expression: %v", err)
	}
	if o.Absent && (o.MaxAge != 0 || o.Expect != "") {
		add("absent", "cannot stand together with max_age or expect")
	}
	return ps
}

// fileProbe is a file check.
type fileProbe struct {
	path   string
	maxAge time.Duration
	expect *regexp.Regexp // nil without
	absent bool
}

// Prober implements Options.
func (o *FileOptions) Prober(Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("file check: %s %s", ps[0].Key, ps[0].Msg)
	}
	p := &fileProbe{path: o.Path, maxAge: o.MaxAge, absent: o.Absent}
	if o.Expect != "" {
		var err error
		if p.expect, err = regexp.Compile(o.Expect); err != nil {
			return nil, fmt.Errorf("file check: expect: %w", err)
		}
	}
	return timed(func(context.Context) Result { return p.look(time.Now()) }), nil
}

// look looks at the file. That of a file system that hangs is nothing that a
// context could end; whoever runs checks copes with it.
func (p *fileProbe) look(now time.Time) Result {
	info, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.absent:
		return Result{OK: true, Detail: p.path + " is not there"}
	case err != nil:
		return p.failure(err).result("")
	case p.absent:
		return failf(CauseAnswer, "%s is there", p.path).result("")
	case !info.Mode().IsRegular():
		return failf(CauseAnswer, "%s is not a file", p.path).result("")
	}
	age := max(now.Sub(info.ModTime()), 0).Round(time.Second)
	if p.maxAge > 0 && age > p.maxAge {
		return failf(CauseAnswer, "%s was changed %s ago, at most %s are allowed", p.path, age, p.maxAge).result("")
	}
	if p.expect != nil {
		if f := p.read(); f != nil {
			return f.result("")
		}
	}
	return Result{OK: true, Detail: fmt.Sprintf("%s was changed %s ago", p.path, age)}
}

// read looks for the expression. O_NONBLOCK is for a pipe that has taken the
// file's place since.
func (p *fileProbe) read() *failure {
	f, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return p.failure(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileReadLimit))
	if err != nil {
		return p.failure(err)
	}
	if !p.expect.Match(text) {
		return failf(CauseAnswer, "%s has %s, which does not match %s", p.path, quoted(text, quoteLimit), quoted([]byte(p.expect.String()), quoteLimit))
	}
	return nil
}

func (p *fileProbe) failure(err error) *failure {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failf(CauseAnswer, "%s is not there", p.path)
	case errors.Is(err, fs.ErrPermission):
		return failf(CauseInternal, "this process may not read %s", p.path)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if f := errnoFailure(errno); f != nil && f.cause == CauseInternal {
			return f
		}
		return failf(CauseAnswer, "%s cannot be read: %s", p.path, errno)
	}
	return failf(CauseAnswer, "%s cannot be read: %v", p.path, err)
}
