package checks

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// procFiles writes what a prober reads in the place of /proc.
func procFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func calmHost() map[string]string {
	return map[string]string{
		"stat":           "cpu  1000 0 500 8000 500 0 0 0 0 0\ncpu0 1 2 3\n",
		"meminfo":        "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n",
		"sys/fs/file-nr": "1000\t0\t100000\n",
	}
}

// withFiles are those of a calm host, with some put in their place.
func withFiles(files map[string]string) map[string]string {
	out := calmHost()
	maps.Copy(out, files)
	return out
}

func TestLoad(t *testing.T) {
	// One second of two processors, 100 units each: 190 used.
	busy := "cpu  1150 0 520 8005 505 10 5 5 0 0\n"
	table := map[string]string{"sys/net/netfilter/nf_conntrack_count": "81\n", "sys/net/netfilter/nf_conntrack_max": "100\n"}
	tests := []struct {
		name   string
		opts   LoadOptions
		second map[string]string
		want   outcome
	}{
		{"calm", LoadOptions{}, map[string]string{"stat": "cpu  1010 0 500 8180 510 0 0 0 0 0\n"},
			outcome{true, CauseNone, "cpu 5 %, memory 40 %, files 1 %"}},
		{"cpu", LoadOptions{}, map[string]string{"stat": busy},
			outcome{false, CauseAnswer, "cpu 95 % used, at most 90 % allowed, memory 40 %, files 1 %"}},
		{"cpu is not looked at", LoadOptions{CPU: 100}, map[string]string{"stat": busy},
			outcome{true, CauseNone, "memory 40 %, files 1 %"}},
		{"clock of the processors went back", LoadOptions{}, map[string]string{"stat": "cpu  1 0 0 1 0 0 0 0 0 0\n"},
			outcome{true, CauseNone, "memory 40 %, files 1 %"}},
		{"memory", LoadOptions{}, map[string]string{"meminfo": "MemTotal: 1000 kB\nMemAvailable: 50 kB\n"},
			outcome{false, CauseAnswer, "memory 95 % used, at most 90 % allowed, files 1 %"}},
		{"files", LoadOptions{Files: 50}, map[string]string{"sys/fs/file-nr": "51000 0 100000\n"},
			outcome{false, CauseAnswer, "files 51 % used, at most 50 % allowed, memory 40 %"}},
		{"conntrack", LoadOptions{}, table,
			outcome{false, CauseAnswer, "conntrack 81 % used, at most 80 % allowed, memory 40 %, files 1 %"}},
		{"two at once", LoadOptions{Memory: 30, Files: 100}, table,
			outcome{false, CauseAnswer, "memory 40 % used, at most 30 % allowed, conntrack 81 % used, at most 80 % allowed"}},
		{"not Linux as we know it", LoadOptions{}, map[string]string{"meminfo": "MemTotal: x kB\n"},
			outcome{false, CauseInternal, "the load of this host cannot be read: /proc/meminfo has no MemTotal and MemAvailable that fit together"}},
		{"no numbers", LoadOptions{}, map[string]string{"sys/fs/file-nr": "1 2\n"},
			outcome{false, CauseInternal, "the load of this host cannot be read: /proc/sys/fs/file-nr: has 2 numbers instead of 3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			p := &loadProbe{proc: dir, limits: tt.opts.limits()}
			procFiles(t, dir, calmHost())
			if res := timed(p.probe).Probe(t.Context()); res.Cause == CauseInternal {
				t.Errorf("a calm host: %+v", res)
			}
			procFiles(t, dir, withFiles(tt.second))
			wantOutcome(t, timed(p.probe).Probe(t.Context()), tt.want)
		})
	}
}

// This host, whatever it is, can be read.
func TestLoadOfThisHost(t *testing.T) {
	p, err := (&LoadOptions{CPU: 100, Memory: 99, Files: 99, Conntrack: 99}).Prober(Target{Limit: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if res := p.Probe(t.Context()); res.Cause == CauseInternal || res.Detail == "" {
		t.Errorf("%+v", res)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("cpu  1 2 3 4 5 6 7 8 9 10\n"))
	f.Add([]byte("cpu  18446744073709551615 1 1 1 1 1 1 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		procFiles(t, dir, map[string]string{"stat": string(b)})
		p := &loadProbe{proc: dir}
		if _, known, err := p.cpu(); err == nil && known {
			t.Error("known from the first probe on")
		}
		_, _ = numbers(b, 3)
		_, _ = meminfo(b, "MemTotal:")
	})
}
