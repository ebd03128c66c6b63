package strict

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Unmarshaler is a type that decodes itself from a node: it reads n, sets its
// receiver and reports what is wrong to d.
type Unmarshaler interface {
	UnmarshalNode(d *Decoder, n *Node)
}

type options struct {
	allowUnknown bool
	allowNull    bool
}

// Option changes how strict Decode is.
type Option func(*options)

// AllowUnknown ignores keys that have no field. Repeated keys stay an error.
func AllowUnknown() Option { return func(o *options) { o.allowUnknown = true } }

// AllowNull treats a key without a value as if it were absent.
func AllowNull() Option { return func(o *options) { o.allowNull = true } }

// Decode reads one YAML document into the struct that into points to. The
// error, if any, is of type Errors. The Document is returned even then, unless
// the text is not YAML at all: it has the positions, and takes further errors.
// file is only used in messages.
func Decode(file string, data []byte, into any, opts ...Option) (*Document, error) {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return nil, errors.New("decoding YAML: the target must be a pointer")
	}
	doc := &Document{file: file}
	doc.root = parse(data, func(line, col int, msg string) {
		doc.add(line, col, nil, msg)
	})
	if doc.root == nil {
		return nil, doc.Err()
	}
	d := &Decoder{doc: doc}
	for _, o := range opts {
		o(&d.opts)
	}
	d.value(doc.root, target.Elem(), FieldInfo{})
	return doc, doc.Err()
}

// Document has the positions of a decoded document and its errors.
type Document struct {
	file string
	root *Node
	errs []located
	more bool // than MaxErrors
}

// located is an error with the path in steps.
type located struct {
	Error
	path Path
}

// Find returns the node at a path, nil where there is none.
func (doc *Document) Find(p Path) *Node {
	n := doc.root
	for _, step := range p {
		if n = child(n, step); n == nil {
			return nil
		}
	}
	return n
}

// Has says whether the document itself has a value at the path, rather than
// that a default was used.
func (doc *Document) Has(p Path) bool { return doc.Find(p) != nil }

func child(n *Node, step any) *Node {
	switch s := step.(type) {
	case string:
		return n.Get(s)
	case int:
		if s >= 0 && s < len(n.Items) {
			return n.Items[s]
		}
	}
	return nil
}

// Position returns where the value at the path begins, or its nearest parent
// that exists.
func (doc *Document) Position(p Path) (line, column int) {
	n := doc.root
	for _, step := range p {
		c := child(n, step)
		if c == nil {
			break
		}
		n = c
	}
	return n.Line, n.Column
}

// Failed says whether an error is known at the path, above it or below it.
func (doc *Document) Failed(p Path) bool {
	return doc.more || slices.ContainsFunc(doc.errs, func(e located) bool {
		return p.within(e.path) || e.path.within(p)
	})
}

// Errorf adds an error at a path, unless Failed already: what follows from a
// value that could not be read is noise.
func (doc *Document) Errorf(p Path, format string, args ...any) {
	if !doc.Failed(p) {
		line, col := doc.Position(p)
		doc.add(line, col, p, fmt.Sprintf(format, args...))
	}
}

// MaxErrors is how many errors of a document are reported.
const MaxErrors = 1000

func (doc *Document) add(line, col int, p Path, msg string) {
	if len(doc.errs) == MaxErrors {
		doc.more = true
		return
	}
	p = slices.Clone(p)
	doc.errs = append(doc.errs, located{path: p, Error: Error{
		File: doc.file, Line: line, Column: col, Path: p.String(), Item: doc.item(p), Msg: msg,
	}})
}

// item is the name (or address) of the outermost list item on the path.
func (doc *Document) item(p Path) string {
	n := doc.root
	for _, step := range p {
		if n == nil {
			return ""
		}
		n = child(n, step)
		if _, isIndex := step.(int); !isIndex {
			continue
		}
		if n == nil {
			return ""
		}
		for _, key := range []string{"name", "address"} {
			if v := n.Get(key); v != nil && v.Text != "" {
				return v.Text
			}
		}
		return ""
	}
	return ""
}

// Err returns all errors so far as Errors, sorted by position, or nil.
func (doc *Document) Err() error {
	if len(doc.errs) == 0 {
		return nil
	}
	out := make(Errors, len(doc.errs))
	for i, e := range doc.errs {
		out[i] = e.Error
	}
	out = out.sorted()
	if last := out[len(out)-1]; doc.more {
		last.Path, last.Item, last.Msg = "", "", "more errors are left out"
		out = append(out, last)
	}
	return out
}
