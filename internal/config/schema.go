package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"rhid/checks"
	"rhid/internal/config/strict"
)

const durationPattern = `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`

// schemaNode is a JSON schema, or a part of one. encoding/json sorts its keys.
type schemaNode map[string]any

// Schema returns the JSON schema (draft 2020-12) of the configuration, made
// from the same tags that decoding uses. It knows keys, types and bounds; rules
// between values are for "config check".
func Schema() ([]byte, error) {
	g := &schemaMaker{defs: schemaNode{}}
	root := g.object(reflect.TypeFor[Config]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "rhid configuration"
	root["$defs"] = g.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("making the JSON schema: %w", err)
	}
	return append(out, '\n'), nil
}

type schemaMaker struct {
	defs schemaNode
}

// object is the schema of a mapping with the keys of the structs.
func (g *schemaMaker) object(types ...reflect.Type) schemaNode {
	props := schemaNode{}
	var required []string
	for _, t := range types {
		for _, info := range strict.Fields(t) {
			if info.Inline {
				continue // the options of a check; see check
			}
			s := g.value(info.Type, info)
			if info.Doc != "" {
				s["description"] = info.Doc
			}
			props[info.Name] = s
			if info.Required {
				required = append(required, info.Name)
			}
		}
	}
	out := schemaNode{"type": "object", "properties": props, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	return out
}

// ref puts the schema of a named type into $defs, once, and refers to it.
func (g *schemaMaker) ref(name string, build func() schemaNode) schemaNode {
	if _, done := g.defs[name]; !done {
		g.defs[name] = schemaNode{} // ends recursion
		g.defs[name] = build()
	}
	return schemaNode{"$ref": "#/$defs/" + name}
}

func (g *schemaMaker) value(t reflect.Type, info strict.FieldInfo) schemaNode {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := g.special(t); s != nil {
		return withDefault(s, info)
	}
	switch t.Kind() {
	case reflect.Struct:
		return g.ref(t.Name(), func() schemaNode { return g.object(t) })
	case reflect.Map:
		return schemaNode{"type": "object", "additionalProperties": g.value(t.Elem(), strict.FieldInfo{})}
	case reflect.Slice:
		item := info
		item.HasDef = false
		s := schemaNode{"type": "array", "items": g.value(t.Elem(), item)}
		if info.Required {
			s["minItems"] = 1
		}
		if info.HasDef {
			s["default"] = listDefault(t.Elem(), info.Default)
		}
		return s
	case reflect.Bool:
		return withDefault(schemaNode{"type": "boolean"}, info)
	case reflect.String:
		if info.Enum != nil {
			return withDefault(schemaNode{"enum": info.Enum}, info)
		}
		return withDefault(textOrNumber(), info)
	default:
		return withDefault(number(t, info), info)
	}
}

// special are the types that are written in a form of their own.
func (g *schemaMaker) special(t reflect.Type) schemaNode {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return schemaNode{"anyOf": []any{
			schemaNode{"type": "string", "pattern": durationPattern}, schemaNode{"const": 0},
		}}
	case reflect.TypeFor[netip.Addr]():
		return schemaNode{"type": "string", "pattern": `^[0-9A-Fa-f:.]+(%.+)?$`}
	case reflect.TypeFor[netip.Prefix]():
		return schemaNode{"type": "string", "pattern": `^[0-9A-Fa-f:.]+/[0-9]{1,3}$`}
	case reflect.TypeFor[Quorum]():
		return schemaNode{"anyOf": []any{
			schemaNode{"type": "integer", "minimum": 1},
			schemaNode{"type": "string", "pattern": `^[1-9][0-9]*%?$`},
		}}
	case reflect.TypeFor[Percent]():
		return schemaNode{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%$`}
	case reflect.TypeFor[CheckRef]():
		return schemaNode{"anyOf": []any{textOrNumber(), g.group(), g.check()}}
	case reflect.TypeFor[Server]():
		return schemaNode{"anyOf": []any{textOrNumber(), g.ref("Server", func() schemaNode { return g.object(t) })}}
	case reflect.TypeFor[Check]():
		return g.check()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return textOrNumber()
	}
	return nil
}

// group is the schema of a composition.
func (g *schemaMaker) group() schemaNode {
	return g.ref("Group", func() schemaNode {
		s := g.object(reflect.TypeFor[Group]())
		var ways []any
		for _, key := range []string{"all", "any", "at_least", "score"} {
			ways = append(ways, schemaNode{"required": []string{key}})
		}
		s["oneOf"] = ways
		return s
	})
}

// check is the schema of a check: by its type, the common keys and those of
// the type.
func (g *schemaMaker) check() schemaNode {
	return g.ref("Check", func() schemaNode {
		common := reflect.TypeFor[Check]()
		var names []string
		var byType []any
		for _, typ := range checks.Types() {
			names = append(names, typ.Name)
			options := reflect.TypeOf(typ.New()).Elem()
			body := g.ref("Check_"+typ.Name, func() schemaNode {
				s := g.object(common, options)
				s["description"] = "a check that " + typ.Doc
				return s
			})
			byType = append(byType, schemaNode{
				"if":   schemaNode{"properties": schemaNode{"type": schemaNode{"const": typ.Name}}},
				"then": body,
			})
		}
		return schemaNode{
			"type": "object", "required": []string{"type"},
			"properties": schemaNode{"type": schemaNode{"enum": names}},
			"allOf":      byType,
		}
	})
}

// textOrNumber is a string; a plain number is taken as it is written.
func textOrNumber() schemaNode { return schemaNode{"type": []string{"string", "number"}} }

func number(t reflect.Type, info strict.FieldInfo) schemaNode {
	s := schemaNode{"type": "integer"}
	if t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 {
		s["type"] = "number"
	}
	if strings.HasPrefix(t.Kind().String(), "uint") {
		s["minimum"], s["maximum"] = 0, uint64(1)<<(t.Bits()-1)*2-1
	}
	if info.Min != "" {
		s["minimum"] = json.Number(info.Min)
	}
	if info.Max != "" {
		s["maximum"] = json.Number(info.Max)
	}
	return s
}

func withDefault(s schemaNode, info strict.FieldInfo) schemaNode {
	if info.HasDef {
		s["default"] = typedDefault(info.Default, s["type"])
	}
	return s
}

// typedDefault is the text of a default tag as the JSON type says.
func typedDefault(text string, typ any) any {
	switch typ {
	case "integer", "number":
		return json.Number(text)
	case "boolean":
		b, err := strconv.ParseBool(text)
		return err == nil && b
	}
	return text
}

func listDefault(elem reflect.Type, text string) []any {
	typ := ""
	if elem.Kind() >= reflect.Int && elem.Kind() <= reflect.Float64 && elem != reflect.TypeFor[time.Duration]() {
		typ = "number"
	}
	var out []any
	for _, part := range strings.Split(text, ",") {
		out = append(out, typedDefault(strings.TrimSpace(part), typ))
	}
	return out
}
