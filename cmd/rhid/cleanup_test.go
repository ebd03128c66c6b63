package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rhid/announce/kernel"
)

func TestCleanupSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rhid.yaml")
	text := `
bgp: {asn: 65010}
kernel: {protocol: 160}
vip: {label: "lo:vip"}
nodes: [{name: lb-1, address: 10.1.0.11}]
services:
  - name: web
    vips: [10.255.0.10/32]
    via: [kernel]
    check: {type: tcp, address: "10.9.1.1:80"}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name     string
		args     []string
		protocol int
		label    string
		vips     int
		warns    string
	}{
		{"file", []string{"--config", file}, 160, "lo:vip", 1, ""},
		{"flags beat the file", []string{"--config", file, "--protocol", "170", "--label", "lo:x"}, 170, "lo:x", 1, ""},
		{"no file", []string{"--config", file + ".not"}, 151, "lo:rhid", 0, "rhid: going by the defaults: reading the configuration"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := newCleanupCmd()
			var errOut bytes.Buffer
			cmd.SetErr(&errOut)
			if err := cmd.ParseFlags(tt.args); err != nil {
				t.Fatal(err)
			}
			f := cleanupFlags{config: cmd.Flag("config").Value.String(), label: cmd.Flag("label").Value.String()}
			var err error
			if f.protocol, err = cmd.Flags().GetInt("protocol"); err != nil {
				t.Fatal(err)
			}
			s, err := f.settings(cmd)
			if err != nil {
				t.Fatalf("settings: %v", err)
			}
			got := []any{s.Protocol, s.Label, len(s.VIPs), s.NextHop}
			if diff := cmp.Diff([]any{tt.protocol, tt.label, tt.vips, kernel.NextHopLo}, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(errOut.String(), tt.warns) || (tt.warns == "") != (errOut.Len() == 0) {
				t.Errorf("says %q, want %q", errOut.String(), tt.warns)
			}
		})
	}
}

func TestCleanupReport(t *testing.T) {
	line := "route 10.255.0.10/32 dev lo table 254 proto 151 metric 100"
	failed := errors.New("delete route: operation not permitted")
	tests := []struct {
		name    string
		removed []string
		err     error
		json    bool
		want    string
	}{
		{"nothing", nil, nil, false, "nothing to remove\n"},
		{"one", []string{line}, nil, false, "removed " + line + "\n"},
		{"nothing, JSON", nil, nil, true, "{\n  \"removed\": []\n}\n"},
		{"failed, JSON", nil, failed, true, "{\n  \"removed\": [],\n  \"error\": \"delete route: operation not permitted\"\n}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := newCleanupCmd()
			var out bytes.Buffer
			cmd.SetOut(&out)
			err := reportCleanup(cmd, tt.removed, tt.err, tt.json)
			var ee *exitError
			if wrong := errors.As(err, &ee); wrong != (tt.err != nil) || wrong && ee.code != exitNo {
				t.Errorf("ends with %v", err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}
