package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const exampleFile = "../../packaging/examples/one-node.yaml"

// runConfig executes "rhid config" and returns what it wrote and its status.
func runConfig(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := newConfigCmd()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out, errOut bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs(args)
	err := cmd.Execute()
	var ee *exitError
	switch {
	case errors.As(err, &ee):
		status = ee.code
	case err != nil:
		t.Fatalf("error without an exit status: %v", err)
	}
	return out.String(), errOut.String(), status
}

func writeWrong(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.NewReplacer("timeout: 500ms", "timeout: 2s", "asn: 65000", "asn: x").Replace(string(text))
	file := filepath.Join(t.TempDir(), "rhid.yaml")
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConfigCheck(t *testing.T) {
	file := writeWrong(t)
	tests := []struct {
		name           string
		args           []string
		stdout, stderr string
		status         int
	}{
		{"right", []string{"check", exampleFile}, exampleFile + ": ok: 2 services, 1 node\n", "", 0},
		{"wrong", []string{"check", file}, "", file + `:12:14: nodes[0] "lb-1": routers[0].asn: must be a whole number, not "x"` + "\n" +
			file + `:35:47: services[1] "pos": check.timeout: 2s must be shorter than interval 1s` + "\n", exitUsage},
		{"no file", []string{"check", file + ".none"}, "", "", exitUsage},
		{"form", []string{"check", "-o", "xml", file}, "", "", exitUsage},
		{"show wrong", []string{"show", file + ".none"}, "", "", exitUsage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, status := runConfig(t, tt.args...)
			got := []any{stdout, stderr, status}
			if diff := cmp.Diff([]any{tt.stdout, tt.stderr, tt.status}, got); diff != "" {
				t.Errorf("stdout, stderr, status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigCheckJSON(t *testing.T) {
	stdout, stderr, status := runConfig(t, "check", "-o", "json", writeWrong(t))
	var report checkReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if status != exitUsage || stderr != "" || report.OK || len(report.Errors) != 2 {
		t.Fatalf("status %d, stderr %q, report %+v", status, stderr, report)
	}
	if e := report.Errors[1]; e.Line != 35 || e.Path != "services[1].check.timeout" || e.Item != "pos" {
		t.Errorf("second error is %+v", e)
	}
	stdout, _, status = runConfig(t, "check", "-o", "json", exampleFile)
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if status != 0 || !report.OK || report.Services != 2 || len(report.Digest) != 64 {
		t.Errorf("status %d, report %+v", status, report)
	}
}

func TestConfigCheckWithoutFiles(t *testing.T) {
	text := `
bgp: {asn: 65010}
nodes: [{name: a, address: 10.1.0.11, routers: [{address: 10.1.0.1, asn: 65000, password_file: /nowhere/pw}]}]
`
	file := filepath.Join(t.TempDir(), "rhid.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := runConfig(t, "check", file); status != exitUsage || !strings.Contains(stderr, "/nowhere/pw cannot be read") {
		t.Errorf("with files: status %d, stderr %q", status, stderr)
	}
	if _, stderr, status := runConfig(t, "check", "--no-files", file); status != 0 {
		t.Errorf("without files: status %d, stderr %q", status, stderr)
	}
}

func TestConfigShowAndSchema(t *testing.T) {
	stdout, _, status := runConfig(t, "show", exampleFile)
	if status != 0 || !strings.Contains(stdout, "    fast_interval: 1s\n") {
		t.Errorf("show: status %d:\n%s", status, stdout)
	}
	stdout, _, status = runConfig(t, "schema")
	if status != 0 || !json.Valid([]byte(stdout)) {
		t.Errorf("schema: status %d:\n%.200s", status, stdout)
	}
}

func TestConfigRouter(t *testing.T) {
	wrong := writeWrong(t)
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		out    string // part of what is written
	}{
		{"frr", []string{"router", exampleFile}, 0, "router bgp 65000\n"},
		{"bird", []string{"router", exampleFile, "--for", "bird"}, 0, "protocol bgp rhid1 {"},
		{"unknown system", []string{"router", exampleFile, "--for", "junos"}, exitUsage, ""},
		{"no kernel service", []string{"router", exampleFile, "--via", "kernel"}, exitUsage, ""},
		{"wrong configuration", []string{"router", wrong}, exitUsage, ""},
		{"no file", []string{"router", "/does/not/exist"}, exitUsage, ""},
	} {
		out, _, status := runConfig(t, tt.args...)
		if status != tt.status || !strings.Contains(out, tt.out) || tt.out == "" && out != "" {
			t.Errorf("%s: status %d, want %d, and %q in:\n%s", tt.name, status, tt.status, tt.out, out)
		}
	}
}
