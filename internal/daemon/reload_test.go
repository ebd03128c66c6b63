package daemon

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestMakingIsNoStandstill has the model take its time, for a password that comes
// slowly: the loop counts as alive meanwhile.
func TestMakingIsNoStandstill(t *testing.T) {
	dir := t.TempDir()
	file, password := filepath.Join(dir, "rhid.yaml"), filepath.Join(dir, "password")
	text := "sites:\n  - name: a\n    routers: [{address: 10.1.0.1, asn: 65000, password_file: " + password + "}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(password, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &loop{d: &Daemon{opts: Options{File: file}}, m: &model{}}
	wrote := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(password, os.O_WRONLY, 0) // waits for the reader
		if err != nil {
			wrote <- err
			return
		}
		for l.d.turns.Load() < 2 {
			runtime.Gosched()
		}
		if _, err = w.WriteString("secret\n"); err == nil {
			err = w.Close()
		}
		wrote <- err
	}()
	if _, err := l.read(); err == nil {
		t.Error("a configuration without a node was taken for one")
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}
