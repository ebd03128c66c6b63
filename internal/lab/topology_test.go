package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitWords(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"  ip  addr\tadd 10.0.0.1/24 dev eth1 ", []string{"ip", "addr", "add", "10.0.0.1/24", "dev", "eth1"}},
		{`sh -c 'echo "$A" > /tmp/x'`, []string{"sh", "-c", `echo "$A" > /tmp/x`}},
		{`a "b c" d\ e "\"" "\n"`, []string{"a", "b c", "d e", `"`, `\n`}},
		{`'' ""`, []string{"", ""}},
		{`x'y'"z"`, []string{"xyz"}},
	} {
		got, err := splitWords(c.line)
		if err != nil {
			t.Errorf("%q: %v", c.line, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.line, diff)
		}
	}
	for _, line := range []string{`'open`, `"open`, `end\`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q: no error but %q", line, got)
		}
	}
}

func FuzzSplitWords(f *testing.F) {
	for _, s := range []string{"ip addr", `sh -c 'a "b"'`, `\`, `'`, `""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitWords(line)
		if err != nil {
			return
		}
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := splitWords(strings.Join(quoted, " "))
		if err != nil {
			t.Fatalf("%q became %q, which quoted again is wrong: %v", line, words, err)
		}
		if diff := cmp.Diff(words, again); diff != "" {
			t.Fatalf("%q: quoting the words again changed them:\n%s", line, diff)
		}
	})
}

func TestParseTopology(t *testing.T) {
	top, err := parseTopology("x.yml", []byte(`
name: x
topology:
  defaults:
    kind: linux
    image: ignored
    exec: [first]
    binds: ["a:/a"]
    env: {A: "1", B: "1"}
    sysctls: {net.ipv4.ip_forward: 1}
    cap-add: [NET_ADMIN]
    privileged: false
  nodes:
    one:
    two:
      cmd: sleep infinity
      exec: [second]
      binds: ["b:/b:ro"]
      env: {B: "2"}
      sysctls: {net.ipv4.ip_forward: 0}
      cap-add: [CAP_NET_RAW]
      privileged: true
  links:
    - endpoints: ["one:eth1", "two:eth1"]
    - endpoints: ["one:eth2", "two:eth2"]
      mtu: 1500
`))
	if err != nil {
		t.Fatal(err)
	}
	two := top.Topology.Nodes["two"]
	if got := strings.Join(two.Exec, " ") + " " + strings.Join(two.Binds, " ") + " " + strings.Join(two.CapAdd, " "); got != "first second a:/a b:/b:ro NET_ADMIN CAP_NET_RAW" {
		t.Errorf("joined lists: %s", got)
	}
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "2"}, two.Env); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"net.ipv4.ip_forward": int64(0)}, two.Sysctls); diff != "" {
		t.Error(diff)
	}
	if one := top.Topology.Nodes["one"]; one.Kind != "linux" || *one.Privileged || !*two.Privileged {
		t.Errorf("one: %+v, two: %+v", one, two)
	}
	if a, b := top.Topology.Links[0].mtu(), top.Topology.Links[1].mtu(); a != defaultMTU || b != 1500 {
		t.Errorf("MTUs %d and %d", a, b)
	}
}

func TestTopologyProblems(t *testing.T) {
	node := "topology: {nodes: {a: {kind: linux}, b: {kind: linux}}, links: [%s]}"
	for _, c := range []struct{ text, want string }{
		{"topology: {nodes: {a: {kind: linux}}}", "name is missing"},
		{"name: x\ntopology: {}", "topology.nodes is empty"},
		{"name: x\ntopology: {nodes: {a: {kind: srl}}}", `node a: kind "srl": only linux is supported`},
		{"name: x\ntopology: {nodes: {a: {kind: linux, startup-config: x}}}", "unknown key"},
		{"name: x\ntopology: {nodes: {a: {kind: linux, exec: [\"'\"]}}}", "unfinished quote"},
		{"name: x\ntopology: {nodes: {a: {kind: linux, cap-add: [FLY]}}}", `unknown capability "FLY"`},
		{"name: x\n" + strings.ReplaceAll(node, "%s", `{endpoints: ["a:eth1"]}`), "has 1 endpoints"},
		{"name: x\n" + strings.ReplaceAll(node, "%s", `{endpoints: ["a:eth1", "b"]}`), `"b" is not node:interface`},
		{"name: x\n" + strings.ReplaceAll(node, "%s", `{endpoints: ["a:eth1", "c:eth1"]}`), `no node "c"`},
		{"name: x\n" + strings.ReplaceAll(node, "%s", `{endpoints: ["a:eth1", "a:eth1"]}`), "a:eth1 is used twice"},
	} {
		_, err := parseTopology("x.yml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "x.yml") {
			t.Errorf("%s\ngot:  %v\nwant: %s", c.text, err, c.want)
		}
	}
}

func TestParseBind(t *testing.T) {
	for _, c := range []struct {
		text string
		want bind
	}{
		{"frr.conf:/etc/frr/frr.conf", bind{source: "/lab/frr.conf", target: "/etc/frr/frr.conf"}},
		{"../bin/x:/usr/bin/x:ro", bind{source: "/bin/x", target: "/usr/bin/x", readOnly: true}},
		{"/abs:/x/:rw", bind{source: "/abs", target: "/x"}},
	} {
		got, err := parseBind("/lab", c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
	}
	for _, text := range []string{"a", ":/x", "a:x", "a:/x:rx", "a:/x:ro:ro"} {
		if got, err := parseBind("/lab", text); err == nil {
			t.Errorf("%s: no error but %+v", text, got)
		}
	}
}

// TestScenarios reads every topology of the project and looks for the files
// that it binds. bin/ is built later.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../../lab/containerlab/*/*.clab.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no topologies found (%v)", err)
	}
	for _, f := range files {
		top, err := ReadTopology(f)
		if err != nil {
			t.Error(err)
			continue
		}
		for name, n := range top.Topology.Nodes {
			for _, s := range n.Binds {
				b, err := parseBind(top.dir, s)
				if err != nil {
					t.Errorf("%s: %s: %v", f, name, err)
					continue
				}
				if _, err := os.Stat(b.source); err != nil && !strings.Contains(b.source, "/bin/") {
					t.Errorf("%s: %s: %v", f, name, err)
				}
			}
			if n.Privileged == nil || *n.Privileged {
				t.Errorf("%s: %s is privileged", f, name)
			}
		}
	}
}
