package packaging

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStopPost runs the unit's ExecStopPost script with what systemd says of
// the end of the service, and a command in the place of rhid that leaves a
// trace of its argument.
func TestStopPost(t *testing.T) {
	tests := []struct {
		result  string // SERVICE_RESULT
		decided bool   // the marker is there
		cleanup bool   // wanted
	}{
		{"success", true, false},
		{"success", false, false},
		{"signal", true, false},
		{"core-dump", true, false},
		{"oom-kill", true, false},
		{"signal", false, true},
		{"core-dump", false, true},
		{"oom-kill", false, true},
		{"watchdog", true, true},
		{"timeout", true, true},
		{"exit-code", true, true},
		{"exit-code", false, true},
		{"protocol", false, true},
		{"start-limit-hit", true, true},
		{"", true, true}, // not started by systemd: be safe
	}
	for _, tt := range tests {
		name := tt.result + "/fresh"
		if tt.decided {
			name = tt.result + "/decided"
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			trace := filepath.Join(dir, "trace")
			rhid := filepath.Join(dir, "rhid")
			writeFile(t, rhid, "#!/bin/sh\necho \"$@\" >"+trace+"\n", 0o755)
			if tt.decided {
				writeFile(t, filepath.Join(dir, "decided"), "", 0o644)
			}
			cmd := exec.Command("systemd/stop-post")
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "RHID=" + rhid, "RUNTIME_DIRECTORY=" + dir}
			if tt.result != "" {
				cmd.Env = append(cmd.Env, "SERVICE_RESULT="+tt.result)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("stop-post: %v\n%s", err, out)
			}
			got, err := os.ReadFile(trace)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			want := ""
			if tt.cleanup {
				want = "cleanup"
			}
			if g := strings.TrimSpace(string(got)); g != want {
				t.Errorf("rhid was run with %q, want %q", g, want)
			}
			if _, err := os.Stat(filepath.Join(dir, "decided")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the marker is still there for the next life (%v)", err)
			}
		})
	}
}

func writeFile(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
