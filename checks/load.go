package checks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LoadOptions are the settings of a load check. All are percentages.
type LoadOptions struct {
	CPU       int `yaml:"cpu" default:"90" doc:"percentage of all processors' time that may be used, on average since the last probe; 100 looks away"`
	Memory    int `yaml:"memory" default:"90" doc:"percentage of memory that may be used, counting what the kernel can take back as free; 100 looks away"`
	Files     int `yaml:"files" default:"80" doc:"percentage of the host's open files (fs.file-max) that may be used; 100 looks away"`
	Conntrack int `yaml:"conntrack" default:"80" doc:"percentage of the connection tracking table that may be used, where there is one; 100 looks away"`
}

// NeedsTarget implements Options.
func (*LoadOptions) NeedsTarget() TargetKind { return TargetNone }

// Problems implements Options.
func (o *LoadOptions) Problems() []Problem {
	var ps []Problem
	for _, l := range o.limits() {
		if l.percent < 1 || l.percent > 100 {
			ps = append(ps, Problem{l.what, fmt.Sprintf("%d is not a percentage from 1 to 100", l.percent)})
		}
	}
	return ps
}

// loadLimit is how much of something may be used.
type loadLimit struct {
	what    string
	percent int
}

// limits are all of them, with defaults, in the order of the answer's sentence.
func (o *LoadOptions) limits() [4]loadLimit {
	return [4]loadLimit{
		{"cpu", cmp.Or(o.CPU, 90)}, {"memory", cmp.Or(o.Memory, 90)},
		{"files", cmp.Or(o.Files, 80)}, {"conntrack", cmp.Or(o.Conntrack, 80)},
	}
}

// loadProbe is a load check.
type loadProbe struct {
	proc   string // where procfs is mounted
	limits [4]loadLimit
	last   cpuTimes // at the last probe; probes of one Prober never overlap
}

// Prober implements Options.
func (o *LoadOptions) Prober(Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("load check: %s %s", ps[0].Key, ps[0].Msg)
	}
	p := &loadProbe{proc: "/proc", limits: o.limits()}
	return timed(p.probe), nil
}

func (p *loadProbe) probe(context.Context) Result {
	readers := [4]func() (used float64, known bool, err error){p.cpu, p.memory, p.files, p.conntrack}
	var over, under []string
	for i, read := range readers {
		limit := p.limits[i]
		if limit.percent == 100 {
			continue
		}
		used, known, err := read()
		switch {
		case err != nil:
			return failf(CauseInternal, "the load of this host cannot be read: %v", err).result("")
		case !known:
		case used > float64(limit.percent):
			over = append(over, fmt.Sprintf("%s %.0f %% used, at most %d %% allowed", limit.what, used, limit.percent))
		default:
			under = append(under, fmt.Sprintf("%s %.0f %%", limit.what, used))
		}
	}
	if len(over) > 0 {
		return failf(CauseAnswer, "%s", strings.Join(append(over, under...), ", ")).result("")
	}
	if len(under) == 0 {
		return Result{OK: true, Detail: "nothing is known yet"}
	}
	return Result{OK: true, Detail: strings.Join(under, ", ")}
}

// cpuTimes are what the kernel counts since boot, in its own unit.
type cpuTimes struct{ busy, all uint64 }

// cpu is known from the second probe on. Waiting for a disk is idle; time that
// a hypervisor stole counts as used, because nobody here can have it.
func (p *loadProbe) cpu() (float64, bool, error) {
	b, err := p.read("stat")
	if err != nil {
		return 0, false, err
	}
	now, err := parseStat(b)
	if err != nil {
		return 0, false, err
	}
	was := p.last
	p.last = now
	if was.all == 0 || now.all <= was.all || now.busy < was.busy {
		return 0, false, nil
	}
	return percent(now.busy-was.busy, now.all-was.all), true, nil
}

// parseStat reads the first line of /proc/stat (proc(5)): user nice system
// idle iowait irq softirq steal, and guest times that user has in it already.
func parseStat(b []byte) (cpuTimes, error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f := strings.Fields(string(line))
	if len(f) < 9 || f[0] != "cpu" {
		return cpuTimes{}, errors.New("/proc/stat does not begin with the time of all processors")
	}
	var t cpuTimes
	for i, text := range f[1:9] {
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return cpuTimes{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t.all += v
		if i != 3 && i != 4 { // idle, iowait
			t.busy += v
		}
	}
	return t, nil
}

func (p *loadProbe) memory() (float64, bool, error) {
	b, err := p.read("meminfo")
	if err != nil {
		return 0, false, err
	}
	total, ok1 := meminfo(b, "MemTotal:")
	free, ok2 := meminfo(b, "MemAvailable:")
	if !ok1 || !ok2 || total == 0 || free > total {
		return 0, false, errors.New("/proc/meminfo has no MemTotal and MemAvailable that fit together")
	}
	return percent(total-free, total), true, nil
}

// meminfo finds one value of /proc/meminfo, in KiB.
func meminfo(b []byte, key string) (uint64, bool) {
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == key {
			v, err := strconv.ParseUint(f[1], 10, 64)
			return v, err == nil
		}
	}
	return 0, false
}

// files reads /proc/sys/fs/file-nr: allocated, always 0, limit.
func (p *loadProbe) files() (float64, bool, error) {
	b, err := p.read("sys/fs/file-nr")
	if err != nil {
		return 0, false, err
	}
	v, err := numbers(b, 3)
	if err != nil {
		return 0, false, fmt.Errorf("/proc/sys/fs/file-nr: %w", err)
	}
	return percent(v[0], v[2]), true, nil
}

// conntrack is unknown on a host without connection tracking.
func (p *loadProbe) conntrack() (float64, bool, error) {
	const dir = "sys/net/netfilter/"
	b, err := p.read(dir + "nf_conntrack_count")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	limit, err2 := p.read(dir + "nf_conntrack_max")
	if err := errors.Join(err, err2); err != nil {
		return 0, false, err
	}
	v, err := numbers(append(append(b, ' '), limit...), 2)
	if err != nil {
		return 0, false, fmt.Errorf("/proc/%snf_conntrack_count and _max: %w", dir, err)
	}
	return percent(v[0], v[1]), v[1] > 0, nil
}

func (p *loadProbe) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(p.proc, name))
}

// numbers reads exactly n of them.
func numbers(b []byte, n int) ([]uint64, error) {
	f := strings.Fields(string(b))
	if len(f) != n {
		return nil, fmt.Errorf("has %d numbers instead of %d", len(f), n)
	}
	out := make([]uint64, n)
	for i, text := range f {
		var err error
		if out[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}
