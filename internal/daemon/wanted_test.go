package daemon

import (
	"net/netip"
	"testing"

	"rhid/announce"
	"rhid/internal/config"
	"rhid/services"
)

// TestWantedByPhase: from the withdraw on nothing is announced any more, in the
// last phase neither, in which the announcer may still get a goal.
func TestWantedByPhase(t *testing.T) {
	m := &model{services: []*service{{
		name: "atm", conf: &config.Service{VIPs: []netip.Prefix{netip.MustParsePrefix("10.255.0.10/32")}},
		made: map[attrKey]told{},
	}}}
	for _, c := range []struct {
		phase   phase
		verdict services.Verdict
		want    announce.Action
	}{
		{phaseRunning, services.Announce, announce.Announce},
		{phaseDraining, services.Announce, announce.Announce},
		{phaseWithdrawing, services.Announce, announce.Withdraw},
		{phaseDone, services.Announce, announce.Withdraw},
		{phaseDone, services.Withdraw, announce.Withdraw},
		{phaseRunning, services.Undecided, announce.Leave},
		{phaseDone, services.Undecided, announce.Leave},
	} {
		plan := map[string]services.Decision{"atm": {Service: "atm", Verdict: c.verdict}}
		if got := m.wanted(plan, c.phase)[0].Action; got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.phase, c.verdict, got, c.want)
		}
	}
}
