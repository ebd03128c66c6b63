package cluster

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func samples() []*message {
	st := stamp{recordKey{recordState, "n1"}, version{7 << 32, 3, "n1"}}
	return []*message{
		{kind: messageRecords, from: "n1", records: []record{
			{stamp: st, body: []byte{0, '{', '}'}},
			{stamp: stamp{recordKey{recordIntent, "drain/node:x"}, version{9, 0, "n2"}}, body: []byte{1}, life: life{true, 90 * time.Second, true}},
		}},
		{kind: messageDigest, from: "n2", nonce: 1 << 63, clock: time.UnixMilli(-5), stamps: []stamp{st, st}},
		{kind: messageHello, from: "n3", nonce: 5, sum: 1<<64 - 1},
		{kind: messageSame, from: "n3", nonce: 5, clock: time.UnixMilli(1)},
		{kind: messageWant, from: "n3", stamps: []stamp{st}},
		{kind: messageNotice, from: "n3", stamps: []stamp{st}},
		{kind: messageKeyChange, from: "n3", nonce: 8, op: keyUse, key: []byte("0123456789abcdef")},
		{kind: messageKeyAnswer, from: "n3", nonce: 8, text: "disk full"},
		{kind: messageAsk, from: "n3", nonce: 9, subject: "checks", argument: `{"of":"atm"}`},
		{kind: messageAnswer, from: "n3", nonce: 9, text: "not found", body: []byte{bodyPlain, '[', ']'}},
	}
}

var messageOptions = cmp.Options{
	cmp.AllowUnexported(message{}, record{}, stamp{}, recordKey{}, version{}, life{}), cmpopts.EquateEmpty(),
}

func TestMessages(t *testing.T) {
	for _, m := range samples() {
		b := m.encode(1)
		got, err := decode(b, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, got, messageOptions); d != "" {
			t.Errorf("kind %d (-want +got):\n%s", m.kind, d)
		}
		// A field that a later version put behind.
		if got, err = decode(append(b, 1, 2, 3), 1, 1); err != nil || !cmp.Equal(m, got, messageOptions) {
			t.Errorf("kind %d with more behind it: %v", m.kind, err)
		}
		for i := range b {
			if _, err := decode(b[:i], 1, 1); err == nil {
				t.Errorf("kind %d cut after %d bytes was taken", m.kind, i)
			}
		}
		var v *versionError
		if _, err := decode(m.encode(3), 1, 2); !errors.As(err, &v) || v.got != 3 {
			t.Errorf("version 3: %v", err)
		}
	}
	if _, err := decode(make([]byte, maxMessage+1), 1, 1); !errors.Is(err, errMessage) {
		t.Error(err)
	}
}

// Counts and lengths that promise more than there is cost nothing.
func TestCountsAreBounded(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}
	for _, kind := range []messageKind{messageRecords, messageWant, messageDigest} {
		b := (&message{kind: kind, from: "n1"}).encode(1)
		b = append(b[:len(b)-1], huge...)
		allocs := testing.AllocsPerRun(10, func() {
			if _, err := decode(b, 1, 1); err == nil {
				t.Errorf("kind %d was taken", kind)
			}
		})
		if allocs > 30 {
			t.Errorf("kind %d: %v allocations", kind, allocs)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.encode(1))
	}
	f.Add([]byte{wireMagic, 1, 1, 0, 0xff, 0xff, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b, 1, 2)
		if err != nil {
			return
		}
		again, err := decode(m.encode(1), 1, 1)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if d := cmp.Diff(m, again, messageOptions); d != "" {
			t.Fatal(d)
		}
	})
}

// Whatever a body is, reading it ends, and what is taken is within bounds.
func FuzzBody(f *testing.F) {
	c := &codec{}
	for _, text := range []string{
		`{}`, `{"load":1,"services":{"atm":{"readiness":"ready","since":"2026-01-02T03:04:05Z"}}}`,
		`{"sees":["a"],"certainty":"settled"}`, `{"kind":"drain","subject":"x","for":5}`,
		`{"services":{"` + strings.Repeat("x", 600) + `":{}}}`,
	} {
		b, err := c.pack([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(1), b)
		f.Add(uint8(3), b)
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		if text, err := c.open(b); err == nil && len(text) > maxBody {
			t.Fatalf("%d bytes became %d", len(b), len(text))
		}
		r := &record{stamp: stamp{key: recordKey{recordKind(kind%3 + 1), "drain/x"}}, body: b}
		v, err := c.readBody(r)
		if err != nil {
			return
		}
		if s, ok := v.(*stateBody); ok {
			if _, _, err := s.own(s.Leaving); err != nil {
				t.Fatalf("what was taken cannot be published: %v", err)
			}
		}
	})
}

func FuzzIntentsFile(f *testing.F) {
	c := &codec{}
	f.Add([]byte(`{"format":1,"saved":"2026-01-02T03:04:05Z","intents":[{"clock":3,"node":"n1","left_ms":5,"body":"{\"kind\":\"drain\",\"subject\":\"x\"}"}]}`))
	f.Add([]byte(`{"format":1,"intents":[{"clock":3,"node":"n1","packed":"AHt9"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, bodies, err := parseIntents(c, b, time.Unix(0, 0))
		if err == nil && len(records) != len(bodies) {
			t.Fatal("records and bodies differ in number")
		}
		for _, r := range records {
			if r.life.left < 0 || r.life.left > maxLife || r.ver.hi > maxLamport {
				t.Fatalf("out of bounds: %+v", r)
			}
		}
	})
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		s    string
		n    int
		want string
	}{{"abc", 5, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"日本", 4, "日"}, {"日", 1, ""}} {
		if got := cut(tt.s, tt.n); got != tt.want {
			t.Errorf("cut(%q, %d) = %q, want %q", tt.s, tt.n, got, tt.want)
		}
	}
}

func TestSettings(t *testing.T) {
	good := func() Settings { return Settings{Cluster: "c", Self: "n0", Nodes: nodeList(2), Port: 1} }
	for _, tt := range []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"good", func(*Settings) {}, ""},
		{"detection", func(s *Settings) { s.Detection = "soon" }, `detection "soon": must be fast, lan or wan`},
		{"no name", func(s *Settings) { s.Cluster = "" }, "cluster name"},
		{"port", func(s *Settings) { s.Port = 0 }, "port 0"},
		{"self", func(s *Settings) { s.Self = "x" }, `this node, "x", is not among`},
		{"twice", func(s *Settings) { s.Nodes[1].Name = "n0" }, "node n0 is there twice"},
		{"same address", func(s *Settings) { s.Nodes[1].Address = s.Nodes[0].Address }, "nodes n0 and n1 have the same address"},
		{"no address", func(s *Settings) { s.Nodes[1].Address = netip.Addr{} }, "is not an address for gossip"},
		{"keys", func(s *Settings) { s.Keys = make([][]byte, 17) }, "17 keys"},
	} {
		s := good()
		tt.change(&s)
		_, err := s.complete()
		if tt.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
