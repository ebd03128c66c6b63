//go:build integration

package main

import (
	"bytes"
	"io"
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
// Its files are in directory tmp beside the binary.
func demoCmd(t *testing.T, bin string, out io.Writer) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	tmp = filepath.Join(filepath.Dir(bin), "tmp")
	err := os.Mkdir(tmp, 0o700)
	if err == nil {
		err = os.Chmod(tmp, 0o777) // whatever the umask
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(bin, "demo")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd, tmp
}

// TestDemo runs the whole script without root and reads its timeline.
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	cmd, _ := demoCmd(t, buildForAll(t), &out)
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
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	said := func() string {
		b, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	cmd, tmp := demoCmd(t, bin, out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(said(), " from b2: "); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no host of four announces:\n%s", said())
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done: //nolint:errcheck // interrupted: the exit status is 1
	case <-time.After(time.Minute):
		t.Fatal("the demo does not end")
	}
	if !strings.Contains(said(), "interrupted") {
		t.Errorf("it does not say so:\n%s", said())
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
	left, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
