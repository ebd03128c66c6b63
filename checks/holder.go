package checks

import "time"

// Holder is a Prober that holds something between its probes, a connection
// say, and learns at once when it breaks. The Runner counts that as a failed
// result there and then, without waiting for the next probe.
//
// The methods beside Probe are called with the Runner locked, so none of them
// waits for anything, or calls broken.
type Holder interface {
	Prober
	// Watch names who is to be told when what is held breaks.
	Watch(broken func(Result))
	// Inherit takes over what the former prober of the same check holds, so
	// that a reload breaks nothing. A probe of that one may be under way.
	Inherit(from Holder)
	// Release lets go of what is held, and of what a probe under way may yet
	// get hold of. Nobody is told of it, and no probe follows.
	Release()
}

// watch has the Runner told when what e's prober holds breaks.
func (r *Runner) watch(e *entry) {
	if h, ok := e.spec.Prober.(Holder); ok {
		key := e.spec.Key
		h.Watch(func(res Result) { r.broke(e, key, res) })
	}
}

// handOver gives what the prober of the old Spec of e holds to the new one, or
// lets go of it where that is another check.
func (r *Runner) handOver(e *entry, old Spec) {
	from, held := old.Prober.(Holder)
	to, holds := e.spec.Prober.(Holder)
	switch {
	case held && holds && old.Key == e.spec.Key:
		to.Inherit(from)
	case held:
		from.Release()
	}
	r.watch(e)
}

// release lets go of what the prober holds, if it is one that holds anything.
func (s *Spec) release() {
	if h, ok := s.Prober.(Holder); ok {
		h.Release()
	}
}

// broke counts the failure of what a check held. It may come too late: for a
// check that is gone, or has become another one.
func (r *Runner) broke(e *entry, key string, res Result) {
	r.mu.Lock()
	if e.removed || e.spec.Key != key || r.ctx == nil || r.ctx.Err() != nil {
		r.mu.Unlock()
		return
	}
	s := r.record(e, res)
	// The next probe keeps its distance, so that a server that drops each
	// connection at once is not asked without end.
	e.next = e.slot(time.Now())
	r.sched.place(e)
	r.wakeUp()
	r.mu.Unlock()
	r.say(&s)
}
