package config

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"rhid/checks"
	"rhid/internal/config/strict"
)

// TypeDoc describes a check type, or what all types share. It is made from the
// same descriptions as the JSON schema.
type TypeDoc struct {
	Name    string   `json:"name"`
	Doc     string   `json:"doc"`
	Target  string   `json:"target"`
	Passive bool     `json:"passive"`
	Keys    []KeyDoc `json:"keys"`
}

// KeyDoc describes a key of a check.
type KeyDoc struct {
	Key      string   `json:"key"`
	Kind     string   `json:"kind"`
	Doc      string   `json:"doc"`
	Required bool     `json:"required"`
	Default  string   `json:"default,omitempty"`
	Enum     []string `json:"enum,omitempty"`
}

// DescribeTypes returns all check types, in the order of the manual.
func DescribeTypes() []TypeDoc {
	var out []TypeDoc
	for _, t := range checks.Types() {
		o := t.New()
		out = append(out, TypeDoc{
			Name: t.Name, Doc: t.Doc, Passive: t.Passive, Target: targetText(o.NeedsTarget()),
			Keys: describe(reflect.TypeOf(o).Elem(), ""),
		})
	}
	return out
}

// DescribeCommon returns the keys that all check types share.
func DescribeCommon() []KeyDoc { return describe(reflect.TypeFor[Check](), "") }

func targetText(k checks.TargetKind) string {
	switch k {
	case checks.TargetHost:
		return "address"
	case checks.TargetPort:
		return "address:port"
	case checks.TargetMaybe:
		return "either, or none"
	default:
		return "none"
	}
}

// describe lists the keys of a struct, and behind a key that is a mapping those
// of the mapping, with a dot in between.
func describe(t reflect.Type, prefix string) []KeyDoc {
	var out []KeyDoc
	for _, f := range strict.Fields(t) {
		if f.Inline {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		out = append(out, KeyDoc{
			Key: prefix + f.Name, Kind: kindText(inner), Doc: f.Doc, Required: f.Required, Default: f.Default, Enum: f.Enum,
		})
		if kindText(inner) == "mapping" && inner.Kind() == reflect.Struct {
			out = append(out, describe(inner, prefix+f.Name+".")...)
		}
	}
	return out
}

// kindText is the form of a value in a word.
func kindText(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[Quorum]():
		return "number or percentage"
	case t == reflect.TypeFor[Percent]():
		return "percentage"
	case t.PkgPath() == "net/netip":
		return "address"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "mapping"
	default:
		return "number"
	}
}

// manualHead begins docs/checks.md.
const manualHead = `# Check types

Made from the program's own descriptions, as the JSON schema is; after a change:
` + "`go test ./internal/config -run TestReference -update`" + `. How checks, rules and pools go
together is in [health.md](health.md).

A check is a mapping with the keys that all types share and beside them those of
its type. ` + "`rhid checks types`" + ` prints the same.

`

// Manual returns docs/checks.md.
func Manual() []byte {
	var b bytes.Buffer
	b.WriteString(manualHead)
	types := DescribeTypes()
	b.WriteString("| type | target | what it does |\n|---|---|---|\n")
	for _, t := range types {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s |\n", t.Name, t.Name, t.Target, cell(t.sentence()))
	}
	b.WriteString("\n## Keys of all types\n\n")
	keyTable(&b, DescribeCommon())
	for _, t := range types {
		fmt.Fprintf(&b, "\n## %s\n\nIt %s. Target: %s.\n", t.Name, t.sentence(), t.Target)
		if len(t.Keys) > 0 {
			b.WriteString("\n")
			keyTable(&b, t.Keys)
		}
	}
	return b.Bytes()
}

func (t *TypeDoc) sentence() string {
	if t.Passive {
		return t.Doc + " (passive)"
	}
	return t.Doc
}

func keyTable(b *bytes.Buffer, keys []KeyDoc) {
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.Key, k.values(), k.DefaultText(), cell(k.Doc))
	}
}

func (k *KeyDoc) values() string {
	if k.Enum == nil || k.Kind == "list" {
		return k.Kind
	}
	quoted := slices.Clone(k.Enum)
	for i := range quoted {
		quoted[i] = "`" + quoted[i] + "`"
	}
	return strings.Join(quoted, ", ")
}

// DefaultText is the default in words.
func (k *KeyDoc) DefaultText() string {
	if k.Required {
		return "required"
	}
	return cell(k.Default)
}

// cell makes a text fit for a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
