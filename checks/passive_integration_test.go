//go:build integration

package checks

import (
	"fmt"
	"testing"
	"time"
)

// witness is one evidence of the traffic to a server, with its own rules.
type witness struct {
	name   string
	prober Prober // nil for reports
	judge  judge
	ok     uint64
	fail   uint64
	last   string
}

func newWitness(t *testing.T, name string, o Options, to Target, rules Rules) *witness {
	t.Helper()
	p, err := o.Prober(to)
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{name: name, prober: p, judge: newJudge(&Spec{Passive: true, Rules: rules})}
	if h, ok := p.(Holder); ok {
		t.Cleanup(h.Release)
	}
	w.look(t) // the first reading is what others are compared with
	return w
}

// look makes one probe on the calling thread, as the Runner does on another.
func (w *witness) look(t *testing.T) {
	t.Helper()
	res := w.prober.Probe(t.Context())
	if !res.OK || res.Counts == nil {
		t.Errorf("%s: %+v", w.name, res)
		return
	}
	w.note(res.Counts)
	w.judge.observe(res)
}

func (w *witness) note(c *Counts) {
	w.ok, w.fail = w.ok+c.OK, w.fail+c.Fail
	if c.OK+c.Fail > 0 {
		w.last = c.Detail
	}
}

// Each evidence sees by itself what is wrong with a server behind HAProxy, and
// abstains where there is no traffic. The figures are printed.
func TestPassiveEvidence(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		_, socket := startHAProxy(t)
		rules := Rules{Rate: Rate{Over: time.Minute, Min: 90, MinSamples: 20}}
		tests := []struct {
			name, backend string
			front, back   uint16
			n             int
			// What part must be bad, in percent, by requests and by connections.
			requests, connections float64
		}{
			{"no traffic", "third", 8001, 9001, 0, 0, 0},
			{"500 to every third request", "third", 8001, 9001, 60, 33.3, 0},
			{"accepts and resets", "reset", 8002, 9002, 120, 100, 100},
			{"black hole", "hole", 8003, 9003, 32, 100, 100},
		}
		for _, tt := range tests {
			back := on(tt.back, probeLimit)
			all := []*witness{
				newWitness(t, "haproxy-rate", &HAProxyRateOptions{Socket: socket, Backend: tt.backend}, Target{Limit: probeLimit}, rules),
				newWitness(t, "haproxy-rate, server", &HAProxyRateOptions{Socket: socket, Backend: tt.backend, Server: "a"}, Target{Limit: probeLimit}, rules),
				newWitness(t, "tcp-diag", &TCPDiagOptions{}, back, rules),
				newWitness(t, "capture, connections", &CaptureOptions{Device: "lo"}, back, rules),
				newWitness(t, "capture, requests", &CaptureOptions{Device: "lo", Count: countRequests}, back, rules),
			}
			reports := &witness{name: "report", judge: newJudge(&Spec{Passive: true, Rules: rules})}
			diag := all[2] // it is told of some connections only while they live
			answers := ask(t, tt.front, tt.n, func() { diag.look(t) })
			for status, n := range answers {
				c := Counts{OK: uint64(n)}
				if status >= 500 || status == 0 {
					c = Counts{Fail: uint64(n), Detail: fmt.Sprintf("HTTP status %d", status)}
				}
				reports.note(&c)
				reports.judge.feed(c, time.Now())
			}
			time.Sleep(synPatience) // a capture calls a SYN unanswered after a second
			for _, w := range all {
				w.look(t)
			}
			t.Logf("%s: %d requests, answers by status %v", tt.name, tt.n, answers)
			for _, w := range append(all, reports) {
				share := percentOf(w.fail, w.ok+w.fail)
				t.Logf("  %-20s | %-8s | %3d bad of %3d (%5.1f %%) | %s", w.name, w.judge.state, w.fail, w.ok+w.fail, share, w.last)
				want := tt.requests
				if w.name == "tcp-diag" || w.name == "capture, connections" {
					want = tt.connections
				}
				state := Up
				switch {
				case tt.n == 0:
					state = Abstains
				case want > 10:
					state = Down
				}
				if w.judge.state != state || share != want {
					t.Errorf("%s, %s: %s with %.1f %% bad; want %s with %.1f %%: %s", tt.name, w.name, w.judge.state, share, state, want, w.judge.why())
				}
			}
		}
	})
}

// synPatience is more than a capture waits for the answer to a SYN.
const synPatience = 1500 * time.Millisecond
