package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rhid/internal/config/strict"
)

// defaultMTU is what containerlab gives a link without an mtu of its own.
const defaultMTU = 9500

// Topology is the part of a containerlab file that this package understands.
// Anything else in the file is an error, so that no line is silently without
// effect here.
type Topology struct {
	Name     string       `yaml:"name"`
	Prefix   *string      `yaml:"prefix"`
	Topology TopologyBody `yaml:"topology"`

	dir string // of the file; bind sources are relative to it
}

// TopologyBody holds nodes and links.
type TopologyBody struct {
	Defaults NodeSpec            `yaml:"defaults"`
	Nodes    map[string]NodeSpec `yaml:"nodes"`
	Links    []LinkSpec          `yaml:"links"`
}

// NodeSpec is one node, or the defaults of all.
type NodeSpec struct {
	Kind       string            `yaml:"kind"`
	Image      string            `yaml:"image"` // only for containerlab; here the host's programs run
	Cmd        string            `yaml:"cmd"`
	Binds      []string          `yaml:"binds"`
	Exec       []string          `yaml:"exec"`
	Env        map[string]string `yaml:"env"`
	Sysctls    map[string]any    `yaml:"sysctls"`
	CapAdd     []string          `yaml:"cap-add"`
	Privileged *bool             `yaml:"privileged"`
}

// LinkSpec joins two interfaces, each written "node:interface".
type LinkSpec struct {
	Endpoints []string `yaml:"endpoints"`
	MTU       int      `yaml:"mtu"`
}

// endpoint is one end of a link.
type endpoint struct{ node, iface string }

func (e endpoint) String() string { return e.node + ":" + e.iface }

// ReadTopology reads a containerlab file and merges the defaults into its
// nodes the way containerlab does.
func ReadTopology(file string) (*Topology, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading topology: %w", err)
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("finding the folder of %s: %w", file, err)
	}
	t, err := parseTopology(file, data)
	if err != nil {
		return nil, err
	}
	t.dir = filepath.Dir(abs)
	return t, nil
}

func parseTopology(file string, data []byte) (*Topology, error) {
	var t Topology
	if _, err := strict.Decode(file, data, &t, strict.AllowNull()); err != nil {
		return nil, err
	}
	for name, n := range t.Topology.Nodes {
		t.Topology.Nodes[name] = merge(t.Topology.Defaults, n)
	}
	if err := t.problems(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &t, nil
}

// merge lays a node over the defaults: maps are joined, binds and exec follow
// the defaults' ones, everything else is replaced where the node has it.
func merge(d, n NodeSpec) NodeSpec {
	m := n
	m.Kind = first(n.Kind, d.Kind)
	m.Image = first(n.Image, d.Image)
	m.Cmd = first(n.Cmd, d.Cmd)
	m.Binds = slices.Concat(d.Binds, n.Binds)
	m.Exec = slices.Concat(d.Exec, n.Exec)
	m.CapAdd = slices.Concat(d.CapAdd, n.CapAdd)
	m.Env = joinMaps(d.Env, n.Env)
	m.Sysctls = joinMaps(d.Sysctls, n.Sysctls)
	if n.Privileged == nil {
		m.Privileged = d.Privileged
	}
	return m
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func joinMaps[V any](a, b map[string]V) map[string]V {
	m := make(map[string]V, len(a)+len(b))
	for k, v := range a {
		m[k] = v
	}
	for k, v := range b {
		m[k] = v
	}
	return m
}

// problems says what is wrong with the topology, all of it.
func (t *Topology) problems() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if t.Name == "" {
		bad("name is missing")
	}
	if len(t.Topology.Nodes) == 0 {
		bad("topology.nodes is empty")
	}
	for _, name := range t.names() {
		n := t.Topology.Nodes[name]
		if n.Kind != "linux" {
			bad("node %s: kind %q: only linux is supported", name, n.Kind)
		}
		for _, line := range append([]string{n.Cmd}, n.Exec...) {
			if _, err := splitWords(line); err != nil {
				bad("node %s: %q: %w", name, line, err)
			}
		}
		for _, c := range n.CapAdd {
			if _, ok := capNumbers[capName(c)]; !ok {
				bad("node %s: cap-add: unknown capability %q", name, c)
			}
		}
	}
	seen := map[endpoint]bool{}
	for i, l := range t.Topology.Links {
		ends, err := l.ends()
		if err != nil {
			bad("link %d: %w", i, err)
			continue
		}
		for _, e := range ends {
			if _, ok := t.Topology.Nodes[e.node]; !ok {
				bad("link %d: no node %q", i, e.node)
			}
			if seen[e] {
				bad("link %d: %s is used twice", i, e)
			}
			seen[e] = true
		}
	}
	return errors.Join(errs...)
}

// names returns the node names in order.
func (t *Topology) names() []string {
	var names []string
	for n := range t.Topology.Nodes {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func (l LinkSpec) ends() ([2]endpoint, error) {
	var ends [2]endpoint
	if len(l.Endpoints) != 2 {
		return ends, fmt.Errorf("has %d endpoints, not 2", len(l.Endpoints))
	}
	for i, s := range l.Endpoints {
		node, iface, ok := strings.Cut(s, ":")
		if !ok || node == "" || iface == "" {
			return ends, fmt.Errorf("endpoint %q is not node:interface", s)
		}
		ends[i] = endpoint{node, iface}
	}
	return ends, nil
}

func (l LinkSpec) mtu() int {
	if l.MTU == 0 {
		return defaultMTU
	}
	return l.MTU
}

// bind is one entry of binds, taken apart.
type bind struct {
	source, target string
	readOnly       bool
}

// parseBind takes "source:target[:options]" apart; a relative source is under
// dir.
func parseBind(dir, s string) (bind, error) {
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || !strings.HasPrefix(parts[1], "/") {
		return bind{}, fmt.Errorf("bind %q is not source:/target[:ro]", s)
	}
	b := bind{source: parts[0], target: filepath.Clean(parts[1])}
	if !filepath.IsAbs(b.source) {
		b.source = filepath.Join(dir, b.source)
	}
	if len(parts) == 3 {
		for _, o := range strings.Split(parts[2], ",") {
			if o != "ro" && o != "rw" {
				return bind{}, fmt.Errorf("bind %q: unknown option %q", s, o)
			}
			b.readOnly = b.readOnly || o == "ro"
		}
	}
	return b, nil
}
