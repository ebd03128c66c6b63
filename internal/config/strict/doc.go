// Package strict decodes a YAML document into Go structs and forgives nothing:
// unknown and repeated keys, wrong types, values out of range and missing keys
// are all reported, all at once, each with file, line, column and path. It
// keeps the document's positions, so that later rules can report theirs the
// same way.
//
// The struct tags it reads:
//
//	yaml:"key"        the key; ",inline" puts a struct's keys beside the others
//	required:"true"   the key must be there and not be empty
//	default:"text"    used where the key is absent; comma-separated for lists
//	enum:"a,b,c"      the only values of a string (or of a list's strings)
//	min:"1" max:"9"   bounds of a number or a duration, both included
//	doc:"text"        one line for people; not used here
//
// Fields may be structs, pointers, maps with string keys, slices, strings,
// numbers, booleans, time.Duration, netip types, any encoding.TextUnmarshaler,
// and types that decode themselves (Unmarshaler). Plain numbers are accepted
// for strings as they are written, because "name: 1" can only mean one thing;
// nothing else is converted.
package strict
