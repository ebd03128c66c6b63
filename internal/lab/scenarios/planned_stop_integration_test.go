//go:build integration

package scenarios

import (
	"strings"
	"testing"
	"time"

	"rhid/internal/lab"
)

// TestPlannedStopIsNoAlarm stops rhid, which has BFD with both routers, and reads
// what they log: that the host said farewell, and nothing of a failure.
func TestPlannedStopIsNoAlarm(t *testing.T) {
	s := &bfdSite{siteLab: startSite(t, lab.Options{}), watches: map[string]*lab.FIBWatch{}}
	s.routersSpeakBFD()
	(&guards{siteLab: s.siteLab}).frr("debug bfd peer", "router bgp 65001", "bgp log-neighbor-changes")
	s.torBird.Must("birdc", "debug all { states, events }")
	s.start(bfdCalm)
	frr, bird := s.log(s.torFRR, "/var/log/frr/frr.log"), s.log(s.torBird, "/var/log/bird.log")
	took := s.lb.StopRhid(s.rhid, siteUp)
	time.Sleep(3*bfdCalm + 500*time.Millisecond) // longer than the detection time
	told, heard := frr(), bird()
	t.Logf("rhid ended after %v; tor-frr:\n%s\ntor-bird:\n%s", took.Round(time.Millisecond), strings.Join(told, "\n"), strings.Join(heard, "\n"))
	for _, tt := range []struct {
		router string
		log    []string
		text   string
		times  int
	}{
		{"tor-frr", told, "BFD Down", 0},
		{"tor-frr", told, "6/2 (Cease/Administrative Shutdown) \"rhid stopped on lb1\"", 2},
		{"tor-frr", told, "Down BGP Notification received", 2},
		{"tor-bird", heard, "BFD session down", 0},
		{"tor-bird", heard, "Administrative shutdown", 2},
	} {
		got := 0
		for _, line := range tt.log {
			if strings.Contains(line, tt.text) {
				got++
			}
		}
		if got != tt.times {
			t.Errorf("%s logged %q %d times, want %d", tt.router, tt.text, got, tt.times)
		}
	}
}

// log returns how to read what a router logged since now.
func (s *bfdSite) log(n *lab.Node, path string) func() []string {
	s.t.Helper()
	read := func() []string {
		text, err := n.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(text), "\n")
	}
	before := len(read())
	return func() []string { return read()[before:] }
}
