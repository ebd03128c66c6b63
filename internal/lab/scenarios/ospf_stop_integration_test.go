//go:build integration

package scenarios

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rhid/internal/lab"
)

const (
	ospfStopPort = 9100
	ospfLost     = 900 * time.Millisecond // a connection takes that long at the least of which the first packet was lost
	ospfTold     = 20 * time.Millisecond  // how much later a change of route may be noted than it was
	ospfStill    = 50 * time.Millisecond  // a machine that stands still for longer spoils that
)

// TestOSPFStop takes a holder out of service while clients connect to its VIP all
// the time, and a second holder is there: by hand, by the end of its daemon, and
// then its host goes. Nobody is lost. Hosts and the router between them and the
// clients speak OSPF with FRR; with RHID_FULL a second time with BIRD, and 10,000
// connections each.
func TestOSPFStop(t *testing.T) {
	t.Run("FRR", func(t *testing.T) { startOSPFStop(t, "frr").measure() })
	if os.Getenv("RHID_FULL") != "" {
		t.Run("BIRD", func(t *testing.T) { startOSPFStop(t, "bird").measure() })
	}
}

// ospfStop is lb1, which holds atm, and lb2, which comes next.
type ospfStop struct {
	*ospfLab
	connects int
	probes   map[ospfVIP]*lab.Prober
	from     time.Time // when clients were being served
}

func startOSPFStop(t *testing.T, daemon string) *ospfStop {
	t.Helper()
	l := newOSPFLab(t)
	s := &ospfStop{ospfLab: l, connects: 2000, probes: map[ospfVIP]*lab.Prober{}}
	if os.Getenv("RHID_FULL") != "" {
		s.connects = 10_000
	}
	l.vips = slices.DeleteFunc(l.vips, func(v ospfVIP) bool { return v.service != "atm" })
	if daemon == "bird" {
		s.speakBIRD()
	}
	for _, host := range []string{"lb1", "lb2"} {
		l.Node(host).Serve(fmt.Sprintf(":%d", ospfStopPort))
	}
	text, _, _ := strings.Cut(l.config(), "  - name: pos\n")
	l.startAll("/tmp/stop.yaml", strings.Replace(text, "kernel: {", "kernel: {readback: {from: ["+daemon+"]}, ", 1), "lb1", "lb2")
	l.settled()
	return s
}

// speakBIRD puts BIRD in the place of FRR on both hosts and on core.
func (s *ospfStop) speakBIRD() {
	s.t.Helper()
	host, err := s.Node("bird").ReadFile("/etc/bird/bird.conf")
	if err != nil {
		s.t.Fatal(err)
	}
	core, err := s.Node("branch").ReadFile("/etc/bird/bird.conf")
	if err != nil {
		s.t.Fatal(err)
	}
	core = strings.ReplaceAll(core, `interface "eth1"`, `interface "eth*"`)
	for name, text := range map[string]string{
		"lb1":  strings.Replace(host, "10.1.3.1", "10.1.1.1", 1),
		"lb2":  strings.Replace(host, "10.1.3.1", "10.1.2.1", 1),
		"core": strings.Replace(core, "router id 10.3.0.1", "router id 10.1.1.2", 1),
	} {
		n := s.Node(name)
		n.Must("/usr/lib/frr/frrinit.sh", "stop")
		n.WriteFile("/tmp/bird.conf", text)
		n.Must("bird", "-c", "/tmp/bird.conf", "-s", "/run/bird/bird.ctl")
	}
}

// measure runs the scenario, and again where the machine stood still meanwhile: a
// connection may take as long then as one that lost a packet.
func (s *ospfStop) measure() {
	s.t.Helper()
	again := false
	lab.Steady(s.t, ospfStill, func() []string {
		if again {
			s.Heal("lb1:eth1")
			s.start("lb1")
			s.settled()
		}
		again = true
		return s.run()
	})
}

