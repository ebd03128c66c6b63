package config

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/checks"
)

func TestRoutersOf(t *testing.T) {
	cfg := mustParse(t, `
bgp: {asn: 65010, hold: 30s, connect_retry: 2s}
sites:
  - name: s
    routers:
      - {address: 10.1.0.1, asn: 65000}
      - {address: 10.1.0.2, asn: 65000, name: tor, hold: 6s, connect_retry: 1s, families: [ipv4]}
nodes:
  - {name: a, site: s, address: 10.1.0.11, routers: [{address: 10.1.0.3, asn: 65000, keepalive: 5s}]}
  - {name: b, address: 10.1.0.12}
`)
	base := Router{
		ASN: 65000, Port: 179, Hold: 30 * time.Second, Keepalive: 10 * time.Second,
		ConnectRetry: 2 * time.Second, Families: []string{"ipv4", "ipv6"}, WarnPrefixes: 1000, MaxPrefixes: 50_000,
	}
	want := []Router{base, base, base}
	want[0].Address, want[0].Name = netip.MustParseAddr("10.1.0.1"), "10.1.0.1"
	want[1].Address, want[1].Name, want[1].Families = netip.MustParseAddr("10.1.0.2"), "tor", []string{"ipv4"}
	want[1].Hold, want[1].Keepalive, want[1].ConnectRetry = 6*time.Second, 2*time.Second, time.Second
	want[2].Address, want[2].Name, want[2].Keepalive = netip.MustParseAddr("10.1.0.3"), "10.1.0.3", 5*time.Second
	if diff := cmp.Diff(want, cfg.RoutersOf("a"), comparer()); diff != "" {
		t.Errorf("routers of a (-want +got):\n%s", diff)
	}
	if got := append(cfg.RoutersOf("b"), cfg.RoutersOf("nobody")...); len(got) != 0 {
		t.Errorf("nodes without routers have %v", got)
	}
}

