//go:build integration

package scenarios

import (
	"slices"
	"strings"
	"time"

	"rhid/internal/lab"
)

// refused reloads what cannot be taken over, wholly or in part: nothing changes.
func (s *stopLab) refused() {
	s.t.Helper()
	typo := stopDefault()
	typo.spare = false
	typo.appendix = "  - {name: more, vips: [10.255.0.70/32], servres: {}, check: tcp-connect}\n"
	asn := stopDefault()
	asn.spare, asn.fresh, asn.asn = false, true, 65011
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":          {"bgp: {asn: [\n", siteConfig + ":"},
		"a wrong key":      {typo.String(), siteConfig + ":"},
		"another ASN":      {asn.String(), "restart the daemon"},
		"no file any more": {"", ""},
		"a missing node":   {strings.ReplaceAll(stopDefault().String(), "name: lb1", "name: lb9"), `no node "lb1"`},
		"a missing bgp.pw": {strings.Replace(stopDefault().String(), "/etc/rhid/bgp.pw", "/etc/rhid/none.pw", 1), "none.pw"},
	} {
		s.forget()
		what, detail := s.hup(c.text)
		if what != "reload-refused" || !strings.Contains(detail, c.want) {
			s.t.Errorf("reload of %s: %s: %s, want a refusal that says %q", name, what, detail, c.want)
		}
		time.Sleep(300 * time.Millisecond)
		s.still("reload of "+name, nil)
		if st := s.status(); st.Config.LastError == "" || len(st.Services) != 4 || st.Node != "lb1" {
			s.t.Errorf("reload of %s: status has error %q and %d services", name, st.Config.LastError, len(st.Services))
		}
	}
}

// changed reloads a configuration without a service and with a new one, and
// with all that a withdrawn service may have changed: it stays withdrawn.
func (s *stopLab) changed() {
	s.t.Helper()
	for name, ebb := range map[string]string{
		"another metric":   `servers: {addresses: ["10.9.1.1:9400"]}, check: tcp-connect, metric: {base: 300}`,
		"another interval": `servers: {addresses: ["10.9.1.1:9400"]}, check: {type: tcp, interval: 700ms, timeout: 400ms, fall: 1000, rise: 2}`,
		"a check's name":   `servers: {addresses: ["10.9.1.1:9400"]}, check: tcp-other`,
		"one more server":  `servers: {addresses: ["10.9.1.1:9400", "10.9.1.2:9400"]}, check: tcp-other`,
		"another health":   `servers: {addresses: ["10.9.1.1:9400", "10.9.1.2:9400"], min_healthy: "50%"}, check: tcp-connect`,
		"the fail-back":    `servers: {addresses: ["10.9.1.1:9400"]}, check: tcp-connect, failback: {mode: never}`,
	} {
		c := stopDefault()
		c.ebb = ebb
		s.forget()
		if what, detail := s.hup(c.String()); what != "reloaded" {
			s.t.Errorf("reload with %s: %s: %s", name, what, detail)
		}
		time.Sleep(1500 * time.Millisecond) // three intervals: whatever the checks know, they know now
		s.still("reload with "+name+" of a withdrawn service", nil)
	}
	c := stopDefault()
	c.spare, c.fresh = false, true
	s.forget()
	began := time.Now()
	if what, detail := s.hup(c.String()); what != "reloaded" {
		s.t.Errorf("reload of another set of services: %s: %s", what, detail)
	}
	gone := s.frr.Wait("spare's withdraw", siteUp, func(e lab.Event) bool { return e.Withdraws(stopSpare) })
	there := s.frr.Wait("fresh's announcement", siteUp, func(e lab.Event) bool { return e.Announces(stopFresh) })
	local := s.host.gone(s.siteLab, stopSpare).At
	s.t.Logf("reload of another set: spare withdrawn after %s, its address gone %s after that, fresh announced after %s",
		ms(gone.At.Sub(began)), ms(local.Sub(gone.At)), ms(there.At.Sub(began)))
	if local.Sub(gone.At) < stopLinger {
		s.t.Errorf("spare's address went %v after its withdraw, linger is %v", local.Sub(gone.At), stopLinger)
	}
	time.Sleep(time.Second)
	s.still("reload of another set of services", []string{"-" + stopSpare, "+" + stopFresh}, stopSpare, stopFresh)
	if st := s.status(); st.Config.LastError != "" {
		s.t.Errorf("a good reload leaves the last error: %s", st.Config.LastError)
	}
}

// metricChanged reloads another MED of one service: one UPDATE for each VIP,
// and no withdraw.
func (s *stopLab) metricChanged() {
	s.t.Helper()
	c := stopDefault()
	c.spare, c.fresh, c.atmBase = false, true, 150
	s.forget()
	if what, detail := s.hup(c.String()); what != "reloaded" {
		s.t.Errorf("reload of another metric: %s: %s", what, detail)
	}
	for _, v := range []string{siteATM, siteATM6} {
		s.WaitFor("MED 150 of "+v, siteUp, func() bool { return s.torFRR.BGP(v).MED == 150 && s.torBird.BGP(v).MED == 150 })
	}
	time.Sleep(300 * time.Millisecond)
	s.still("reload of another metric", []string{"+" + siteATM, "+" + siteATM6})
}

// routerRemoved takes one router's sessions out and back in: the other's are
// not touched.
func (s *stopLab) routerRemoved() {
	s.t.Helper()
	c := stopDefault()
	c.spare, c.fresh, c.torBird = false, true, false
	s.forget()
	if what, detail := s.hup(c.String()); what != "reloaded" {
		s.t.Errorf("reload without a router: %s: %s", what, detail)
	}
	s.WaitFor("tor-bird without atm", siteUp, func() bool { return len(s.torBird.BGPPaths(siteATM)) == 0 })
	c.torBird = true
	if what, detail := s.hup(c.String()); what != "reloaded" {
		s.t.Errorf("reload with the router again: %s: %s", what, detail)
	}
	took := s.WaitFor("tor-bird with atm", siteUp, func() bool { return s.torBird.BGP(siteATM).MED == 100 })
	s.t.Logf("a router that is configured again has the VIP after %v", took.Round(time.Millisecond))
	if got, want := stopUpdates(s.frr), []string{"+" + siteATM, "+" + siteATM6}; !slices.Equal(got, want) { // the MED is 100 again
		s.t.Errorf("reloads of the other router: tor-frr received %v, want %v", got, want)
	}
	s.sessionsLive("reloads of the other router")
}
