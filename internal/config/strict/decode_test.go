package strict

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sample has a field of every supported form.
type sample struct {
	Name    string            `yaml:"name" required:"true"`
	Mode    string            `yaml:"mode" default:"fast" enum:"fast,slow"`
	Count   int               `yaml:"count" default:"3" min:"1" max:"9"`
	Port    uint16            `yaml:"port"`
	Share   float64           `yaml:"share" max:"1"`
	On      bool              `yaml:"on"`
	Wait    time.Duration     `yaml:"wait" default:"2s" min:"1s"`
	Addr    netip.Addr        `yaml:"addr"`
	Prefix  netip.Prefix      `yaml:"prefix"`
	Target  netip.AddrPort    `yaml:"target"`
	Words   []string          `yaml:"words" default:"a, b" enum:"a,b,c"`
	Numbers []int             `yaml:"numbers"`
	Labels  map[string]string `yaml:"labels"`
	Inner   inner             `yaml:"inner"`
	Maybe   *inner            `yaml:"maybe"`
	List    []inner           `yaml:"list"`
	ByName  map[string]*inner `yaml:"by_name"`
	Pair    pair              `yaml:"pair"`
	Any     any               `yaml:"any"`
	Side    `yaml:",inline"`
	Ignored string
}

type inner struct {
	Name string `yaml:"name"`
	Size int    `yaml:"size" default:"7"`
}

// Side is inline in sample.
type Side struct {
	Beside string `yaml:"beside"`
}

// pair decodes itself from a list of two.
type pair struct{ A, B string }

func (p *pair) UnmarshalNode(d *Decoder, n *Node) {
	if n.Kind != List || len(n.Items) != 2 {
		d.Errorf(n, "must be a list of two")
		return
	}
	d.Decode(n.Items[0], &p.A)
	d.Decode(n.Items[1], &p.B)
}

func defaults() sample {
	return sample{
		Name: "x", Mode: "fast", Count: 3, Wait: 2 * time.Second, Words: []string{"a", "b"}, Inner: inner{Size: 7},
	}
}

