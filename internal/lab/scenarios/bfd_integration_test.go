//go:build integration

package scenarios

import (
	"strings"
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
	with := func(timers string) string {
		return strings.ReplaceAll(s.shipped(), "families: [ipv", "bfd: {"+timers+"}, families: [ipv")
	}
	s.rhid = s.run(with("interval: 100ms, multiplier: 3"))
	s.settled()
	time.Sleep(4 * time.Second) // an alarm takes three
	for _, n := range s.status().Neighbours {
		if !n.Established || n.BFD == nil || n.BFD.State == "up" {
			t.Errorf("routers without BFD: %+v, BFD %+v", n, n.BFD)
		}
	}
	alarms := 0
	for _, a := range s.status().Alarms {
		if a.Code == "bfd-down" {
			alarms++
		}
	}
	if alarms != 4 {
		t.Errorf("routers without BFD: %d alarms, want one for each session: %+v", alarms, s.status().Alarms)
	}

	s.routersSpeakBFD()
	s.until("the routers speak BFD", func(n control.Neighbour) bool { return n.BFD.State == "up" && n.BFD.DetectionMS == 300 })
	s.configure(with("interval: 200ms, multiplier: 5"))
	s.lb.Rhid("reload")
	s.until("longer timers", func(n control.Neighbour) bool {
		return n.BFD.State == "up" && n.BFD.IntervalMS == 200 && n.BFD.DetectionMS == 600
	})

	for _, n := range s.status().Neighbours {
		if n.Flaps != 0 || n.BFD.Flaps != 0 {
			t.Errorf("%s: session lost %d times, BFD %d times: %s", n.Name, n.Flaps, n.BFD.Flaps, n.Why)
		}
	}

	// FRR and BIRD take AdminDown from a host for a failure of BGP, too. That is
	// why rhid says it after BGP when it stops; taken out by reload, it costs a
	// reconnect.
	s.configure(s.shipped())
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
