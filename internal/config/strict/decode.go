package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Decoder is at one place of a document. Unmarshalers use it to decode what is
// below them and to report errors.
type Decoder struct {
	doc  *Document
	path Path
	opts options
}

// Errorf reports an error at the node n, at the decoder's place.
func (d *Decoder) Errorf(n *Node, format string, args ...any) {
	d.doc.add(n.Line, n.Column, d.path, fmt.Sprintf(format, args...))
}

// Decode decodes n into what into points to.
func (d *Decoder) Decode(n *Node, into any) {
	d.value(n, reflect.ValueOf(into).Elem(), FieldInfo{})
}

// DecodeFields decodes a mapping into several structs (pointers to them) whose
// keys stand side by side in it. With loose, keys of none of them are ignored.
func (d *Decoder) DecodeFields(n *Node, loose bool, into ...any) {
	if n.Kind != Map {
		d.Errorf(n, "must be a mapping, not %s", n.Kind)
		return
	}
	values := make([]reflect.Value, len(into))
	for i, p := range into {
		values[i] = reflect.ValueOf(p).Elem()
	}
	d.fields(n, loose, values)
}

// at runs f one step further down.
func (d *Decoder) at(step any, f func()) {
	d.path = append(d.path, step)
	f()
	d.path = d.path[:len(d.path)-1]
}

// value decodes n into v as the field info says (enum and bounds).
func (d *Decoder) value(n *Node, v reflect.Value, info FieldInfo) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(n, v.Elem(), info)
		return
	}
	if u, ok := v.Addr().Interface().(Unmarshaler); ok {
		u.UnmarshalNode(d, n)
		return
	}
	if _, isText := v.Addr().Interface().(encoding.TextUnmarshaler); isText || is[time.Duration](v) {
		d.scalar(n, v, info)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v)
	case reflect.Map:
		d.mapping(n, v, info)
	case reflect.Slice:
		d.list(n, v, info)
	case reflect.Interface:
		v.Set(reflect.ValueOf(plain(n)))
	default:
		d.scalar(n, v, info)
	}
}

func (d *Decoder) structure(n *Node, v reflect.Value) {
	if n.Kind != Map {
		d.Errorf(n, "must be a mapping, not %s", n.Kind)
		return
	}
	d.fields(n, false, []reflect.Value{v})
}

// fields decodes a mapping into structs that share it.
func (d *Decoder) fields(n *Node, loose bool, structs []reflect.Value) {
	known := map[string]bool{}
	var names []string
	for _, v := range structs {
		for _, info := range flatten(v) {
			known[info.Name] = true
			names = append(names, info.Name)
			d.field(n, info.value, info.FieldInfo)
		}
	}
	for _, f := range n.Dups {
		first := n.field(f.Key)
		d.at(f.Key, func() {
			d.doc.add(f.Line, f.Column, d.path, fmt.Sprintf("the key is there twice, first in line %d", first.Line))
		})
	}
	for _, f := range n.Fields {
		if known[f.Key] || loose || d.opts.allowUnknown {
			continue
		}
		d.at(f.Key, func() {
			d.doc.add(f.Line, f.Column, d.path, "unknown key"+DidYouMean(f.Key, names))
		})
	}
}

// placed is a field and where its value lives.
type placed struct {
	FieldInfo
	value reflect.Value
}

// flatten lists a struct's fields with those of inline structs. An inline
// interface is left to the Unmarshaler that fills it.
func flatten(v reflect.Value) []placed {
	var out []placed
	for _, info := range Fields(v.Type()) {
		fv := v.Field(info.Index)
		switch {
		case !info.Inline:
			out = append(out, placed{info, fv})
		case fv.Kind() == reflect.Struct:
			out = append(out, flatten(fv)...)
		}
	}
	return out
}

