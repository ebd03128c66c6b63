package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rhid/internal/config/strict"
)

// hidden stands in the place of a secret.
const hidden = "********"

// Show returns the configuration as YAML with every default filled in, and
// with stars for the secrets in it. But for them, reading it gives an equal
// configuration again; it is an error if that does not hold, so that nobody is
// shown something else than what is in force.
func Show(cfg *Config) ([]byte, error) {
	out := render(cfg, renderAll)
	again, err := Parse("shown configuration", out, nil)
	if err != nil {
		return nil, fmt.Errorf("the configuration as shown does not load: %w", err)
	}
	if !bytes.Equal(render(again, renderAll), out) {
		return nil, errors.New("the configuration as shown does not load as the same")
	}
	return render(cfg, renderShown), nil
}

// rendering is what is written besides keys and values, or in their place.
type rendering uint8

const (
	renderAll   rendering = iota
	renderShown           // stars for secrets
	renderDocs            // above a key, where it comes first, its description and its default
)

// render writes cfg as YAML.
func render(cfg *Config, as rendering) []byte {
	w := &yamlWriter{as: as, explained: map[string]bool{}}
	w.fields(reflect.ValueOf(cfg).Elem(), 0, false)
	return w.buf.Bytes()
}

// yamlWriter writes values in block style.
type yamlWriter struct {
	buf       bytes.Buffer
	as        rendering
	explained map[string]bool // keys that had their comment, by struct
}

// fields writes the keys of a struct. afterDash says that the first one
// continues a line that has the dash of a list item.
func (w *yamlWriter) fields(v reflect.Value, indent int, afterDash bool) {
	for _, info := range strict.Fields(v.Type()) {
		fv := v.Field(info.Index)
		if info.Inline {
			if !fv.IsNil() {
				w.fields(fv.Elem().Elem(), indent, false)
			}
			continue
		}
		if omit(fv, info) {
			continue
		}
		if w.as == renderDocs && indent == 0 {
			w.buf.WriteString("\n")
		}
		if !afterDash {
			w.comment(v.Type(), info, indent)
			w.pad(indent)
		}
		afterDash = false
		w.buf.WriteString(info.Name + ":")
		if info.Secret && w.as == renderShown {
			w.scalar(quote(hidden))
			continue
		}
		w.value(fv, indent)
	}
}

// omit leaves out what is the same when it is absent.
func omit(v reflect.Value, info strict.FieldInfo) bool {
	if info.HasDef || info.Required || !v.IsZero() && !emptyList(v) {
		return false
	}
	// A zero that could have been written is shown: it may differ from what the
	// key inherits, and from the defaults of the keys in a mapping.
	switch {
	case v.Kind() == reflect.Struct:
		_, isText := v.Interface().(encoding.TextMarshaler)
		return isText
	case v.CanInt():
		return info.Min != "" && info.Min != "0"
	}
	return v.Kind() != reflect.Bool
}

func emptyList(v reflect.Value) bool {
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

func (w *yamlWriter) comment(t reflect.Type, info strict.FieldInfo, indent int) {
	key := t.String() + "." + info.Name
	if w.as != renderDocs || w.explained[key] {
		return
	}
	w.explained[key] = true
	w.pad(indent)
	w.buf.WriteString("# " + info.Doc)
	switch {
	case info.Required:
		w.buf.WriteString(" (required)")
	case info.HasDef:
		w.buf.WriteString(" (default " + info.Default + ")")
	}
	w.buf.WriteString("\n")
}

func (w *yamlWriter) pad(indent int) { w.buf.WriteString(strings.Repeat(" ", indent)) }

// value writes what stands behind "key:" or "-".
func (w *yamlWriter) value(v reflect.Value, indent int) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	v = written(v)
	if text, ok := scalarText(v); ok {
		w.scalar(text)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		w.buf.WriteString("\n")
		w.fields(v, indent+2, false)
	case reflect.Map:
		w.mapping(v, indent)
	default:
		w.list(v, indent)
	}
}

func (w *yamlWriter) scalar(text string) { w.buf.WriteString(" " + text + "\n") }

func (w *yamlWriter) mapping(v reflect.Value, indent int) {
	if v.Len() == 0 {
		w.scalar("{}")
		return
	}
	w.buf.WriteString("\n")
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		w.pad(indent + 2)
		w.buf.WriteString(quote(k.String()) + ":")
		w.value(v.MapIndex(k), indent+2)
	}
}

func (w *yamlWriter) list(v reflect.Value, indent int) {
	if v.Len() == 0 {
		w.scalar("[]")
		return
	}
	var texts []string
	for i := range v.Len() {
		if text, ok := scalarText(written(v.Index(i))); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) == v.Len() {
		w.scalar("[" + strings.Join(texts, ", ") + "]")
		return
	}
	w.buf.WriteString("\n")
	for i := range v.Len() {
		w.item(written(v.Index(i)), indent+2)
	}
}

// written returns what stands in the file for a value that has a short form.
func written(v reflect.Value) reflect.Value {
	switch x := v.Interface().(type) {
	case CheckRef:
		switch {
		case x.Inline != nil:
			return reflect.ValueOf(x.Inline).Elem()
		case x.Group != nil:
			return reflect.ValueOf(x.Group).Elem()
		}
		return reflect.ValueOf(x.Name)
	case Server:
		if x == (Server{Address: x.Address, Weight: 1}) {
			return reflect.ValueOf(x.Address)
		}
	}
	return v
}

// item writes a list item. The first key of a struct stands behind the dash,
// and the comment of that key above it.
func (w *yamlWriter) item(v reflect.Value, indent int) {
	if text, ok := scalarText(v); ok {
		w.pad(indent)
		w.buf.WriteString("- " + text + "\n")
		return
	}
	for _, info := range strict.Fields(v.Type()) {
		if !omit(v.Field(info.Index), info) {
			w.comment(v.Type(), info, indent)
			break
		}
	}
	w.pad(indent)
	w.buf.WriteString("- ")
	w.fields(v, indent+2, true)
}

// scalarText returns the text of a value that needs no lines of its own.
func scalarText(v reflect.Value) (string, bool) {
	switch x := v.Interface().(type) {
	case time.Duration:
		return durationText(x), true
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		return quote(string(b)), err == nil
	}
	switch {
	case v.Kind() == reflect.String:
		return quote(v.String()), true
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), true
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), true
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), true
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'g', -1, 64), true
	}
	return "", false
}

// durationText writes 1m for 1m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// plainText is what every YAML reader takes for a string, an address, a prefix
// or a whole number without quotes, inside of brackets, too.
var plainText = regexp.MustCompile(`^([A-Za-z/][A-Za-z0-9_./%+-]*|[0-9]+(\.[0-9]+){3}(/[0-9]+)?|[1-9][0-9]*%?)$`)

// quote returns a string as a YAML scalar. JSON strings are YAML, too.
func quote(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plainText.MatchString(s) {
			return s
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return strconv.Quote(s) // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
