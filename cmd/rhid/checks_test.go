package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rhid/checks"
	"rhid/internal/control"
)

// clustered is a daemon on node a1 that is asked about checks; b1 has one that
// is down, and b2 is dead.
type clustered struct{ control.Source }

func (clustered) Status(context.Context) (control.Status, error) {
	return control.Status{
		Node: "a1", Services: []control.Service{{Name: "atm"}},
		Cluster: &control.Cluster{Nodes: []control.Node{{Name: "a1"}, {Name: "b1"}, {Name: "b2"}}},
	}, nil
}

func (clustered) Checks(_ context.Context, of, node string) ([]control.CheckState, error) {
	up := control.CheckState{Status: checks.Status{ID: "echo@10.9.1.1:9100", State: checks.Up}, Services: []string{"atm"}}
	down := up
	down.State, down.Since, down.NextRun = checks.Down, time.Now().Add(-26*time.Hour), time.Now().Add(time.Hour)
	down.Why, down.Recent = "3 of 3 failed: connection refused", []checks.Result{{OK: true}, {}, {}, {}}
	switch of + "/" + node {
	case "/", "atm/":
		return []control.CheckState{up}, nil
	case "b1/", "/b1", "atm/b1":
		return []control.CheckState{up, down}, nil
	case "b2/":
		return nil, fmt.Errorf("%w: b2 does not answer: it is dead", control.ErrAway)
	default:
		return nil, fmt.Errorf("%w: there is no service %q", control.ErrNotFound, of)
	}
}

func TestChecksOfNodes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := control.Listen(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- control.Serve(ctx, l, clustered{}, slog.New(slog.DiscardHandler)) }()
	for _, tt := range []struct {
		args string
		want int
		says string // a part of what is printed
	}{
		{"checks", 0, "echo@10.9.1.1:9100  up"},
		{"checks atm", 0, "echo@10.9.1.1:9100  up"},
		{"checks b1", exitNo, "down   1d02h  .xxx  -"},
		{"checks atm --node b1", exitNo, "3 of 3 failed: connection refused"},
		{"checks --node b1 -o json", exitNo, `"state": "down"`},
		{"checks b2", exitUnreachable, "rhid: out of reach: b2 does not answer: it is dead"},
		{"checks zz", exitNo, `rhid: not found: there is no service "zz"`},
		{"checks a b", exitUsage, "accepts at most 1 arg(s)"},
		{"__complete checks ", 0, "atm\na1\nb1\nb2\n:4\n"},
		{"__complete checks b1 ", 0, ":4\n"},
		{"__complete checks --node ", 0, "a1\nb1\nb2\n:4\n"},
	} {
		args := strings.Split(tt.args, " ")
		i := len(args)
		if args[0] == "__complete" {
			i = 2
		}
		args = append(args[:i:i], append([]string{"--socket", socket}, args[i:]...)...)
		var out, errs bytes.Buffer
		if got := run(args, &out, &errs); got != tt.want || !strings.Contains(out.String()+errs.String(), tt.says) {
			t.Errorf("rhid %s: exit status %d, want %d with %q:\n%s%s", tt.args, got, tt.want, tt.says, out.String(), errs.String())
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
