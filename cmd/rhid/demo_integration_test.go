//go:build integration

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// buildForAll builds rhid where every user can run it.
func buildForAll(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rhid-demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "rhid")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("building rhid: %v\n%s", err, out)
	}
	return bin
}

// demoCmd runs as nobody, when root runs the test: the demo must need no root.
func demoCmd(bin string, out *bytes.Buffer) *exec.Cmd {
	cmd := exec.Command(bin, "demo")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// TestDemo runs the whole script without root and reads its timeline.
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	cmd := demoCmd(buildForAll(t), &out)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("rhid demo: %v\n%s", err, out.String())
	}
	t.Logf("took %s\n%s", time.Since(start).Round(time.Millisecond), out.String())
	for _, row := range []string{
		`all four hosts are started, announcers: all +16 routes: plain anycast +\d`,
		`announcers: 1 \(SIGHUP\) +4 routes: each service at its main host +\d`,
		`the atm server at a1 answers 503 +atm at a2 +\d`,
		`host a1 is killed \(kill -9\) +atm at a2 +\d`,
		`data centre beijing fails: a1 and a2 are killed +atm and pos in shanghai +\d`,
		`b2 is asked to stop \(SIGTERM\) +esign at b1, before b2 withdraws +\d`,
		`b2 is started again +esign back at b2 +\d`,
	} {
		if !regexp.MustCompile(row).MatchString(out.String()) {
			t.Errorf("the timeline has no row %q", row)
		}
	}
}

// TestDemoInterrupted: Ctrl-C in the middle leaves no process and no file.
func TestDemoInterrupted(t *testing.T) {
	bin := buildForAll(t)
	var out bytes.Buffer
	cmd := demoCmd(bin, &out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done: //nolint:errcheck // interrupted: the exit status is 1
	case <-time.After(10 * time.Second):
		t.Fatal("the demo does not end")
	}
	if !strings.Contains(out.String(), "interrupted") {
		t.Errorf("it does not say so:\n%s", out.String())
	}
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, exe := range exes {
		if to, err := os.Readlink(exe); err == nil && strings.HasPrefix(to, bin) {
			t.Errorf("%s still runs %s", exe, to)
		}
	}
	left, err := filepath.Glob("/tmp/rhid-demo-[0-9]*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
