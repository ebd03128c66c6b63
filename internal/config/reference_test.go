package config

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"testing"

	"rhid/checks"
	"rhid/internal/config/strict"
)

var update = flag.Bool("update", false, "write docs/reference.yaml anew")

const referenceFile = "../../docs/reference.yaml"

const referenceHead = `# Every key of rhid's configuration, with its default and what it means. This is
# one valid file: of things that exclude each other, each is used somewhere. A key
# is explained where it comes first. Keys that only repeat their default may be
# left out of a real file; README.md begins with the ten lines that one needs.
#
# The comments and defaults are made from the program. After changing a key:
#   go test ./internal/config -run TestReference -update
`

// TestReference makes sure that docs/reference.yaml is valid, says what the
// program says, and lacks no key.
func TestReference(t *testing.T) {
	text, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Parse("reference.yaml", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]byte(referenceHead), render(cfg, renderDocs)...)
	switch {
	case *update:
		if err := os.WriteFile(referenceFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	case !bytes.Equal(text, want):
		t.Error("docs/reference.yaml is not up to date: go test ./internal/config -run TestReference -update")
	}
	found := map[string]bool{}
	collect(reflect.ValueOf(cfg).Elem(), found)
	for _, f := range modelFields() {
		if !found[f.name] {
			t.Errorf("docs/reference.yaml lacks %s", f.name)
		}
		if f.Doc == "" {
			t.Errorf("%s has no doc tag", f.name)
		}
	}
}

// modelField is a field of the model, its name with the struct's: BGP.hold.
type modelField struct {
	strict.FieldInfo
	name string
}

// modelFields lists all fields of all structs of the configuration, those of
// the check types too.
func modelFields() []modelField {
	var out []modelField
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t == reflect.TypeFor[CheckRef]() {
			walk(reflect.TypeFor[Group]())
			t = reflect.TypeFor[Check]()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for _, f := range strict.Fields(t) {
			if !f.Inline {
				out = append(out, modelField{f, t.Name() + "." + f.Name})
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	for _, typ := range checks.Types() {
		walk(reflect.TypeOf(typ.New()))
	}
	return out
}

// collect notes the fields that have a value somewhere in v, or that are
// written even without.
func collect(v reflect.Value, found map[string]bool) {
	if ref, ok := v.Interface().(CheckRef); ok {
		collect(reflect.ValueOf(ref.Group), found)
		v = reflect.ValueOf(ref.Inline)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			collect(v.Elem(), found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), found)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			collect(v.MapIndex(k), found)
		}
	case reflect.Struct:
		for _, f := range strict.Fields(v.Type()) {
			fv := v.Field(f.Index)
			if !omit(fv, f) {
				found[v.Type().Name()+"."+f.Name] = true
			}
			collect(fv, found)
		}
	}
}
