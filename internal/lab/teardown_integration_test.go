//go:build integration

package lab_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

// childEnv makes the test binary build a lab and wait, to be killed.
const childEnv = "RHID_LAB_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// child prints the process ids of a lab's holders and then waits for ever.
func child() int {
	l, err := lab.Up(context.Background(), pair, lab.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var pids []string
	for _, n := range l.Nodes() {
		pids = append(pids, strconv.Itoa(n.Pid()))
	}
	fmt.Println(strings.Join(pids, " "))
	select {}
}

// namespaces returns the identities of the namespaces of processes.
func namespaces(t *testing.T, pids []string) []string {
	t.Helper()
	var out []string
	for _, pid := range pids {
		for _, kind := range []string{"net", "mnt", "pid", "uts", "ipc"} {
			id, err := os.Readlink("/proc/" + pid + "/ns/" + kind)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, id)
		}
	}
	return out
}

// users lists the threads on this machine that are in any of the namespaces.
func users(t *testing.T, namespaces []string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/task/*/ns/*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range links {
		if id, err := os.Readlink(l); err == nil && slices.Contains(namespaces, id) {
			out = append(out, l)
		}
	}
	return out
}

// hostState is what a lab must leave as it was: the host's mounts, and routes
// that look like rhid's. Named namespaces are left out: other tests make some.
func hostState(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	mounts := slices.DeleteFunc(strings.Split(string(data), "\n"), func(m string) bool { return strings.Contains(m, "/netns") })
	routes, err := exec.Command("ip", "route", "show", "table", "all", "proto", "151").Output()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("mounts:\n%s\nrhid's routes:\n%s", strings.Join(mounts, "\n"), routes)
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func TestCloseLeavesNothing(t *testing.T) {
	useAndClose(t) // the runtime opens files of its own the first time
	files := openFiles(t)
	useAndClose(t)
	waitUntil(t, "all files to be closed", func() bool { return openFiles(t) <= files })
}

// useAndClose has everything of a lab in use when it is closed.
func useAndClose(t *testing.T) {
	t.Helper()
	before := hostState(t)
	l, err := lab.Up(context.Background(), pair, lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := l.Node("a")
	a.Start("deaf", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	l.Node("b").Serve(":9100")
	a.Probe("10.0.0.2:9100", tick)
	a.Capture("")
	a.WatchFIB("10.0.0.0/24")
	a.LongStreams("10.0.0.2:9100", 3)
	var pids []string
	for _, n := range l.Nodes() {
		pids = append(pids, strconv.Itoa(n.Pid()))
	}
	ns := namespaces(t, pids)
	if got := users(t, ns); len(got) == 0 {
		t.Fatal("nobody is in the namespaces while the lab runs: the test looks in the wrong place")
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	waitUntil(t, "all threads to leave", func() bool { return len(users(t, ns)) == 0 })
	sameHost(t, before)
	if _, err := a.Run("true"); err == nil {
		t.Error("a node of a closed lab still runs commands")
	}
}

func TestKilledTestLeavesNothing(t *testing.T) {
	before := hostState(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pids := strings.Fields(line)
	ns := namespaces(t, pids)
	if got := users(t, ns); len(got) < 2*len(ns) {
		t.Fatalf("too few threads in the namespaces while the lab runs: %v", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended well")
	}
	waitUntil(t, "everything of the killed lab to be gone", func() bool { return len(users(t, ns)) == 0 })
	for _, pid := range pids {
		waitUntil(t, "holder "+pid+" to be gone", func() bool { _, err := os.Stat("/proc/" + pid); return err != nil })
	}
	sameHost(t, before)
}

func TestFailedStartLeavesNothing(t *testing.T) {
	before, files := hostState(t), openFiles(t)
	_, err := lab.Up(context.Background(), "testdata/bad/bad.clab.yml", lab.Options{})
	if err == nil || !strings.Contains(err.Error(), "a: false: exit status 1") {
		t.Errorf("error %v", err)
	}
	waitUntil(t, "all files to be closed", func() bool { return openFiles(t) <= files })
	sameHost(t, before)
}

// sameHost waits until nothing is on the host that was not there before. What
// others take away meanwhile is none of a lab's.
func sameHost(t *testing.T, before string) {
	t.Helper()
	waitUntil(t, "the host to have nothing more than\n"+before, func() bool {
		was := strings.Split(before, "\n")
		for line := range strings.SplitSeq(hostState(t), "\n") {
			i := slices.Index(was, line)
			if i < 0 {
				return false
			}
			was = slices.Delete(was, i, i+1)
		}
		return true
	})
}

func waitUntil(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute) // the host's init may be slow to reap what was orphaned
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
