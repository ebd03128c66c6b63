package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// right is a valid configuration; the wrong ones are made from it.
const right = `bgp: {asn: 65010}
sites:
  - name: beijing
    routers:
      - {address: 10.1.0.1, asn: 65000}
nodes:
  - {name: lb-1, site: beijing, address: 10.1.0.11}
  - {name: lb-2, site: beijing, address: 10.1.0.12}
checks:
  web: {type: http, interval: 1s}
services:
  - name: atm
    vips: [10.255.0.10/32]
    order: [lb-1, lb-2]
    servers: {addresses: ["10.9.1.1:80", "10.9.1.2:80"]}
    check: web
  - name: pos
    vips: [10.255.0.11/32]
    order: [lb-2]
    check:
      type: tcp
      address: 10.9.1.3:9100
`

// edit replaces the first occurrence of old by new; an empty old appends new
// at the end.
type edit struct{ old, new string }

func apply(t *testing.T, edits []edit) string {
	t.Helper()
	text := right
	for _, e := range edits {
		if !strings.Contains(text, e.old) {
			t.Fatalf("%q is not in the configuration", e.old)
		}
		if e.old == "" {
			text += e.new
			continue
		}
		text = strings.Replace(text, e.old, e.new, 1)
	}
	return text
}

func TestRight(t *testing.T) {
	if _, err := Parse("rhid.yaml", []byte(right), nil); err != nil {
		t.Fatal(err)
	}
}

// noFiles stands for a host that has a few files of passwords, one of them empty.
func noFiles(path string) ([]byte, error) {
	switch path {
	case "/etc/rhid/empty":
		return []byte("\nsecret\n"), nil
	case "/etc/rhid/long":
		return []byte(strings.Repeat("x", 81)), nil
	case "/etc/rhid/long-bfd":
		return []byte("123456789012345678901\n"), nil
	case "/etc/rhid/token":
		return []byte("0123456789abcdef\n"), nil
	case "/etc/rhid/good":
		return []byte("secret\n"), nil
	}
	return nil, errors.New("no such file or directory")
}

func TestWrong(t *testing.T) {
	for _, tt := range wrong {
		t.Run(tt.name, func(t *testing.T) {
			text := apply(t, tt.edits)
			_, err := Parse("rhid.yaml", []byte(text), noFiles)
			var errs Errors
			if !errors.As(err, &errs) {
				t.Fatalf("error is %v, want Errors; the configuration:\n%s", err, text)
			}
			if diff := cmp.Diff(tt.want, strings.Split(errs.Error(), "\n")); diff != "" {
				t.Errorf("errors differ (-want +got):\n%s", diff)
			}
		})
	}
}
