package config

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse makes sure that no text makes the parser panic, that all errors have
// a place, and that what is accepted can be shown and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(right))
	f.Add([]byte(awkward))
	for _, tt := range wrong[:20] {
		text := right
		for _, e := range tt.edits {
			text += e.new
		}
		f.Add([]byte(text))
	}
	for _, s := range []string{
		"", "a", "- - -", "? a\n: b", "&a [*a]", "a: &a {<<: *a}", "<<: {nodes: []}", "%YAML 1.2\n---\n", "{a: [}", "|\n a", "\"\\u0000\"",
		"nodes: [{name: a, address: \"::\"}]", "checks: {a: {type: exec, command: [\"\\x01\"]}}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("f", data, nil)
		if err != nil {
			checkErrors(t, data, err)
			return
		}
		shown, err := Show(cfg)
		if err != nil {
			t.Fatalf("cannot be shown: %v\n%s", err, render(cfg, renderAll))
		}
		if _, err := Parse("shown", shown, nil); err != nil {
			t.Fatal(err)
		}
		again, err := Parse("shown with secrets", render(cfg, renderAll), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(cfg, again, comparer()); diff != "" {
			t.Fatalf("shown as another configuration:\n%s\n%s", diff, shown)
		}
	})
}

func checkErrors(t *testing.T, data []byte, err error) {
	t.Helper()
	var errs Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		t.Fatalf("error is %v, want Errors", err)
	}
	for _, e := range errs {
		if e.Line < 1 || e.Column < 1 || e.Msg == "" || e.Line > len(data)+1 {
			t.Fatalf("error without a place: %+v", e)
		}
	}
}
