package config

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestReportToken(t *testing.T) {
	files := map[string]string{
		"good": "0123456789abcdef\r\nmore\n", "short": "0123456789abcde\n", "blank": "0123456789 abcdef\n",
		"long": strings.Repeat("x", maxToken+1),
	}
	read := func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("no such file")}
	}
	for path, want := range map[string]string{
		"good": "", "short": "has 15 bytes; it must have 16", "blank": "has blanks", "long": "it may have 4096", "none": "cannot be read: no such file",
	} {
		token, err := (&Report{TokenFile: path}).Token(read)
		switch {
		case want == "":
			if err != nil || token != "0123456789abcdef" {
				t.Errorf("%s: %q, %v", path, token, err)
			}
		case err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456"):
			t.Errorf("%s: %v, want %q and nothing of the token", path, err, want)
		}
	}
}
