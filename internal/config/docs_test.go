package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// documented returns the YAML blocks of the manuals that are whole
// configurations: those with services at the top level.
func documented(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line, block := range yamlBlocks(string(text)) {
			if strings.Contains("\n"+block, "\nservices:") {
				out[fmt.Sprintf("%s line %d", filepath.Base(file), line)] = []byte(block)
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("the manuals have no configuration")
	}
	return out
}

// yamlBlocks returns the fenced yaml blocks of a Markdown text by the line they
// begin in.
func yamlBlocks(text string) map[int]string {
	out := map[int]string{}
	start := 0
	for i, line := range strings.Split(text, "\n") {
		fence := strings.TrimSpace(line)
		switch {
		case start == 0 && (fence == "```yaml" || fence == "```yml"):
			start = i + 2
			out[start] = ""
		case start > 0 && fence == "```":
			start = 0
		case start > 0:
			out[start] += line + "\n"
		}
	}
	return out
}

func TestExamplesAreValid(t *testing.T) {
	for name, text := range examples(t) {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(name, text, nil); err != nil {
				t.Error(err)
			}
		})
	}
}
