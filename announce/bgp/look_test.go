package bgp

import (
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"
)

// Who sent much is looked at rarely, unless more may have come than is allowed.
func TestRest(t *testing.T) {
	now := time.Now()
	n := newNeighbour(Neighbour{IPv4: true, MaxPrefixes: 500_000}, ourASN)
	n.sessionUp(now.Add(-time.Minute))
	look := func(prefixes uint64) time.Duration {
		n.looked(&api.Peer{
			State:    &api.PeerState{SessionState: api.PeerState_ESTABLISHED},
			AfiSafis: []*api.AfiSafi{{State: &api.AfiSafiState{Family: family4(), Received: prefixes}}},
		}, now)
		return n.restUntil.Sub(now).Round(100 * time.Millisecond)
	}
	n.lookAt = now
	for prefixes, want := range map[uint64]time.Duration{2: 0, 200_000: 5 * time.Second, 1_000_000: 10 * time.Second} {
		if got := look(prefixes); got != want {
			t.Errorf("a rest of %v after %d prefixes, want %v", got, prefixes, want)
		}
	}
	look(200_000)
	n.lookAt = now
	if !n.rests(now.Add(4*time.Second)) || n.rests(now.Add(6*time.Second)) || n.lookDue().Before(now.Add(4*time.Second)) {
		t.Error("it must rest for five seconds")
	}
	if n.counted = false; n.rests(now) || n.lookDue().After(now) {
		t.Error("it must be looked at now: too much may have come")
	}
	n.sessionDown(now, Down{})
	if n.rests(now) {
		t.Error("the next session is looked at as any other")
	}
}