// field decodes one key of n into v, or its default.
func (d *Decoder) field(n *Node, v reflect.Value, info FieldInfo) {
	c := n.Get(info.Name)
	if c != nil && c.Kind == Null && d.opts.allowNull {
		c = nil
	}
	d.at(info.Name, func() {
		switch {
		case c == nil && info.Required:
			d.doc.add(n.Line, n.Column, d.path, "is required")
		case c == nil:
			d.absent(n, v, info)
		case c.Kind == Null:
			d.Errorf(c, "has no value; give it one or leave the key out")
		default:
			before := len(d.doc.errs)
			d.value(c, v, info)
			if info.Required && v.IsZero() || info.Required && v.Kind() == reflect.Slice && v.Len() == 0 {
				if len(d.doc.errs) == before {
					d.Errorf(c, "must not be empty")
				}
			}
		}
	})
}

// absent sets the default of a key that is not there. A struct in place of a
// pointer gets the defaults of its own keys.
func (d *Decoder) absent(parent *Node, v reflect.Value, info FieldInfo) {
	if info.HasDef {
		d.setDefault(parent, v, info)
		return
	}
	_, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	_, isNode := v.Addr().Interface().(Unmarshaler)
	if v.Kind() == reflect.Struct && !isText && !isNode {
		d.fields(&Node{Kind: Map, Line: parent.Line, Column: parent.Column}, true, []reflect.Value{v})
	}
}

// setDefault decodes the text of a default tag as if it had been written.
func (d *Decoder) setDefault(parent *Node, v reflect.Value, info FieldInfo) {
	scalar := func(text string) *Node {
		return &Node{Kind: textKind(text), Text: text, Line: parent.Line, Column: parent.Column}
	}
	_, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	if v.Kind() != reflect.Slice || isText {
		d.value(scalar(info.Default), v, info)
		return
	}
	list := &Node{Kind: List, Line: parent.Line, Column: parent.Column}
	for _, part := range strings.Split(info.Default, ",") {
		list.Items = append(list.Items, scalar(strings.TrimSpace(part)))
	}
	d.value(list, v, info)
}

func (d *Decoder) mapping(n *Node, v reflect.Value, info FieldInfo) {
	if n.Kind != Map {
		d.Errorf(n, "must be a mapping, not %s", n.Kind)
		return
	}
	if v.Type().Key().Kind() != reflect.String {
		d.Errorf(n, "cannot be decoded into %s", v.Type())
		return
	}
	elem := info
	elem.Required = false
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Fields)))
	for _, f := range n.Fields {
		d.at(f.Key, func() {
			if f.Value.Kind == Null && v.Type().Elem().Kind() != reflect.Interface && !d.opts.allowNull {
				d.Errorf(f.Value, "has no value; give it one or leave the key out")
				return
			}
			e := reflect.New(v.Type().Elem()).Elem()
			if f.Value.Kind != Null || e.Kind() == reflect.Interface {
				d.value(f.Value, e, elem)
			} else if e.Kind() == reflect.Pointer { // a key alone: all defaults
				e.Set(reflect.New(e.Type().Elem()))
				d.absent(f.Value, e.Elem(), FieldInfo{})
			}
			v.SetMapIndex(reflect.ValueOf(f.Key).Convert(v.Type().Key()), e)
		})
	}
	for _, f := range n.Dups {
		d.at(f.Key, func() {
			d.doc.add(f.Line, f.Column, d.path, fmt.Sprintf("the key is there twice, first in line %d", n.field(f.Key).Line))
		})
	}
}

func (d *Decoder) list(n *Node, v reflect.Value, info FieldInfo) {
	if n.Kind != List {
		d.Errorf(n, "must be a list, not %s", n.Kind)
		return
	}
	elem := info
	elem.Required, elem.HasDef = false, false
	v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		d.at(i, func() {
			if item.Kind == Null && v.Type().Elem().Kind() != reflect.Interface {
				d.Errorf(item, "the list item is empty")
				return
			}
			d.value(item, v.Index(i), elem)
		})
	}
}

// plain returns a node as map[string]any, []any, string, bool, int64, float64
// or nil.
func plain(n *Node) any {
	switch n.Kind {
	case List:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = plain(item)
		}
		return out
	case Map:
		out := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			out[f.Key] = plain(f.Value)
		}
		return out
	default:
		return plainScalar(n)
	}
}
