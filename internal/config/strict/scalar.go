package strict

import (
	"cmp"
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	wholeNumber = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	realNumber  = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// is says whether v has the type T.
func is[T any](v reflect.Value) bool { return v.Type() == reflect.TypeFor[T]() }

// textKind is the kind a text has when it stands in a document unquoted.
func textKind(text string) Kind {
	switch {
	case text == "true" || text == "false":
		return Bool
	case wholeNumber.MatchString(text):
		return Int
	case realNumber.MatchString(text):
		return Float
	default:
		return String
	}
}

func plainScalar(n *Node) any {
	switch n.Kind {
	case Null:
		return nil
	case Bool:
		return n.Text == "true"
	case Int:
		if i, err := strconv.ParseInt(n.Text, 0, 64); err == nil {
			return i
		}
	case Float:
		if f, err := strconv.ParseFloat(n.Text, 64); err == nil {
			return f
		}
	}
	return n.Text
}

// scalar decodes a node without children into v and applies enum and bounds.
func (d *Decoder) scalar(n *Node, v reflect.Value, info FieldInfo) {
	if n.Kind == List || n.Kind == Map || n.Kind == Null {
		d.Errorf(n, "must be %s, not %s", wanted(v), n.Kind)
		return
	}
	msg := ""
	_, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case v.Kind() == reflect.Bool && !isText:
		if msg = notKind(n, v, Bool); msg == "" {
			v.SetBool(n.Text == "true")
		}
	case v.CanFloat() && !isText:
		msg = setFloat(n, v)
	default:
		msg = setText(n, v)
	}
	if msg == "" {
		msg = cmp.Or(checkEnum(v, info.Enum), checkBounds(v, info))
	}
	if msg != "" {
		d.Errorf(n, "%s", msg)
	}
}

// setText sets everything that is made from text: durations, addresses, other
// types with UnmarshalText, strings and whole numbers.
func setText(n *Node, v reflect.Value) string {
	switch {
	case is[time.Duration](v):
		return setDuration(n, v)
	case n.Kind == Bool && v.Kind() != reflect.Bool:
		return notKind(n, v, String)
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return unmarshalText(n, v, u)
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Text)
		return ""
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return setInt(n, v)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return setUint(n, v)
	default:
		return "cannot be decoded into " + v.Type().String()
	}
}

// wanted says in words what v can hold.
func wanted(v reflect.Value) string {
	switch {
	case is[time.Duration](v):
		return "a duration"
	case is[netip.Addr](v):
		return "an IP address"
	case is[netip.Prefix](v):
		return "an IP prefix"
	case v.Kind() == reflect.Bool:
		return "true or false"
	case v.CanInt() || v.CanUint():
		return "a whole number"
	case v.CanFloat():
		return "a number"
	default:
		return "a string"
	}
}

func notKind(n *Node, v reflect.Value, want Kind) string {
	if n.Kind == want {
		return ""
	}
	if n.Kind == Bool {
		return fmt.Sprintf("must be %s, not the boolean %s", wanted(v), n.Text)
	}
	return fmt.Sprintf("must be %s, not %q", wanted(v), n.Text)
}

func setDuration(n *Node, v reflect.Value) string {
	if n.Kind == Int && n.Text != "0" {
		return fmt.Sprintf("%s has no unit; write %ss or %sms", n.Text, n.Text, n.Text)
	}
	dur, err := time.ParseDuration(n.Text)
	switch {
	case err != nil:
		return fmt.Sprintf("%q is not a duration; write it like 500ms, 2s or 1m30s", n.Text)
	case dur < 0:
		return fmt.Sprintf("%s is negative", n.Text)
	}
	v.SetInt(int64(dur))
	return ""
}

// unmarshalText also puts the library's messages for addresses into words that
// say what to write.
func unmarshalText(n *Node, v reflect.Value, u encoding.TextUnmarshaler) string {
	err := u.UnmarshalText([]byte(n.Text))
	if err == nil {
		return ""
	}
	v.SetZero()
	switch {
	case is[netip.Addr](v):
		return fmt.Sprintf("%q is not an IP address", n.Text)
	case is[netip.AddrPort](v):
		return fmt.Sprintf("%q is not an address and port like 10.0.0.1:80 or [fd00::1]:80", n.Text)
	case is[netip.Prefix](v):
		if a, err := netip.ParseAddr(n.Text); err == nil {
			return fmt.Sprintf("%q lacks its prefix length; write %s/%d", n.Text, a, a.BitLen())
		}
		return fmt.Sprintf("%q is not an IP prefix like 10.255.0.1/32 or fd00::1/128", n.Text)
	}
	return err.Error()
}

func setInt(n *Node, v reflect.Value) string {
	if n.Kind != Int || !wholeNumber.MatchString(n.Text) {
		return notWhole(n)
	}
	i, err := strconv.ParseInt(n.Text, 10, v.Type().Bits())
	if err != nil {
		return n.Text + " is out of range"
	}
	v.SetInt(i)
	return ""
}

func setUint(n *Node, v reflect.Value) string {
	if n.Kind != Int || !wholeNumber.MatchString(n.Text) {
		return notWhole(n)
	}
	u, err := strconv.ParseUint(strings.TrimPrefix(n.Text, "+"), 10, v.Type().Bits())
	if err != nil {
		return fmt.Sprintf("%s is out of range: 0 to %d", n.Text, uint64(1)<<(v.Type().Bits()-1)*2-1)
	}
	v.SetUint(u)
	return ""
}

func notWhole(n *Node) string {
	if n.Kind == String {
		return fmt.Sprintf("must be a whole number, not %q", n.Text)
	}
	return fmt.Sprintf("must be a whole number in decimal, not %s", n.Text)
}

func setFloat(n *Node, v reflect.Value) string {
	if (n.Kind != Int && n.Kind != Float) || !realNumber.MatchString(n.Text) {
		return fmt.Sprintf("must be a number, not %q", n.Text)
	}
	f, err := strconv.ParseFloat(n.Text, v.Type().Bits())
	if err != nil {
		return n.Text + " is out of range"
	}
	v.SetFloat(f)
	return ""
}

func checkEnum(v reflect.Value, enum []string) string {
	if len(enum) == 0 || v.Kind() != reflect.String || slices.Contains(enum, v.String()) {
		return ""
	}
	return fmt.Sprintf("%q is not one of %s%s", v.String(), strings.Join(enum, ", "), DidYouMean(v.String(), enum))
}

// checkBounds applies the min and max tags to numbers and durations.
func checkBounds(v reflect.Value, info FieldInfo) string {
	var have float64
	switch {
	case v.CanInt():
		have = float64(v.Int())
	case v.CanUint():
		have = float64(v.Uint())
	case v.CanFloat():
		have = v.Float()
	default:
		return ""
	}
	if bound, ok := parseBound(v, info.Min); ok && have < bound {
		return fmt.Sprintf("must be at least %s, not %v", info.Min, v.Interface())
	}
	if bound, ok := parseBound(v, info.Max); ok && have > bound {
		return fmt.Sprintf("must be at most %s, not %v", info.Max, v.Interface())
	}
	return ""
}

func parseBound(v reflect.Value, text string) (float64, bool) {
	if text == "" {
		return 0, false
	}
	if is[time.Duration](v) {
		d, err := time.ParseDuration(text)
		return float64(d), err == nil
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}
