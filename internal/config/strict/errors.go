package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing wrong in a document.
type Error struct {
	File   string `json:"file"`
	Line   int    `json:"line"`           // from 1
	Column int    `json:"column"`         // from 1, in characters
	Path   string `json:"path"`           // services[1].check.timeout; empty for the whole document
	Item   string `json:"item,omitempty"` // name of the list item at the head of Path
	Msg    string `json:"message"`
}

// Error returns `file:line:column: services[1] "pos": check.timeout: message`.
func (e Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	head, rest := e.Path, ""
	if i := strings.Index(e.Path, "]"); e.Item != "" && i >= 0 {
		head, rest = e.Path[:i+1], strings.TrimPrefix(e.Path[i+1:], ".")
		head += fmt.Sprintf(" %q", e.Item)
	}
	for _, part := range []string{head, rest} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Errors are all the things wrong in a document, by position.
type Errors []Error

// Error returns one line for each error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the errors in the order of the document, each once.
func (es Errors) sorted() Errors {
	slices.SortStableFunc(es, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Msg, b.Msg))
	})
	return slices.Compact(es)
}
