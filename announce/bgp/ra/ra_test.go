package ra

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/ipv6"
)

// Who becomes the neighbour, and who is answered.
func TestHear(t *testing.T) {
	var found []string
	w := &watcher{iface: "eth1", found: func(a netip.Addr) { found = append(found, a.String()) }}
	begin := time.Now()
	for i, tt := range []struct {
		after  time.Duration
		kind   ipv6.ICMPType
		from   string
		answer bool
		found  string // of all so far, the last
	}{
		{0, ipv6.ICMPTypeRouterAdvertisement, "2001:db8::1", false, ""},
		{0, ipv6.ICMPTypeRouterSolicitation, "fe80::1%eth1", true, ""},
		{0, ipv6.ICMPTypeNeighborSolicitation, "fe80::1%eth1", false, ""},
		{0, ipv6.ICMPTypeRouterAdvertisement, "fe80::1%eth1", true, "fe80::1%eth1"},
		{10 * time.Second, ipv6.ICMPTypeRouterAdvertisement, "fe80::1%eth1", false, "fe80::1%eth1"},
		{20 * time.Second, ipv6.ICMPTypeRouterAdvertisement, "fe80::2%eth1", false, "fe80::1%eth1"},
		{10*time.Second + forgetAfter + 1, ipv6.ICMPTypeRouterAdvertisement, "fe80::2%eth1", true, "fe80::2%eth1"},
	} {
		now := begin.Add(tt.after)
		if got := w.hear(tt.kind, netip.MustParseAddr(tt.from), now); got != tt.answer {
			t.Errorf("step %d: answered %v, want %v", i, got, tt.answer)
		}
		last := ""
		if len(found) > 0 {
			last = found[len(found)-1]
		}
		if last != tt.found {
			t.Errorf("step %d: found %q, want %q", i, last, tt.found)
		}
	}
	if w.pause(begin) != sendEvery || w.pause(begin.Add(2*forgetAfter+time.Minute)) != sendFirst {
		t.Error("the wrong pause between advertisements")
	}
}
