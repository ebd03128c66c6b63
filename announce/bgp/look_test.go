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
	look := func(prefixes uint64) (least, most time.Duration) { // of the rest, as seen after and before the look
		began := time.Now()
		n.looked(&api.Peer{
			State:    &api.PeerState{SessionState: api.PeerState_ESTABLISHED},
			AfiSafis: []*api.AfiSafi{{State: &api.AfiSafiState{Family: family4(), Received: prefixes}}},
		}, now)
		return time.Until(n.restUntil), n.restUntil.Sub(began)
	}
	n.lookAt = now
	for prefixes, want := range map[uint64]time.Duration{2: 2 * restPerPrefix, 200_000: 5 * time.Second, 1_000_000: 10 * time.Second} {
		if least, most := look(prefixes); least > want || most < want {
			t.Errorf("a rest of %v to %v after %d prefixes, want %v", least, most, prefixes, want)
		}
	}
	look(200_000)
	n.lookAt = now
	if end := n.restUntil; !n.rests(end.Add(-time.Second)) || n.rests(end.Add(time.Second)) || n.lookDue().Before(end) {
		t.Error("it must rest until then")
	}
	if n.counted = false; n.rests(now) || n.lookDue().After(now) {
		t.Error("it must be looked at now: too much may have come")
	}
	n.sessionDown(now, Down{})
	if n.rests(now) {
		t.Error("the next session is looked at as any other")
	}
}