// run returns what clients have lost.
func (s *ospfStop) run() []string {
	s.t.Helper()
	for _, v := range s.vips {
		addr := netip.AddrPortFrom(netip.MustParsePrefix(v.prefix).Addr(), ospfStopPort)
		s.probes[v] = s.Node("branch").Probe(addr.String(), 5*time.Millisecond)
	}
	for _, v := range s.vips {
		s.WaitFor("lb1 answering on "+v.prefix, ospfUp, func() bool { return s.probes[v].Result().Who["lb1"] > 0 })
	}
	for _, v := range s.vips {
		s.via[v].Reset()
	}
	s.from = time.Now()
	began := time.Now()
	s.Node("lb2").Rhid("drain", "node:lb1", "--wait", "30s", "--why", "S2")
	s.t.Logf("drain: safe to stop after %s", ms(time.Since(began)))
	s.leadsOnly("lb2", "drain", began)
	began = time.Now()
	s.Node("lb2").Rhid("undrain", "node:lb1")
	s.leadsOnly("lb1", "undrain", began)
	time.Sleep(timesRest) // until kernel.spacing lets the cost change at once

	began = time.Now()
	s.procs["lb1"].Signal(syscall.SIGTERM)
	if err := s.procs["lb1"].Wait(30 * time.Second); err != nil {
		s.t.Errorf("SIGTERM: rhid ended with %v", err)
	}
	s.t.Logf("SIGTERM: rhid ended after %s", ms(time.Since(began)))
	s.leadsOnly("lb2", "SIGTERM", began)
	s.Cut("lb1:eth1")
	s.WaitFor(fmt.Sprintf("%d connections", s.connects), 2*time.Minute, func() bool { return s.count() >= s.connects })
	return s.lost()
}

// leadsOnly waits until core leads to a host alone, and says when it turned.
func (s *ospfStop) leadsOnly(host, what string, began time.Time) {
	s.t.Helper()
	for _, v := range s.vips {
		s.WaitFor(what+": "+v.prefix+" at core by "+host, ospfUp, func() bool { return s.leads(v, host) })
		for _, e := range s.via[v].Events() {
			if e.At.After(began) {
				s.t.Logf("%s: %s at core after %s: %s", what, v.prefix, ms(e.At.Sub(began)), hopsOf(e))
			}
		}
	}
}

// hopsOf is where a route leads after an event.
func hopsOf(e lab.FIBEvent) string {
	if e.Kind == lab.FIBDelete {
		return "gone"
	}
	var out []string
	for _, h := range e.Hops {
		for host, dev := range ospfHosts() {
			if dev == h.Dev {
				out = append(out, host)
			}
		}
	}
	return strings.Join(out, " and ")
}

// attempts are the connections to a VIP since clients were being served. Those
// before then may have met a branch that had no route.
func (s *ospfStop) attempts(v ospfVIP) []lab.Attempt {
	return slices.DeleteFunc(s.probes[v].Attempts(), func(a lab.Attempt) bool { return a.Start.Before(s.from) })
}

func (s *ospfStop) count() int {
	n := 0
	for v := range s.probes {
		n += len(s.attempts(v))
	}
	return n
}

// lost ends the clients and returns what was lost. A connection that was under way
// when core turned from one host to the other may be: its packets went to both.
func (s *ospfStop) lost() (wrong []string) {
	s.t.Helper()
	for v, p := range s.probes {
		p.Stop()
		lost, between := 0, 0
		all, turns := s.attempts(v), s.via[v].Events()
		for _, a := range all {
			switch {
			case a.Error == "" && a.Took < ospfLost:
			case slices.ContainsFunc(turns, func(e lab.FIBEvent) bool {
				return a.Start.After(e.At.Add(-ospfTold-a.Took)) && a.Start.Before(e.At)
			}):
				between++
			default:
				if lost++; lost < 6 {
					s.t.Logf("%s: lost: %+v", v.prefix, a)
				}
			}
		}
		if lost > 0 || between > len(turns) {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d connections were lost, and %d more that were under way when core turned, %d times", v.prefix, lost, len(all), between, len(turns)))
			continue
		}
		s.t.Logf("%s: 0 of %d connections lost; %d were under way when core turned; answered %v", v.prefix, len(all), between, p.Result().Who)
	}
	return wrong
}
