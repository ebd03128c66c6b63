package strict

import (
	"reflect"
	"strings"
)

// FieldInfo is a struct field as the tags describe it. The JSON schema and the
// printed configuration are made from it, as decoding is.
type FieldInfo struct {
	Name     string // the key
	Index    int
	Type     reflect.Type
	Inline   bool // its keys stand beside the others
	Required bool
	Secret   bool // not to be printed
	Default  string
	HasDef   bool
	Enum     []string
	Min, Max string
	Doc      string
}

// Fields returns the fields of a struct type that have a yaml tag, in order.
func Fields(t reflect.Type) []FieldInfo {
	var out []FieldInfo
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		if !ok || tag == "-" || !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		info := FieldInfo{
			Name: name, Index: i, Type: f.Type,
			Inline:   strings.Contains(","+opts+",", ",inline,"),
			Required: f.Tag.Get("required") == "true",
			Secret:   f.Tag.Get("secret") == "true",
			Min:      f.Tag.Get("min"), Max: f.Tag.Get("max"), Doc: f.Tag.Get("doc"),
		}
		info.Default, info.HasDef = f.Tag.Lookup("default")
		if e := f.Tag.Get("enum"); e != "" {
			info.Enum = strings.Split(e, ",")
		}
		if info.Inline || name != "" {
			out = append(out, info)
		}
	}
	return out
}
