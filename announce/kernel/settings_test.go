package kernel

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSettingsValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"good", func(*Settings) {}, ""},
		{"protocol of the kernel", func(s *Settings) { s.Protocol = 2 }, "protocol number 2 belongs to the kernel or to a routing daemon"},
		{"protocol of BIRD", func(s *Settings) { s.Protocol = 12 }, "protocol number 12 belongs to the kernel or to a routing daemon"},
		{"protocol of FRR", func(s *Settings) { s.Protocol = 188 }, "protocol number 188 belongs to the kernel or to a routing daemon"},
		{"protocol too big", func(s *Settings) { s.Protocol = 256 }, "protocol number 256 belongs to the kernel or to a routing daemon"},
		{"table local", func(s *Settings) { s.Table = 255 }, "table 255 cannot hold announcement routes"},
		{"table 0", func(s *Settings) { s.Table = 0 }, "table 0 cannot hold announcement routes"},
		{"next hop", func(s *Settings) { s.NextHop = "eth0" }, `unknown next hop form "eth0"`},
		{"no tiers", func(s *Settings) { s.NextHop, s.Tiers = NextHopTier, nil }, "next hop form tier needs at least one tier"},
		{"tier", func(s *Settings) { s.Tiers = []int{10, 255} }, "tier 255 is not between 1 and 254"},
		{"devices", func(s *Settings) { s.NextHop, s.Devices = NextHopTier, []string{"t0"} }, "1 devices for 3 tiers"},
		{"label", func(s *Settings) { s.Label = "rhid" }, `label "rhid" is not lo: and 1 to 12 characters`},
		{"long label", func(s *Settings) { s.Label = "lo:1234567890123" }, `label "lo:1234567890123" is not lo: and 1 to 12 characters`},
		{"two", func(s *Settings) { s.Table, s.Label = 0, "" }, "table 0 cannot hold announcement routes\nlabel \"\" is not lo: and 1 to 12 characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := testSettings()
			tt.change(&s)
			got := ""
			if err := s.Validate(); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Validate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidSettingsPutNothingIn(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Routes(), want4(100, 0))
	s := testSettings()
	s.Protocol = 2
	w.Configure(s)
	want := "add announcement route: kernel settings: protocol number 2 belongs to the kernel or to a routing daemon"
	if err := w.Routes().Put(t.Context(), want4(200, 0)); err == nil || err.Error() != want {
		t.Errorf("Put says %v\nwant %s", err, want)
	}
	remove(t, w.Routes(), vip4) // but out it goes
	wantDump(t, f)
}

func TestCheckSysctls(t *testing.T) {
	tests := []struct {
		ignore, announce string
		want             []string
	}{
		{"1\n", "2\n", nil},
		{"2\n", "2\n", nil},
		{"0\n", "2\n", []string{"net.ipv4.conf.all.arp_ignore is 0: the host answers ARP for VIPs on lo on all its links; set it to 1"}},
		{"8\n", "1\n", []string{
			"net.ipv4.conf.all.arp_ignore is 8: the host answers ARP for VIPs on lo on all its links; set it to 1",
			"net.ipv4.conf.all.arp_announce is 1: the host may name a VIP as sender of its ARP requests; set it to 2",
		}},
	}
	for _, tt := range tests {
		root := t.TempDir()
		dir := filepath.Join(root, "net/ipv4/conf/all")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]string{"arp_ignore": tt.ignore, "arp_announce": tt.announce} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(v), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(tt.want, checkSysctls(root)); diff != "" {
			t.Errorf("arp_ignore %q, arp_announce %q (-want +got):\n%s", tt.ignore, tt.announce, diff)
		}
	}
	if got := checkSysctls(t.TempDir()); len(got) != 2 {
		t.Errorf("without /proc: %q", got)
	}
}
