package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// While keys are rotated, nobody is lost and every change arrives.
func TestRotateKey(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.keys = append(w.keys, []byte("a second key....")) // two to be removed, of two sizes
		saved := map[string][][]byte{}
		var mu sync.Mutex
		list := w.startAll(func(s *Settings) {
			name := s.Self
			s.SaveKeys = func(keys [][]byte) error {
				mu.Lock()
				defer mu.Unlock()
				saved[name] = keys
				return nil
			}
		})
		w.ready(list)
		key, err := GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- list[1].RotateKey(w.t.Context(), key) }()
		for i := range 40 {
			w.publish(list[i%4], 10+i)
			w.within(lost, "changes arrive", all(list, func(m *member) bool { return m.see(w.nodes[i%4].Name).State.Load == 10+i }))
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		for _, m := range list {
			if got := m.keyring.GetKeys(); len(got) != 1 || !bytes.Equal(got[0], key) {
				t.Errorf("%s: %d keys", m.name, len(got))
			}
			if d := cmp.Diff([][]byte{key}, saved[m.name]); d != "" {
				t.Errorf("%s kept:\n%s", m.name, d)
			}
			for _, n := range m.View().Nodes {
				if n.Liveness != Alive || !slices.Equal(n.Keys, []string{KeyID(key)}) {
					t.Errorf("%s: %s is %s with keys %v", m.name, n.Name, n.Liveness, n.Keys)
				}
			}
			if p := m.told(); p != "" {
				t.Errorf("%s:\n%s", m.name, p)
			}
		}
	})
}

func TestRotateKeyRefused(t *testing.T) {
	key := []byte("0123456789012345")
	for _, tt := range []struct {
		name string
		make func(w *world) *member
		want string
	}{
		{"no keys", func(w *world) *member {
			w.keys = nil
			list := w.startAll()
			w.ready(list)
			return list[0]
		}, "not encrypted"},
		{"one is away", func(w *world) *member {
			list := w.startAll()
			w.ready(list)
			list[2].kill()
			w.pass(2 * time.Second)
			return list[0]
		}, "not there: n2"},
		{"one cannot save", func(w *world) *member {
			list := w.startAll(func(s *Settings) {
				if s.Self == "n2" {
					s.SaveKeys = func([][]byte) error { return errors.New("disk full") }
				}
			})
			w.ready(list)
			return list[0]
		}, "add key " + KeyID(key) + " on n2: keep the keys: disk full"},
		{"one does not answer", func(w *world) *member {
			list := w.startAll(func(s *Settings) {
				s.Detection = "wan"
				s.SettleTimeout = time.Second
			})
			w.ready(list)
			list[2].kill()
			return list[0]
		}, "add key " + KeyID(key) + " on n2: no answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				m := tt.make(w)
				ctx, cancel := context.WithTimeout(w.t.Context(), 4*time.Second)
				defer cancel()
				err := m.RotateKey(ctx, key)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
				w.publish(m, 9)
				w.within(lost, "the cluster goes on", func() bool { return w.live["n1"].see("n0").State.Load == 9 })
			})
		})
	}
}

// The ring is read while keys are taken off it.
func TestDropKey(t *testing.T) {
	k := func(c byte) []byte { return bytes.Repeat([]byte{c}, 16) }
	for drop := range byte(5) {
		keys := [][]byte{k(0), k(1), k(2), k(3)}
		r, err := ring(keys)
		if err != nil {
			t.Fatal(err)
		}
		held := r.GetKeys()
		err = dropKey(r, k(drop))
		if (err != nil) != (drop == 0) {
			t.Errorf("drop %d: %v", drop, err)
		}
		if d := cmp.Diff(keys, held); d != "" {
			t.Errorf("drop %d: the slice of a reader changed:\n%s", drop, d)
		}
		want := slices.DeleteFunc(slices.Clone(keys), func(x []byte) bool { return drop > 0 && bytes.Equal(x, k(drop)) })
		if d := cmp.Diff(want, r.GetKeys()); d != "" {
			t.Errorf("drop %d:\n%s", drop, d)
		}
	}
}

func TestLoadKeys(t *testing.T) {
	enc := base64.StdEncoding.EncodeToString
	a, b := []byte("0123456789abcdef"), []byte("0123456789abcdef0123456789abcdef")
	for _, tt := range []struct {
		name, text string
		want       [][]byte
		err        string
	}{
		{name: "two", text: "# first\n" + enc(b) + "  # since May\n\n\t" + enc(a) + "\n", want: [][]byte{b, a}},
		{name: "no newline", text: enc(a), want: [][]byte{a}},
		{name: "carriage returns", text: enc(a) + "\r\n" + enc(b) + "\r\n", want: [][]byte{a, b}},
		{name: "empty", text: "# nothing\n", err: "FILE: no key in it"},
		{name: "all wrong", text: "secret!\n" + enc([]byte("short")) + "\n" + enc(a) + "\n" + enc(a) + "\n",
			err: "FILE:1: not base64\nFILE:2: a key of 5 bytes, must be 16, 24 or 32\nFILE:4: the same key as in line 3"},
		{name: "long line", text: strings.Repeat("A", 70000), err: "FILE:1: bufio.Scanner: token too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := LoadKeys(path)
			text := ""
			if err != nil {
				text = strings.ReplaceAll(err.Error(), path, "FILE")
			}
			if text != tt.err {
				t.Errorf("error %q, want %q", text, tt.err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if _, err := LoadKeys(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestWriteKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	a, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o600, 0o640} {
		if err := WriteKeys(path, [][]byte{a, []byte("0123456789abcdef")}); err != nil {
			t.Fatal(err)
		}
		got, err := LoadKeys(path)
		if err != nil || len(got) != 2 || !bytes.Equal(got[0], a) {
			t.Errorf("read back %d keys, %v", len(got), err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("mode %v, %v; want %v", fi.Mode(), err, mode)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteKeys(filepath.Join(path, "x"), nil); err == nil {
		t.Error("written below a file")
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("MDEyMzQ1Njc4OWFiY2RlZg==\n"))
	f.Add([]byte("# c\n\nx\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := parseKeys("f", b)
		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("%d keys and %v", len(keys), err)
		}
		if err == nil {
			if _, err := ring(keys); err != nil {
				t.Fatal(err)
			}
		}
	})
}
