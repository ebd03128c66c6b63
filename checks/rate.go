package checks

import (
	"fmt"
	"strconv"
	"time"
)

// successRate applies a Rate to counted results.
type successRate struct {
	rule  Rate
	tally tally
	state State // Abstains, Up or Down
}

func newSuccessRate(rule Rate, single bool) *successRate {
	rule = rule.resolved()
	return &successRate{rule: rule, tally: newTally(rule.Over, rule.Last, single), state: Abstains}
}

func (r *successRate) add(ok, fail uint64, at time.Time) {
	r.tally.add(ok, fail, at)
	r.judge(at)
}

// judge works out the state at time now.
func (r *successRate) judge(now time.Time) {
	r.tally.trim(now)
	switch p := r.tally.percent(); {
	case r.tally.total() < uint64(r.rule.MinSamples):
		r.state = Abstains
	case p < r.rule.Min, r.state == Down && p < r.rule.Recover:
		r.state = Down
	default:
		r.state = Up
	}
}

// sentence says how the rate stands.
func (r *successRate) sentence() string {
	t := &r.tally
	if r.state == Abstains {
		return fmt.Sprintf("%d results within %s, too few to judge: %d are needed", t.total(), r.rule.Over, r.rule.MinSamples)
	}
	text := fmt.Sprintf("%d of the last %d results within %s succeeded (%s)", t.ok, t.total(), r.rule.Over, percentText(t.percent()))
	switch {
	case r.state != Down:
		return text
	case t.percent() < r.rule.Min:
		return text + ", at least " + percentText(r.rule.Min) + " must"
	default:
		return text + ", up again from " + percentText(r.rule.Recover)
	}
}

func (r *successRate) status() *RateStatus {
	return &RateStatus{OK: r.tally.ok, Fail: r.tally.fail, Percent: r.tally.percent(), Min: r.rule.Min, Needed: r.rule.MinSamples}
}

// percentText cuts rather than rounds, so that 89.96 % is not said to be the
// 90 % that it lacks.
func percentText(p float64) string {
	return strconv.FormatFloat(float64(int64(p*10+1e-6))/10, 'f', -1, 64) + " %"
}

// slowness applies a Latency to the time that successes took.
type slowness struct {
	rule    Latency
	tally   tally // ok is fast, fail is slow
	slow    bool
	pending time.Time // since when the other answer has been right, zero when it is not
}

func newSlowness(rule Latency) *slowness {
	if rule.Over == 0 {
		rule.Over = time.Minute
	}
	if rule.MinSamples == 0 {
		rule.MinSamples = defaultMinSamples
	}
	return &slowness{rule: rule, tally: newTally(rule.Over, 0, false)}
}

func (s *slowness) add(n uint64, took time.Duration, at time.Time) {
	if took > s.rule.P95 {
		s.tally.add(0, n, at)
	} else {
		s.tally.add(n, 0, at)
	}
	s.judge(at)
}

// judge works out at time now whether answers are slow: their 95th percentile
// is above the limit exactly when more than 5 % of them are.
func (s *slowness) judge(now time.Time) {
	s.tally.trim(now)
	n := s.tally.total()
	above := s.tally.fail*20 > n
	if n < uint64(s.rule.MinSamples) || above == s.slow {
		s.pending = time.Time{}
		return
	}
	if s.pending.IsZero() {
		s.pending = now
	}
	if now.Sub(s.pending) >= s.rule.For {
		s.slow, s.pending = above, time.Time{}
	}
}

// due is when the answer may change by time alone, zero when it will not.
func (s *slowness) due() time.Time {
	due := s.tally.due()
	if !s.pending.IsZero() {
		due = sooner(due, s.pending.Add(s.rule.For))
	}
	return due
}

func (s *slowness) sentence() string {
	return fmt.Sprintf("%d of %d answers within %s took longer than %s, at most 5 %% may", s.tally.fail, s.tally.total(), s.rule.Over, s.rule.P95)
}

// sooner is the earlier of two times, of which zero means never.
func sooner(a, b time.Time) time.Time {
	switch {
	case a.IsZero():
		return b
	case b.IsZero(), a.Before(b):
		return a
	default:
		return b
	}
}
