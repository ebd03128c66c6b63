package checks

import "time"

// Feed counts evidence of time at for a passive check, and says whether there
// is such a check. It costs little and never waits: whoever has much to report
// may still add it up for a moment.
//
// The evidence is judged by the check's rate rule, at once and again when it
// becomes too old (Rate.Over). Without enough of it the check abstains.
func (r *Runner) Feed(id string, c Counts, at time.Time) bool {
	r.mu.Lock()
	e := r.entries[id]
	if e == nil || e.removed || !e.spec.Passive {
		r.mu.Unlock()
		return false
	}
	if now := time.Now(); at.After(now) {
		at = now
	}
	res := Result{OK: c.Fail == 0, Detail: c.Detail, Start: at, Counts: &c}
	if c.Fail > 0 {
		res.Cause = CauseAnswer
	}
	e.note(res) // a batch is one result
	was := e.judge.state
	s := r.change(e, was, e.judge.feed(c, at), at)
	s.res = res
	if r.ctx != nil {
		r.sched.place(e)
	}
	if s.changed {
		r.wakeUp()
	}
	r.mu.Unlock()
	r.say(&s)
	return true
}