func TestResolvedNodes(t *testing.T) {
	cfg := mustParse(t, `
bgp: {asn: 65010}
nodes:
  - {name: a, address: 10.1.0.11}
  - {name: b, address: "fd00::12", asn: 65011, id: 9, router_id: 10.0.0.2}
`)
	want := []Node{
		{Name: "a", Address: netip.MustParseAddr("10.1.0.11"), ID: 1, ASN: 65010, RouterID: netip.MustParseAddr("10.1.0.11")},
		{Name: "b", Address: netip.MustParseAddr("fd00::12"), ID: 9, ASN: 65011, RouterID: netip.MustParseAddr("10.0.0.2")},
	}
	if diff := cmp.Diff(want, cfg.Nodes, comparer()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if n, ok := cfg.Node("b"); !ok || n.ID != 9 {
		t.Errorf("Node(b) = %v, %v", n, ok)
	}
}

func TestResolvedServices(t *testing.T) {
	cfg := mustParse(t, awkward)
	a, _ := cfg.Service("a")
	b, _ := cfg.Service("b")
	if diff := cmp.Diff([]string{"1"}, a.Order); diff != "" {
		t.Errorf("order with one node (-want +got):\n%s", diff)
	}
	if a.AnnouncersN() != 0 || b.AnnouncersN() != 1 {
		t.Errorf("announcers are %d and %d, want 0 (all) and 1", a.AnnouncersN(), b.AnnouncersN())
	}
	if *b.Prepend != 0 {
		t.Errorf("prepend is %d where all routers are iBGP", *b.Prepend)
	}
	if l := cfg.Leaves(a); len(l) != 1 || l[0].Name != "on" || l[0].Check.Type != "exec" || l[0].OverServers {
		t.Errorf("checks of a are %+v", l)
	}
	if got := cfg.VIPOf(a); got.Bind != "never" || got.Label != "lo:rhid" || got.Linger != 0 {
		t.Errorf("VIP settings of a are %+v", got)
	}
	own := mustParse(t, strings.Replace(right, "check: web\n", "check: web\n    vip: {mode: anyip}\n", 1))
	want := VIP{Bind: "announcing", Mode: "anyip", Linger: 3 * time.Second, Label: "lo:rhid"}
	if diff := cmp.Diff(want, own.VIPOf(&own.Services[0])); diff != "" {
		t.Errorf("VIP settings with own mode (-want +got):\n%s", diff)
	}
	if l := own.Leaves(&own.Services[1]); len(l) != 1 || l[0].Name != "pos" || l[0].Check.Timeout != 800*time.Millisecond {
		t.Errorf("check in place is %+v", l)
	}
}

func TestParsedCommunities(t *testing.T) {
	s := Service{Communities: []string{"no-export", "65000:100", "65000:2:1", "65000:1:4294967295", "0:7"}}
	std, large, err := s.ParsedCommunities()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint32{7, 65000<<16 | 100, 0xFFFFFF01}, std); diff != "" {
		t.Errorf("standard communities (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][3]uint32{{65000, 1, 4294967295}, {65000, 2, 1}}, large); diff != "" {
		t.Errorf("large communities (-want +got):\n%s", diff)
	}
	s.Communities = []string{"x"}
	if _, _, err := s.ParsedCommunities(); err == nil {
		t.Error("a word that is no community is accepted")
	}
}

func TestQuorum(t *testing.T) {
	tests := []struct {
		text    string
		servers int
		want    int
	}{{"2", 3, 2}, {"50%", 3, 2}, {"50%", 4, 2}, {"1%", 200, 2}, {"1%", 3, 1}, {"100%", 7, 7}}
	for _, tt := range tests {
		var q Quorum
		if err := q.UnmarshalText([]byte(tt.text)); err != nil {
			t.Fatal(err)
		}
		if got := q.Of(tt.servers); got != tt.want || q.String() != tt.text {
			t.Errorf("%s of %d is %d (as %s), want %d", tt.text, tt.servers, got, q, tt.want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	tests := []struct {
		kind checks.TargetKind
		text string
		want checks.Target
		err  string
	}{
		{checks.TargetPort, "10.0.0.1:80", checks.Target{Host: "10.0.0.1", Port: 80}, ""},
		{checks.TargetPort, "[fd00::1]:80", checks.Target{Host: "fd00::1", Port: 80}, ""},
		{checks.TargetPort, "[fe80::1%eth0]:80", checks.Target{Host: "fe80::1%eth0", Port: 80}, ""},
		{checks.TargetPort, "atm.example.:80", checks.Target{Host: "atm.example.", Port: 80}, ""},
		{checks.TargetHost, "fd00::1", checks.Target{Host: "fd00::1"}, ""},
		{checks.TargetNone, "branch-7", checks.Target{Host: "branch-7"}, ""},
		{checks.TargetNone, "branch-7:22", checks.Target{Host: "branch-7", Port: 22}, ""},
		{checks.TargetPort, "10.0.0.1:0", checks.Target{}, `"10.0.0.1:0" has no port between 1 and 65535`},
		{checks.TargetPort, "10.0.0.1:http", checks.Target{}, `"10.0.0.1:http" has no port between 1 and 65535`},
		{checks.TargetPort, ":80", checks.Target{}, `"" is neither an IP address nor a host name`},
		{checks.TargetPort, "10.0.0.1:", checks.Target{}, `"10.0.0.1:" is not an address and port like 10.0.0.1:80 or [fd00::1]:80`},
		{checks.TargetPort, "", checks.Target{}, "must not be empty"},
		{checks.TargetHost, "a b", checks.Target{}, `"a b" is neither an IP address nor a host name`},
	}
	for _, tt := range tests {
		got, err := ParseTarget(tt.kind, tt.text)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != tt.err {
			t.Errorf("ParseTarget(%q): error %q, want %q", tt.text, text, tt.err)
		}
		if diff := cmp.Diff(tt.want, got, comparer()); diff != "" {
			t.Errorf("ParseTarget(%q) (-want +got):\n%s", tt.text, diff)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file, password := filepath.Join(dir, "rhid.yaml"), filepath.Join(dir, "pw")
	text := strings.Replace(right, "asn: 65000}", "asn: 65000, password_file: "+password+"}", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file)
	if want := "password file " + password + " cannot be read: no such file or directory"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("without the password file the error is %v", err)
	}
	if err := os.WriteFile(password, []byte("secret\r\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err != nil {
		t.Error(err)
	}
	if got, err := (&Router{PasswordFile: password}).Password(os.ReadFile); err != nil || got != "secret" {
		t.Errorf("password is %q, %v", got, err)
	}
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there gives %v", err)
	}
}

// TestPasswordCredential: systemd puts credentials into a directory that only
// the unit's processes are told of.
func TestPasswordCredential(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bgp.tor-1"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Router{PasswordCred: "bgp.tor-1"}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	want := "there is no credential bgp.tor-1: systemd has set no CREDENTIALS_DIRECTORY; add LoadCredential=bgp.tor-1:PATH to the unit"
	if _, err := r.Password(os.ReadFile); err == nil || err.Error() != want {
		t.Errorf("without a directory: %v, want %s", err, want)
	}
	text := strings.Replace(right, "asn: 65000}", "asn: 65000, password_credential: bgp.tor-1}", 1)
	if _, err := Parse("rhid.yaml", []byte(text), os.ReadFile); err != nil {
		t.Errorf("checked in a shell, where there are no credentials: %v", err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if got, err := r.Password(os.ReadFile); err != nil || got != "secret" {
		t.Errorf("password is %q, %v", got, err)
	}
	if _, err := Parse("rhid.yaml", []byte(text), os.ReadFile); err != nil {
		t.Error(err)
	}
	text = strings.Replace(text, "bgp.tor-1", "bgp.tor-2", 1)
	if _, err := Parse("rhid.yaml", []byte(text), os.ReadFile); err == nil || !strings.Contains(err.Error(), "password_credential: password file "+filepath.Join(dir, "bgp.tor-2")+" cannot be read") {
		t.Errorf("a credential that is not there gives %v", err)
	}
}

// TestOptionKeys makes sure that no check type has a key that all checks have.
func TestOptionKeys(t *testing.T) {
	common := map[string]bool{}
	for _, f := range modelFields() {
		if name, ok := strings.CutPrefix(f.name, "Check."); ok {
			common[name] = true
		}
	}
	for _, f := range modelFields() {
		if typ, name, _ := strings.Cut(f.name, "."); strings.HasSuffix(typ, "Options") && common[name] {
			t.Errorf("%s hides the key of all checks", f.name)
		}
	}
}
