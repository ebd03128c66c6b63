//go:build integration

package scenarios

import (
	"testing"
	"time"

	"rhid/internal/control"
	"rhid/internal/lab"
)

// TestBFDComesAndGoes has rhid want BFD of routers that do not speak it yet, but
// speak it later, and then change its timers: no BGP session may notice. BFD that
// never was up says nothing. Then rhid wants it no more.
func TestBFDComesAndGoes(t *testing.T) {
	s := &bfdSite{siteLab: startSite(t, lab.Options{}), watches: map[string]*lab.FIBWatch{}}
	s.rhid = s.run(s.speaking(bfdCalm))
	s.overBGP()
	s.WaitFor("an alarm of each session's BFD", siteUp, func() bool {
		alarms := 0
		for _, a := range s.status().Alarms {
			if a.Code == "bfd-down" {
				alarms++
			}
		}
		return alarms == 4
	})
	for _, n := range s.status().Neighbours {
		if !n.Established || n.Flaps != 0 || n.BFD == nil || n.BFD.State == "up" {
			t.Errorf("routers without BFD: %+v, BFD %+v", n, n.BFD)
		}
	}

	s.routersSpeakBFD()
	s.bfdUp("the routers speak BFD", bfdCalm)
	const longer = 800 * time.Millisecond
	s.configure(s.speaking(longer))
	s.lb.Rhid("reload")
	s.bfdUp("longer timers", longer)
	for _, n := range s.status().Neighbours {
		if n.Flaps != 0 || n.BFD.Flaps != 0 {
			t.Errorf("%s: session lost %d times, BFD %d times: %s", n.Name, n.Flaps, n.BFD.Flaps, n.Why)
		}
	}

	// FRR and BIRD take AdminDown from a host for a failure of BGP, too. That is
	// why rhid says it after BGP when it stops; taken out by reload, it costs a
	// reconnect.
	s.configure(s.unleased())
	s.lb.Rhid("reload")
	began := time.Now()
	s.WaitFor("every session lost once, or not at all, and established", siteUp, func() bool {
		settled := time.Since(began) > 3*time.Second // longer than any detection time
		for _, n := range s.status().Neighbours {
			settled = settled && n.Established && n.BFD == nil
		}
		return settled
	})
	for _, n := range s.status().Neighbours {
		t.Logf("BFD taken out by reload: %-10s session established since %v later, lost %d times: %s", n.Name, n.Since.Sub(began).Round(time.Millisecond), n.Flaps, n.Why)
		if n.Flaps > 1 {
			t.Errorf("%s: lost %d times", n.Name, n.Flaps)
		}
	}
}

// until waits until all neighbours are so.
func (s *bfdSite) until(what string, is func(control.Neighbour) bool) {
	s.t.Helper()
	s.WaitFor(what, siteUp, func() bool {
		for _, n := range s.status().Neighbours {
			if n.BFD == nil || !is(n) {
				return false
			}
		}
		return true
	})
}
