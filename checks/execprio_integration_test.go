//go:build integration

package checks

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The daemon runs at nice -5. What it starts to check something must not.
func TestExecPriority(t *testing.T) {
	runtime.LockOSThread() // and never let go: the thread with this priority ends with the test
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, -5); err != nil {
		t.Fatalf("raising the priority (needs root): %v", err)
	}
	g, err := startGroup([]string{"/bin/sh", "-c", "nice; i=0; while [ $(nice) -lt 0 ] && [ $i -lt 20000 ]; do i=$((i+1)); done; sh -c nice"}, []string{"PATH=" + execDefaultPath})
	if err != nil {
		t.Fatal(err)
	}
	<-g.exited
	g.finish()
	words := strings.Fields(string(g.out.head()))
	t.Logf("nice values that the command saw: %v", words)
	if len(words) != 2 || words[1] != "0" {
		t.Errorf("the command ran at %v, want 0", words)
	}
}
