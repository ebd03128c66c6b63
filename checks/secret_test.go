package checks

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretOf(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"one": "s3cret\r\nrest\n", "bare": "s3cret", "empty": "\nsecond\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ inline, file, want, fails string }{
		{"", "", "", ""},
		{"inline", "", "inline", ""},
		{"", "one", "s3cret", ""},
		{"", "bare", "s3cret", ""},
		{"", "empty", "", "is empty"},
		{"", "missing", "", "no such file"},
	}
	for _, tt := range tests {
		if tt.file != "" {
			tt.file = filepath.Join(dir, tt.file)
		}
		got, err := secretOf(tt.inline, tt.file)
		if got != tt.want || (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%q %q: %q, %v; want %q, %s", tt.inline, tt.file, got, err, tt.want, tt.fails)
		}
	}
}

func TestSecretProblems(t *testing.T) {
	if ps := secretProblems("password", "x", ""); ps != nil {
		t.Error(ps)
	}
	want := []Problem{{"password_file", "cannot stand together with password; use one of them"}}
	if d := cmp.Diff(want, secretProblems("password", "x", "/x")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What is secret by its name is marked as such, so that nobody prints it, and
// can be kept in a file.
func TestSecretsAreMarked(t *testing.T) {
	for _, typ := range Types() {
		rt := reflect.TypeOf(typ.New()).Elem()
		for i := range rt.NumField() {
			f := rt.Field(i)
			key := f.Tag.Get("yaml")
			secret := key == "password" || key == "secret" || strings.HasSuffix(key, "_password")
			if secret != (f.Tag.Get("secret") == "true") {
				t.Errorf("%s: key %s must have the tag secret, or another name", typ.Name, key)
			}
			if _, ok := rt.FieldByName(f.Name + "File"); secret && !ok {
				t.Errorf("%s: key %s has no %s_file beside it", typ.Name, key, key)
			}
		}
	}
}