func TestDecode(t *testing.T) {
	tests := []struct {
		name string
		yaml string
		want func(*sample)
	}{
		{"defaults", "name: x", func(*sample) {}},
		{"a number is a name", "name: 12", func(s *sample) { s.Name = "12" }},
		{"a number keeps its spelling", "name: 1.10", func(s *sample) { s.Name = "1.10" }},
		{"zero is not absent", "name: x\nwords: []", func(s *sample) { s.Words = []string{} }},
		{"scalars", "{name: x, port: 65535, share: 0.5, on: true, wait: 1m, mode: slow}", func(s *sample) {
			s.Port, s.Share, s.On, s.Wait, s.Mode = 65535, 0.5, true, time.Minute, "slow"
		}},
		{"addresses", "{name: x, addr: \"fd00::1\", prefix: 10.0.0.1/32, target: \"[::1]:80\"}", func(s *sample) {
			s.Addr, s.Prefix = netip.MustParseAddr("fd00::1"), netip.MustParsePrefix("10.0.0.1/32")
			s.Target = netip.MustParseAddrPort("[::1]:80")
		}},
		{"structs", "name: x\nmaybe: {}\nlist:\n- name: a\n- size: 1\nby_name:\n  k: {size: 2}\n", func(s *sample) {
			s.Maybe, s.List = &inner{Size: 7}, []inner{{"a", 7}, {"", 1}}
			s.ByName = map[string]*inner{"k": {Size: 2}}
		}},
		{"hook, inline, any", "name: x\npair: [l, r]\nbeside: b\nany: {a: [1, true, ~, 1.5, s]}\n", func(s *sample) {
			s.Pair, s.Beside = pair{"l", "r"}, "b"
			s.Any = map[string]any{"a": []any{int64(1), true, nil, 1.5, "s"}}
		}},
		{"anchors and merges", "name: x\nmaybe: &m {name: m, size: 1}\nlist:\n- <<: *m\n  size: 2\n- *m\n", func(s *sample) {
			s.Maybe, s.List = &inner{"m", 1}, []inner{{"m", 2}, {"m", 1}}
		}},
		{"block text", "name: |\n  a\n  b\nlabels: {true: \"1\", 5: x}\n", func(s *sample) {
			s.Name, s.Labels = "a\nb\n", map[string]string{"true": "1", "5": "x"}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := defaults()
			tt.want(&want)
			var got sample
			if _, err := Decode("t.yaml", []byte(tt.yaml), &got); err != nil {
				t.Fatal(err)
			}
			opts := cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}, netip.AddrPort{})
			if diff := cmp.Diff(want, got, opts); diff != "" {
				t.Errorf("decoded otherwise (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		yaml string
		want string // lines
	}{
		{"", "t:1:1: the file is empty"},
		{"# nothing\n", "t:1:1: the file is empty"},
		{"- a\n", "t:1:1: must be a mapping, not a list"},
		{"name: x\n---\nname: y\n", "t:3:1: a second YAML document begins here; only one is read"},
		{"name: [1\n", "t:1:7: not valid YAML: sequence end token ']' not found"},
		{"name: x\nname: \xff\n", "t:2:7: byte 0xff is not UTF-8 text"},
		{"na\x00me: x\n", "t:1:3: byte 0x00 is not UTF-8 text"},
		{"on: true\n", "t:1:1: name: is required"},
		{"name: ''\n", "t:1:7: name: must not be empty"},
		{"name:\n", "t:1:7: name: has no value; give it one or leave the key out"},
		{"name: x\nprot: 1\n", "t:2:1: prot: unknown key; did you mean \"port\"?"},
		{"name: x\nIgnored: 1\n", "t:2:1: Ignored: unknown key"},
		{"name: x\nport: 1\nport: 2\n", "t:3:1: port: the key is there twice, first in line 2"},
		{"name: x\nlabels: {a: b, a: c}\n", "t:2:16: labels.a: the key is there twice, first in line 2"},
		{"name: true\n", "t:1:7: name: must be a string, not the boolean true"},
		{"name: {a: b}\n", "t:1:7: name: must be a string, not a mapping"},
		{"name: x\nmode: fats\n", "t:2:7: mode: \"fats\" is not one of fast, slow; did you mean \"fast\"?"},
		{"name: x\nwords: [a, d]\n", "t:2:12: words[1]: \"d\" is not one of a, b, c; did you mean \"a\"?"},
		{"name: x\ncount: 0\nport: 70000\nshare: 2\n", "t:2:8: count: must be at least 1, not 0\nt:3:7: port: 70000 is out of range: 0 to 65535\nt:4:8: share: must be at most 1, not 2"},
		{"name: x\ncount: 10\n", "t:2:8: count: must be at most 9, not 10"},
		{"name: x\ncount: '3'\nport: 0x10\n", "t:2:8: count: must be a whole number, not \"3\"\nt:3:7: port: must be a whole number in decimal, not 0x10"},
		{"name: x\ncount: 18446744073709551615\n", "t:2:8: count: 18446744073709551615 is out of range"},
		{"name: x\nshare: much\n", "t:2:8: share: must be a number, not \"much\""},
		{"name: x\non: yes\n", "t:2:5: on: must be true or false, not \"yes\""},
		{"name: x\nwait: 5\n", "t:2:7: wait: 5 has no unit; write 5s or 5ms"},
		{"name: x\nwait: soon\n", "t:2:7: wait: \"soon\" is not a duration; write it like 500ms, 2s or 1m30s"},
		{"name: x\nwait: -2s\n", "t:2:7: wait: -2s is negative"},
		{"name: x\nwait: 10ms\n", "t:2:7: wait: must be at least 1s, not 10ms"},
		{"name: x\naddr: 10.0.0\n", "t:2:7: addr: \"10.0.0\" is not an IP address"},
		{"name: x\naddr: [1]\n", "t:2:7: addr: must be an IP address, not a list"},
		{"name: x\nprefix: 10.0.0.1\n", "t:2:9: prefix: \"10.0.0.1\" lacks its prefix length; write 10.0.0.1/32"},
		{"name: x\nprefix: 10.0.0.1/33\n", "t:2:9: prefix: \"10.0.0.1/33\" is not an IP prefix like 10.255.0.1/32 or fd00::1/128"},
		{"name: x\ntarget: 10.0.0.1\n", "t:2:9: target: \"10.0.0.1\" is not an address and port like 10.0.0.1:80 or [fd00::1]:80"},
		{"name: x\nwords: a\n", "t:2:8: words: must be a list, not a string"},
		{"name: x\nlabels: a\n", "t:2:9: labels: must be a mapping, not a string"},
		{"name: x\nlist:\n- name: é\n  size: x\n- name: b\n  sise: 1\n", "t:4:9: list[0] \"é\": size: must be a whole number, not \"x\"\nt:6:3: list[1] \"b\": sise: unknown key; did you mean \"size\"?"},
		{"name: x\nlist: [~]\n", "t:2:8: list[0]: the list item is empty"},
		{"name: x\nby_name: {a.b: {size: x}}\n", "t:2:23: by_name[\"a.b\"].size: must be a whole number, not \"x\""},
		{"name: x\nby_name: {k: }\n", "t:2:13: by_name.k: has no value; give it one or leave the key out"},
		{"name: x\npair: [1]\n", "t:2:7: pair: must be a list of two"},
		{"name: *a\n", "t:1:7: *a refers to no anchor before it"},
		{"name: x\nlist: &a [*a]\n", "t:2:11: *a refers to no anchor before it"},
		{"name: !!str x\n", "t:1:7: YAML tags are not used here"},
		{"%YAML 1.2\n---\nname: x\n", "t:1:1: YAML directives are not used here"},
		{"name: x\nmaybe: {<<: 5}\n", "t:2:9: << must be given a mapping, not a number"},
		{"{[a]: b}\n", "t:1:5: not valid YAML: found an invalid key for this map"},
	}
	for _, tt := range tests {
		t.Run(tt.yaml, func(t *testing.T) {
			var got sample
			_, err := Decode("t", []byte(tt.yaml), &got)
			var errs Errors
			if !errors.As(err, &errs) {
				t.Fatalf("error is %v, want Errors", err)
			}
			if diff := cmp.Diff(strings.Split(tt.want, "\n"), strings.Split(errs.Error(), "\n")); diff != "" {
				t.Errorf("errors differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	const text = "name: x\nmystery: {a: 1}\nmaybe:\nby_name:\n  k:\n"
	var got sample
	if _, err := Decode("t", []byte(text), &got, AllowUnknown(), AllowNull()); err != nil {
		t.Fatal(err)
	}
	if got.Maybe != nil || got.ByName["k"] == nil || got.ByName["k"].Size != 7 {
		t.Errorf("keys without a value: maybe %v, by_name %v", got.Maybe, got.ByName)
	}
	if _, err := Decode("t", []byte("name: x\nname: y\n"), &got, AllowUnknown()); err == nil {
		t.Error("AllowUnknown allows repeated keys")
	}
	if _, err := Decode("t", []byte(text), got); err == nil {
		t.Error("a target that is no pointer is accepted")
	}
}

func TestHostileDocuments(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		a, b := string(rune('0'+i)), string(rune('1'+i))
		bomb += "a" + b + ": &a" + b + " [*a" + a + ", *a" + a + ", *a" + a + ", *a" + a + ", *a" + a + ", *a" + a + "]\n"
	}
	deepAlias := "a0: &a0 [x]\n"
	for i := range 70 {
		deepAlias += "b" + strings.Repeat("c", i+1) + ": &b" + strings.Repeat("c", i+1) + " [*" +
			map[bool]string{true: "a0", false: "b" + strings.Repeat("c", i)}[i == 0] + "]\n"
	}
	block := ""
	for i := range 80 {
		block += strings.Repeat(" ", i) + "a:\n"
	}
	tests := map[string]struct{ yaml, want string }{
		"flow lists":    {strings.Repeat("[", 1<<17), "nested deeper than 64 levels"},
		"flow mappings": {strings.Repeat("{a: ", 1<<16), "nested deeper than 64 levels"},
		"dashes":        {strings.Repeat("- ", 1<<16), "nested deeper than 64 levels"},
		"questions":     {strings.Repeat("? ", 1<<16), "nested deeper than 64 levels"},
		"tags":          {"a: " + strings.Repeat("!t ", 1<<15), "nested deeper than 64 levels"},
		"indentation":   {block, "nested deeper than 64 levels"},
		"aliases":       {bomb, "the aliases unfold to too much"},
		"alias depth":   {deepAlias, "nested deeper than 64 levels"},
		"size":          {strings.Repeat("#", MaxBytes+1), "more than the limit"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got map[string]any
			_, err := Decode("t", []byte(tt.yaml), &got)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error is %.200v, want %q", err, tt.want)
			}
		})
	}
}

func TestDocument(t *testing.T) {
	const text = "name: x\nlist:\n  - name: a\n    size: 1\n"
	var got sample
	doc, err := Decode("t", []byte(text), &got)
	if err != nil {
		t.Fatal(err)
	}
	size := Path{"list", 0, "size"}
	if !doc.Has(size) || doc.Has(Path{"list", 1}) || doc.Has(Path{"name", "x"}) {
		t.Error("Has does not tell what the document has")
	}
	if line, col := doc.Position(Path{"list", 0, "absent", 5}); line != 3 || col != 5 {
		t.Errorf("the nearest parent is at %d:%d, want 3:5", line, col)
	}
	doc.Errorf(size, "first")
	doc.Errorf(size, "the same place")
	doc.Errorf(Path{"list", 0}, "above")
	doc.Errorf(size.With("x"), "below")
	doc.Errorf(Path{"name"}, "name")
	if !doc.Failed(Path{"list"}) || doc.Failed(Path{"list", 1}) {
		t.Error("Failed does not tell where errors are")
	}
	const want = "t:1:7: name: name\nt:4:11: list[0] \"a\": size: first"
	if diff := cmp.Diff(want, doc.Err().Error()); diff != "" {
		t.Errorf("errors differ (-want +got):\n%s", diff)
	}
}

func TestTooManyErrors(t *testing.T) {
	text := "name: x\nnumbers:\n" + strings.Repeat("- x\n", MaxErrors+1)
	_, err := Decode("t", []byte(text), new(sample))
	var errs Errors
	if !errors.As(err, &errs) || len(errs) != MaxErrors+1 {
		t.Fatalf("%d errors", len(errs))
	}
	if want := "t:1002:3: more errors are left out"; errs[MaxErrors].Error() != want {
		t.Errorf("the last is %q, want %q", errs[MaxErrors], want)
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"tcp", "tpc", 1}, {"kitten", "sitting", 3}, {"é", "e", 1}, {strings.Repeat("a", 65), "a", 64}}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
