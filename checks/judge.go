package checks

import (
	"fmt"
	"time"
)

// judge applies the rules of one check to its results. It knows no clock; it
// is told the time.
type judge struct {
	timing  Timing
	rules   Rules
	passive bool

	health Health       // rise and fall
	window *nOfM        // in its place, nil without a window
	link   *linkWindow  // in the place of both, nil where the check is of no link
	rate   *successRate // nil without a rate
	slow   *slowness    // nil without a limit

	state    State
	warned   bool // the last success was one to look at
	degraded bool
	detail   string // of the last result, or of the last counts that said something
}

func newJudge(s *Spec) judge {
	j := judge{passive: s.Passive}
	j.configure(s)
	j.decide()
	return j
}

// configure changes the rules. The state stays in force until the new rules
// come to an answer; what was counted under other rules is dropped.
func (j *judge) configure(s *Spec) {
	t, r := s.Timing, s.Rules
	if s.Passive && r.Rate.Over == 0 {
		r.Rate = DefaultRate()
	}
	j.timing, j.rules, j.passive = t, r, s.Passive
	j.health.state = j.state
	j.health.SetLimits(t.Rise, t.Fall)
	j.window, j.link, j.rate, j.slow = nil, nil, nil, nil
	if r.Window.Size > 0 {
		w := newNOfM(r.Window)
		w.state = j.state
		j.window = &w
	}
	if r.Link.Size > 0 {
		j.link = newLinkWindow(r.Link)
		j.link.state = j.state
	}
	if r.Rate.Over > 0 {
		j.rate = newSuccessRate(r.Rate, !s.Passive)
	}
	if r.Latency.P95 > 0 {
		j.slow = newSlowness(r.Latency)
	}
}

// same says whether s has the rules that are in force.
func (j *judge) same(s *Spec) bool {
	r := s.Rules
	if s.Passive && r.Rate.Over == 0 {
		r.Rate = DefaultRate()
	}
	return j.passive == s.Passive && j.rules == r && j.timing.Rise == s.Timing.Rise && j.timing.Fall == s.Timing.Fall
}

// observe counts the result of a probe.
func (j *judge) observe(res Result) (changed bool) {
	at := res.Start.Add(res.Took)
	j.detail = res.Detail
	if j.passive {
		if !res.OK || res.Counts == nil {
			return j.age(at) // there was nothing to look at, which is no evidence
		}
		return j.feed(*res.Counts, at)
	}
	ok, fail := uint64(0), uint64(1)
	if res.OK {
		ok, fail = 1, 0
		j.warned = res.Degraded
	}
	switch {
	case j.link != nil:
		j.link.observe(res)
	case j.window != nil:
		j.window.observe(res.OK)
	default:
		j.health.Observe(res)
	}
	if j.rate != nil {
		j.rate.add(ok, fail, at)
	}
	if j.slow != nil && res.OK {
		j.slow.add(1, res.Took, at)
	}
	return j.decide()
}

// feed counts evidence of time at.
func (j *judge) feed(c Counts, at time.Time) (changed bool) {
	if c.Detail != "" {
		j.detail = c.Detail
	}
	j.rate.add(c.OK, c.Fail, at)
	if j.slow != nil && c.Latency > 0 {
		j.slow.add(c.OK, c.Latency, at)
	}
	return j.decide()
}

// age looks whether evidence became too old by time now.
func (j *judge) age(now time.Time) (changed bool) {
	j.rate.judge(now)
	if j.slow != nil {
		j.slow.judge(now)
	}
	return j.decide()
}

// due is when a passive check may change by time alone, zero when it will not.
// An active one is judged at its results.
func (j *judge) due() time.Time {
	if !j.passive {
		return time.Time{}
	}
	due := j.rate.tally.due()
	if j.slow != nil {
		due = sooner(due, j.slow.due())
	}
	return due
}

// decide joins what the rules say.
func (j *judge) decide() (changed bool) {
	state := j.base()
	switch {
	case j.passive:
		state = j.rate.state
	case j.rate != nil && j.rate.state == Down:
		state = Down
	}
	degraded := state == Up && (j.warned || j.slow != nil && j.slow.slow)
	changed = state != j.state || degraded != j.degraded
	j.state, j.degraded = state, degraded
	return changed
}

// base is what rise and fall, or the window, say.
func (j *judge) base() State {
	switch {
	case j.link != nil:
		return j.link.state
	case j.window != nil:
		return j.window.state
	default:
		return j.health.State()
	}
}

// streak is how many results speak against the state.
func (j *judge) streak() int {
	switch {
	case j.passive, j.link != nil:
		return 0
	case j.window != nil:
		return j.window.streak()
	default:
		return j.health.Streak()
	}
}

// inDoubt says whether the next results matter more than usual.
func (j *judge) inDoubt() bool {
	switch {
	case j.passive, j.link != nil: // a window of a link needs probes at even distances
		return false
	case j.window != nil:
		return j.window.inDoubt()
	default:
		return j.health.InDoubt()
	}
}

// why says in one sentence what the rules see.
func (j *judge) why() string {
	switch {
	case j.passive:
		return joined(j.rate.sentence(), j.detail)
	case j.link != nil:
		return joined(j.link.sentence(), "last: "+j.detail)
	case j.state == Down && j.rate != nil && j.rate.state == Down && j.base() != Down:
		return joined(j.rate.sentence(), "last: "+j.detail)
	case j.state == Down && j.window != nil:
		return joined(fmt.Sprintf("%d of the last %d results failed", j.window.failed(), j.window.n), "last: "+j.detail)
	case j.degraded && !j.warned:
		return joined(j.detail, j.slow.sentence())
	default:
		return j.detail
	}
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
