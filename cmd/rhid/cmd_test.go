package main

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/announce"
	"rhid/internal/control"
	"rhid/services"
)

func TestExitStatus(t *testing.T) {
	none := filepath.Join(t.TempDir(), "no-socket")
	tests := []struct {
		args []string
		want int
	}{
		{[]string{"version"}, 0},
		{[]string{"completion", "bash"}, 0},
		{[]string{"config", "schema"}, 0},
		{[]string{"nonsense"}, exitUsage},
		{[]string{"status", "--nonsense"}, exitUsage},
		{[]string{"status", "nonsense"}, exitUsage},
		{[]string{"explain"}, exitUsage},
		{[]string{"status", "-o", "yaml"}, exitUsage},
		{[]string{"config", "check", "/does/not/exist"}, exitUsage},
		{[]string{"run", "-c", "/does/not/exist"}, exitUsage},
		{[]string{"status", "--socket", none}, exitUnreachable},
		{[]string{"explain", "atm", "--socket", none}, exitUnreachable},
		{[]string{"events", "--socket", none}, exitUnreachable},
		{[]string{"reload", "--socket", none}, exitUnreachable},
		{[]string{"checks", "--socket", none}, exitUnreachable},
		{[]string{"checks", "types"}, 0},
		{[]string{"checks", "types", "tcp"}, 0},
		{[]string{"checks", "types", "tpc"}, exitUsage},
		{[]string{"checks", "test", "web", "-c", "/does/not/exist"}, exitUsage},
		{[]string{"keys", "generate"}, 0},
		{[]string{"report", "atm", "ok", "--count", "3", "--latency", "5ms", "--socket", none}, exitUnreachable},
		{[]string{"report", "atm"}, exitUsage},
		{[]string{"report", "atm", "good"}, exitUsage},
		{[]string{"report", "atm", "ok", "--count", "0"}, exitUsage},
		{[]string{"report", "atm", "fail", "--latency", "5ms"}, exitUsage},
		{[]string{"drain", "node:lb-1", "--socket", none}, exitUnreachable},
		{[]string{"drain", "lb-1"}, exitUsage},
		{[]string{"undrain", "rack:1"}, exitUsage},
		{[]string{"switch", "atm"}, exitUsage},
		{[]string{"switch", "atm", "--to", "a", "--auto"}, exitUsage},
		{[]string{"plan"}, exitUsage},
		{[]string{"plan", "--each", "rack", "-c", "../../packaging/examples/one-node.yaml"}, exitUsage},
		{[]string{"plan", "--fail", "node:zz", "-c", "../../packaging/examples/one-node.yaml"}, exitUsage},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			if got := run(tt.args, &out, &errs); got != tt.want {
				t.Errorf("exit status %d, want %d; %s", got, tt.want, errs.String())
			}
			if tt.want != 0 && strings.Count(errs.String(), "\n") != 1 {
				t.Errorf("an error is one line, got %q", errs.String())
			}
			if tt.want == 0 && out.Len() == 0 {
				t.Error("nothing on standard output")
			}
		})
	}
}

func TestPrintStatus(t *testing.T) {
	now := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	s := control.Status{
		Node: "lb-1", Version: "1.0", State: "running", Started: now.Add(-26 * time.Hour), Config: control.ConfigState{Digest: "0123456789abcdef"},
		Services: []control.Service{
			{
				Name: "atm", Verdict: services.Announce, Readiness: services.Ready, Since: now.Add(-90 * time.Second),
				Reason: services.Reason{Code: services.CodeChosen, Evidence: "2 of 2 servers up"}, Holders: []control.Holder{{Node: "lb-1"}},
				VIPs: []announce.VIPStatus{{
					Prefix: netip.MustParsePrefix("10.255.0.10/32"),
					Local:  announce.RouteStatus{Wanted: true, Here: true, Places: []announce.Place{{Name: "lo", State: announce.Present}}},
					Routes: map[string]announce.RouteStatus{"bgp": {
						Wanted: true, Here: true, Differs: now.Add(-12 * time.Second),
						Places: []announce.Place{
							{Name: "10.1.0.1", State: announce.Present},
							{Name: "10.1.0.2", State: announce.Pending, Why: "session not established: connection refused"},
						},
					}},
				}},
			},
			{
				Name: "pos", Verdict: services.Withdraw, Readiness: services.Down, Since: now.Add(-time.Second),
				Reason: services.Reason{Code: services.CodePoolDown, Evidence: "0 of 2 servers up"},
			},
		},
		Neighbours: []control.Neighbour{{Name: "tor", Address: "10.1.0.1", ASN: 65000, State: "established", Since: now.Add(-time.Hour), Exported: 1, BFD: &control.BFD{State: "up", IntervalMS: 100, DetectionMS: 300}}},
		Alarms:     []control.Alarm{{Code: "wanted-not-actual", What: "10.255.0.10/32 bgp", Detail: "wanted announced, and not so for 12s"}},
	}
	const want = `node lb-1: running for 1d02h, rhid 1.0, configuration 0123456789ab

SERVICE  VERDICT   RANK  READINESS  SINCE  ANNOUNCED-BY  REASON
atm      announce  0     ready      1m30s  lb-1          chosen: 2 of 2 servers up
pos      withdraw  -     down       1s     -             pool-down: 0 of 2 servers up

PREFIX          TARGET   WANTED  ACTUAL                 PLACES
10.255.0.10/32  address  yes     yes                    lo present
10.255.0.10/32  bgp      yes     yes (differs for 12s)  10.1.0.1 present, 10.1.0.2 pending (session not established: connection refused)

NEIGHBOUR  ADDRESS   ASN    STATE        SINCE  EXPORTED  RECEIVED  BFD            NOTE
tor        10.1.0.1  65000  established  1h00m  1         0         up 100/300 ms  

ALARM wanted-not-actual 10.255.0.10/32 bgp: wanted announced, and not so for 12s
`
	var b bytes.Buffer
	printStatus(&b, s, nil, now)
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// A drain of a service is safe once no part of it is announced.
func TestStillServesParts(t *testing.T) {
	s := control.Status{
		Parts:   map[string][]string{"atm": {"atm-ipv4", "atm-ipv6"}},
		Cluster: &control.Cluster{Nodes: []control.Node{{Name: "a", Announcing: []string{"atm-ipv6", "pos"}}, {Name: "b", Announcing: []string{"atm-ipv4"}}}},
	}
	for what, want := range map[string]string{
		"service:atm": "a still announces atm-ipv6, b still announces atm-ipv4", "service:atm@a": "a still announces atm-ipv6",
		"service:atm-ipv4": "b still announces atm-ipv4", "service:atm-ipv4@a": "", "service:pos": "a still announces pos",
	} {
		if got := strings.Join(stillServes(s, what), ", "); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
}
