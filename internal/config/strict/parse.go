package strict

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a document. They are far above any real configuration and keep a
// hostile one from exhausting the stack or the memory.
const (
	MaxBytes = 8 << 20
	MaxDepth = 64
	MaxNodes = 1 << 20 // aliases counted as often as they are used
)

// builder turns the library's syntax tree into Nodes.
type builder struct {
	anchors map[string]*Node
	nodes   int
	report  func(line, col int, msg string)
}

// parse returns the root of the document, nil where it cannot be parsed; what
// is wrong went to report.
func parse(data []byte, report func(line, col int, msg string)) *Node {
	if line, col, msg := checkText(data); msg != "" {
		report(line, col, msg)
		return nil
	}
	file, err := parseSafely(string(data))
	if err != nil {
		line, col, msg := syntaxError(err)
		report(line, col, "not valid YAML: "+msg)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		line, col := begin(doc.Body)
		switch {
		case doc.Body.Type() == ast.DirectiveType:
			report(line, col, "YAML directives are not used here")
			return nil
		case body != nil:
			report(line, col, "a second YAML document begins here; only one is read")
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		report(1, 1, "the file is empty")
		return nil
	}
	b := &builder{anchors: map[string]*Node{}, report: report}
	return b.build(body, 0)
}

// syntaxError takes the library's error apart. Its Error method is avoided: it
// prints the text around the place, which takes minutes for a long line.
func syntaxError(err error) (line, col int, msg string) {
	var se *yaml.SyntaxError
	if !errors.As(err, &se) {
		return 1, 1, err.Error()
	}
	line, col = position(se.Token)
	return line, col, se.Message
}

// checkText refuses what the YAML library should not be asked to read.
func checkText(data []byte) (line, col int, msg string) {
	if len(data) > MaxBytes {
		return 1, 1, fmt.Sprintf("the file has %d bytes, more than the limit of %d", len(data), MaxBytes)
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if (r == utf8.RuneError && size == 1) || r == 0 {
			before := data[:i]
			start := bytes.LastIndexByte(before, '\n') + 1
			return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1,
				fmt.Sprintf("byte 0x%02x is not UTF-8 text", data[i])
		}
		i += size
	}
	return 0, 0, ""
}

// parseSafely runs the library's parser. The parser recurses for each level of
// nesting, so the depth is bounded on its tokens first: a stack overflow could
// not be recovered from. A panic can be, and becomes an error.
func parseSafely(text string) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, fmt.Errorf("the parser gave up: %v", r)
		}
	}()
	tokens := lexer.Tokenize(text)
	if tk := tooDeep(tokens); tk != nil {
		return nil, &yaml.SyntaxError{Message: fmt.Sprintf("nested deeper than %d levels", MaxDepth), Token: tk}
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// tooDeep returns the token at which the nesting exceeds MaxDepth. Flow
// brackets are counted; of what nests on one line in block style, the number a
// line is. Nesting by indentation costs a growing line for each level, so
// MaxBytes bounds it.
func tooDeep(tokens token.Tokens) *token.Token {
	flow, line, onLine := 0, 0, 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType, token.DirectiveType:
			if tk.Position.Line != line {
				line, onLine = tk.Position.Line, 0
			}
			onLine++
		}
		if flow > MaxDepth || onLine > MaxDepth {
			return tk
		}
	}
	return nil
}

func position(tk *token.Token) (line, col int) {
	if tk == nil || tk.Position == nil {
		return 1, 1
	}
	return max(1, tk.Position.Line), max(1, tk.Position.Column)
}

// begin is where a node begins. The library says that a mapping in block style
// begins at its first colon.
func begin(n ast.Node) (line, col int) {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return position(m.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return position(m.Key.GetToken())
	}
	return position(n.GetToken())
}

