package config

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// comparer compares addresses by value, and takes an empty list for none.
func comparer() cmp.Option {
	return cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()}
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Parse("rhid.yaml", []byte(text), nil)
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return cfg
}

// awkward has values that need care when they are written again.
const awkward = `
bgp: {asn: 65010, hold: 90s}
nodes:
  - {name: "1", address: 10.1.0.11, routers: [{address: "fd00::1", asn: 65010}]}
vip: {linger: 0s, bind: never}
checks:
  "on": {type: exec, command: ["true", "a: b", "", "-x", "#", "é\t\"\\\n", "~", "0x10", "1e5", "null"], env: {"no": "yes"}}
  web: {type: http, headers: {"X-Y": "a: \"1\""}, expect_status: [200, 301-302]}
services:
  - {name: a, vips: [10.255.0.10/32], check: "on", via: [bgp, kernel], announcers: all, prepend: 0, priority: -5}
  - name: b
    vips: ["fd00:255::/128"]
    servers: {addresses: ["[fd00::9]:80", "web.example:80"], min_healthy: "50%"}
    check: web
    vip: {linger: 0s}
    failback: {mode: never, delay: 0s}
    metric: {base: 0, step: 0}
`

func TestShowLoadsAgain(t *testing.T) {
	reference, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"right": right, "awkward": awkward, "reference": string(reference)} {
		t.Run(name, func(t *testing.T) {
			cfg := mustParse(t, text)
			shown, err := Show(cfg)
			if err != nil {
				t.Fatal(err)
			}
			mustParse(t, string(shown))
			again := mustParse(t, string(render(cfg, renderAll))) // with its secrets
			if diff := cmp.Diff(cfg, again, comparer()); diff != "" {
				t.Errorf("what is shown is another configuration (-first +again):\n%s\n%s", diff, shown)
			}
			if cfg.Digest() != again.Digest() {
				t.Error("equal configurations have different digests")
			}
		})
	}
}

func TestShow(t *testing.T) {
	shown, err := Show(mustParse(t, right))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  hold: 9s\n", "    router_id: 10.1.0.11\n", "    timeout: 800ms\n", "    fast_interval: 1s\n",
		"        families: [ipv4, ipv6]\n", "      delay: 1m\n", "    prepend: 1\n", "    order: [lb-1, lb-2]\n",
	} {
		if !strings.Contains(string(shown), want) {
			t.Errorf("%q is not shown", want)
		}
	}
}

func TestShowHidesSecrets(t *testing.T) {
	cfg := mustParse(t, strings.Replace(right, "{type: http, interval: 1s}", "{type: ldap, bind_dn: cn=rhid, password: s3cret}", 1))
	shown, err := Show(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown), "s3cret") || !strings.Contains(string(shown), "    password: \"********\"\n") {
		t.Errorf("the password is shown, or nothing in its place:\n%s", shown)
	}
}

func TestDigestTellsChanges(t *testing.T) {
	first := mustParse(t, right).Digest()
	if len(first) != 64 {
		t.Errorf("digest %q is not SHA-256 in hexadecimal", first)
	}
	if same := mustParse(t, "# a comment\n"+right).Digest(); same != first {
		t.Error("a comment changes the digest")
	}
	if other := mustParse(t, strings.Replace(right, "interval: 1s", "interval: 2s", 1)).Digest(); other == first {
		t.Error("another interval does not change the digest")
	}
}

func TestFingerprint(t *testing.T) {
	a, b := mustParse(t, right), mustParse(t, strings.Replace(right, "type: http,", "type: http, path: /x,", 1))
	if a.Checks["web"].Fingerprint() == b.Checks["web"].Fingerprint() {
		t.Error("checks with different options have the same fingerprint")
	}
	if a.Services[1].Check.Inline.Fingerprint() != b.Services[1].Check.Inline.Fingerprint() {
		t.Error("equal checks have different fingerprints")
	}
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		time.Hour + time.Second: "1h0m1s", 10 * time.Minute: "10m", 1500 * time.Millisecond: "1.5s",
	} {
		if got := durationText(d); got != want {
			t.Errorf("durationText(%v) = %q, want %q", d, got, want)
		}
	}
}
