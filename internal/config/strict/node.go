package strict

// Kind is what a node of the document is.
type Kind uint8

// The kinds of node. A quoted or block scalar is always a String.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	List
	Map
)

var kindNames = [...]string{
	"nothing", "a boolean", "a number", "a number", "a string", "a list", "a mapping",
}

// String returns the kind with its article, for messages.
func (k Kind) String() string { return kindNames[k] }

// Node is a place in a document, with aliases and merge keys resolved.
type Node struct {
	Kind         Kind
	Line, Column int     // where the value begins, from 1
	Text         string  // of a scalar, without quotes
	Items        []*Node // of a List
	Fields       []Field // of a Map, in the document's order
	Dups         []Field // of a Map: repeated keys; the first one counts

	size   int // nodes in it, itself included, aliases counted as often as used
	height int // levels below it
}

// Field is a key of a mapping and its value.
type Field struct {
	Key          string
	Line, Column int // of the key
	Value        *Node

	merged bool // came in by a merge key, so that others may take its place
}

// Get returns the value of a key, nil where the node has no such key.
func (n *Node) Get(key string) *Node {
	if f := n.field(key); f != nil {
		return f.Value
	}
	return nil
}

func (n *Node) field(key string) *Field {
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			return &n.Fields[i]
		}
	}
	return nil
}

// add puts a field in; a repeated key goes to Dups, unless one of the two came
// in by a merge, which yields.
func (n *Node) add(f Field, seen map[string]int) {
	i, dup := seen[f.Key]
	switch {
	case !dup:
		seen[f.Key] = len(n.Fields)
		n.Fields = append(n.Fields, f)
	case n.Fields[i].merged && !f.merged:
		n.Fields[i] = f
	case !f.merged:
		n.Dups = append(n.Dups, f)
	}
}

// measure sets size and height from the children.
func (n *Node) measure() {
	n.size, n.height = 1, 0
	count := func(c *Node) {
		n.size += c.size
		n.height = max(n.height, c.height+1)
	}
	for _, c := range n.Items {
		count(c)
	}
	for _, f := range n.Fields {
		count(f.Value)
	}
}