// build returns the Node for n, nil after an error that was reported.
func (b *builder) build(n ast.Node, depth int) *Node {
	line, col := begin(n)
	b.nodes++
	if depth > MaxDepth {
		b.report(line, col, fmt.Sprintf("nested deeper than %d levels", MaxDepth))
		return nil
	}
	out := &Node{Line: line, Column: col, size: 1}
	if scalar(out, n) {
		return out
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		return b.anchor(n, depth)
	case *ast.AliasNode:
		return b.alias(n, depth)
	case *ast.MappingNode:
		return b.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		return b.mapping(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		return b.sequence(out, n, depth)
	case *ast.TagNode:
		b.report(line, col, "YAML tags are not used here")
	default:
		b.report(line, col, "this form of YAML is not used here: "+strings.ToLower(n.Type().String()))
	}
	return nil
}

// scalar sets kind and text of a scalar; false for anything else.
func scalar(out *Node, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.NullNode:
		out.Kind = Null
	case *ast.BoolNode:
		out.Kind, out.Text = Bool, n.Token.Value
	case *ast.IntegerNode:
		out.Kind, out.Text = Int, n.Token.Value
	case *ast.FloatNode:
		out.Kind, out.Text = Float, n.Token.Value
	case *ast.InfinityNode:
		out.Kind, out.Text = Float, n.Token.Value
	case *ast.NanNode:
		out.Kind, out.Text = Float, n.Token.Value
	case *ast.StringNode:
		out.Kind, out.Text = String, n.Value
	case *ast.LiteralNode:
		out.Kind, out.Text = String, n.Value.Value
	default:
		return false
	}
	return true
}

func (b *builder) sequence(out *Node, n *ast.SequenceNode, depth int) *Node {
	out.Kind = List
	for _, v := range n.Values {
		item := b.build(v, depth+1)
		if item == nil {
			return nil
		}
		out.Items = append(out.Items, item)
	}
	out.measure()
	return out
}

func (b *builder) mapping(out *Node, values []*ast.MappingValueNode, depth int) *Node {
	out.Kind = Map
	seen := map[string]int{}
	for _, v := range values {
		key, ok := b.key(v.Key)
		if !ok {
			return nil
		}
		key.Value = b.build(v.Value, depth+1)
		if key.Value == nil {
			return nil
		}
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			if !b.merge(out, key, seen) {
				return nil
			}
			continue
		}
		out.add(key, seen)
	}
	out.measure()
	return out
}

// key returns a Field without its value.
func (b *builder) key(n ast.MapKeyNode) (Field, bool) {
	var node ast.Node = n
	if mk, ok := n.(*ast.MappingKeyNode); ok {
		node = mk.Value
	}
	f := Field{}
	if node != nil {
		f.Line, f.Column = position(node.GetToken())
	}
	switch k := node.(type) {
	case *ast.StringNode:
		f.Key = k.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.MergeKeyNode:
		f.Key = k.GetToken().Value
	default:
		b.report(max(1, f.Line), max(1, f.Column), "a key must be a plain word")
		return f, false
	}
	return f, true
}

// merge adds the keys of a `<<` value, which yield to the mapping's own.
func (b *builder) merge(out *Node, f Field, seen map[string]int) bool {
	sources := []*Node{f.Value}
	if f.Value.Kind == List {
		sources = f.Value.Items
	}
	for _, src := range sources {
		if src.Kind != Map {
			b.report(f.Line, f.Column, "<< must be given a mapping, not "+src.Kind.String())
			return false
		}
		for _, m := range src.Fields {
			m.merged = true
			out.add(m, seen)
		}
	}
	return true
}

func (b *builder) anchor(n *ast.AnchorNode, depth int) *Node {
	if n.Value == nil || n.Name == nil {
		line, col := position(n.GetToken())
		b.report(line, col, "the anchor marks nothing")
		return nil
	}
	v := b.build(n.Value, depth)
	if v != nil { // registered only now, so that it cannot contain itself
		b.anchors[n.Name.GetToken().Value] = v
	}
	return v
}

func (b *builder) alias(n *ast.AliasNode, depth int) *Node {
	line, col := position(n.GetToken())
	name := ""
	if n.Value != nil {
		name = n.Value.GetToken().Value
	}
	v, ok := b.anchors[name]
	if !ok {
		b.report(line, col, fmt.Sprintf("*%s refers to no anchor before it", name))
		return nil
	}
	b.nodes += v.size
	if b.nodes > MaxNodes {
		b.report(line, col, "the aliases unfold to too much")
		return nil
	}
	if depth+v.height > MaxDepth {
		b.report(line, col, fmt.Sprintf("nested deeper than %d levels", MaxDepth))
		return nil
	}
	return v
}
