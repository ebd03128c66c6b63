package daemon

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestReadingIsNoStandstill has the configuration come slowly: the loop counts as
// alive meanwhile.
func TestReadingIsNoStandstill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rhid.yaml")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &loop{d: &Daemon{opts: Options{File: file}}, m: &model{}}
	wrote := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(file, os.O_WRONLY, 0) // waits for the reader
		if err != nil {
			wrote <- err
			return
		}
		for l.d.turns.Load() < 2 {
			runtime.Gosched()
		}
		if _, err = w.WriteString("no configuration\n"); err == nil {
			err = w.Close()
		}
		wrote <- err
	}()
	if _, err := l.read(); err == nil {
		t.Error("what is no configuration was taken for one")
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}
