package strict

import (
	"fmt"
	"regexp"
	"strings"
)

// Path leads to a place in a document: strings are keys of mappings, ints are
// indices of lists.
type Path []any

var plainKey = regexp.MustCompile(`^[\pL\pN_-]+$`)

// String returns the path as people write it: services[1].check.timeout.
// A key with other characters than letters, digits, "_" and "-" is quoted:
// checks["a.b"].
func (p Path) String() string {
	var b strings.Builder
	for _, step := range p {
		key, isKey := step.(string)
		switch {
		case !isKey:
			fmt.Fprintf(&b, "[%v]", step)
		case !plainKey.MatchString(key):
			fmt.Fprintf(&b, "[%q]", key)
		case b.Len() > 0:
			b.WriteString("." + key)
		default:
			b.WriteString(key)
		}
	}
	return b.String()
}

// With returns a new path that leads further.
func (p Path) With(steps ...any) Path {
	return append(append(make(Path, 0, len(p)+len(steps)), p...), steps...)
}

// within says whether p is at or below q.
func (p Path) within(q Path) bool {
	if len(p) < len(q) {
		return false
	}
	for i := range q {
		if p[i] != q[i] {
			return false
		}
	}
	return true
}
