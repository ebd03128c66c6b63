package config

import (
	"bytes"
	"os"
	"reflect"
	"testing"

	"rhid/checks"
	"rhid/internal/config/strict"
)

const manualFile = "../../docs/checks.md"

// TestReferenceOfChecks makes sure that docs/checks.md says what the program says.
func TestReferenceOfChecks(t *testing.T) {
	if *update {
		if err := os.WriteFile(manualFile, Manual(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(manualFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, Manual()) {
		t.Error("docs/checks.md is not up to date: go test ./internal/config -run TestReference -update")
	}
}

// TestKeysOfTypesAreTheirOwn: a key of a type that is one of all types would be
// set twice.
func TestKeysOfTypesAreTheirOwn(t *testing.T) {
	common := map[string]bool{}
	for _, f := range strict.Fields(reflect.TypeFor[Check]()) {
		common[f.Name] = true
	}
	for _, typ := range checks.Types() {
		for _, f := range strict.Fields(reflect.TypeOf(typ.New()).Elem()) {
			if common[f.Name] {
				t.Errorf("%s: the key %s is one that all types have", typ.Name, f.Name)
			}
		}
	}
}
