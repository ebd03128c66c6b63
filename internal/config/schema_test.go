package config

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"rhid/internal/config/strict"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rhid.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("rhid.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// anyValue decodes YAML as an editor does before it applies a schema.
func anyValue(t *testing.T, text []byte) any {
	t.Helper()
	var out map[string]any
	if _, err := strict.Decode("rhid.yaml", text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// examples are the configurations that the project hands out.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{"right": []byte(right), "awkward": []byte(awkward)}
	files, err := filepath.Glob("../../packaging/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	scenarios, err := filepath.Glob("../../lab/containerlab/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(append(files, referenceFile), scenarios...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[file] = text
	}
	for name, text := range documented(t) {
		out[name] = text
	}
	return out
}

func TestSchemaAcceptsExamples(t *testing.T) {
	schema := compileSchema(t)
	for name, text := range examples(t) {
		t.Run(name, func(t *testing.T) {
			if err := schema.Validate(anyValue(t, text)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSchemaRefuses(t *testing.T) {
	schema := compileSchema(t)
	tests := map[string][]edit{
		"unknown key":             {{"", "service: []\n"}},
		"unknown key of a check":  {{"{type: http,", "{type: http, send: x,"}},
		"unknown check type":      {{"type: tcp", "type: tpc"}},
		"required key missing":    {{"    vips: [10.255.0.11/32]\n", ""}},
		"empty list":              {{"vips: [10.255.0.10/32]", "vips: []"}},
		"number out of range":     {{"asn: 65000", "asn: 4294967296"}},
		"text for a number":       {{"asn: 65000", "asn: many"}},
		"duration without a unit": {{"interval: 1s", "interval: 1"}},
		"word not in the list":    {{"    check: web\n", "    check: web\n    via: [ospf]\n"}},
		"prefix without length":   {{"10.255.0.10/32", "10.255.0.10"}},
		"percentage in words":     {{"\"10.9.1.2:80\"]", "\"10.9.1.2:80\"], min_healthy: half"}},
		"exec without command":    {{"      type: tcp\n      address: 10.9.1.3:9100\n", "      type: exec\n"}},
		"list for a mapping":      {{"bgp: {asn: 65010}", "bgp: []"}},
	}
	for name, edits := range tests {
		t.Run(name, func(t *testing.T) {
			if schema.Validate(anyValue(t, []byte(apply(t, edits)))) == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}
