package checks

import (
	"container/heap"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// slotGrain is what the places of checks are rounded to. The few that share
// one start together, which spares the process waking up for each: with 1,000
// checks a second that is a good part of what they cost.
const slotGrain = 5 * time.Millisecond

// offset is where within a step a check has its place: a stable value from 0
// to below step that follows from the ID alone, so that checks are spread over
// the step, and each keeps its place over restarts.
func offset(id string, step time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	x := h.Sum64()
	// FNV leaves the low bits of similar names alike; mix them (the finalizer
	// of MurmurHash3).
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	if step < slotGrain {
		return 0
	}
	return time.Duration(x%uint64(step/slotGrain)) * slotGrain
}

// slotAfter returns the first time after now that is a whole number of steps
// from phase. So a check keeps its phase however long a probe takes, and
// slots that were missed are skipped.
func slotAfter(now, phase time.Time, step time.Duration) time.Time {
	d := now.Sub(phase)
	k := d / step
	if d < 0 && d%step != 0 {
		k-- // round down, not towards zero
	}
	return phase.Add((k + 1) * step)
}

// step is the time between two probes of e as things stand.
func (e *entry) step() time.Duration {
	t := e.spec.Timing
	if t.FastInterval > 0 && e.judge.inDoubt() {
		return t.FastInterval
	}
	return t.Interval
}

// slot is when the next probe after now starts.
func (e *entry) slot(now time.Time) time.Time {
	at := slotAfter(now, e.phase, e.step())
	if j := e.spec.Timing.Jitter; j > 0 {
		at = at.Add(rand.N(j + 1))
	}
	return at
}

// wake is when something is to be done about e, zero for never.
func (e *entry) wake() time.Time {
	if r := e.run; r != nil && !r.settled && r.giveUp.Before(e.next) {
		return r.giveUp
	}
	return sooner(e.next, e.judge.due())
}

// grace is how long after its timeout a probe may still deliver. It ends
// before the next probe is due.
func grace(timeout time.Duration) time.Duration {
	return min(timeout/8, 100*time.Millisecond)
}

// schedule is a heap of checks, the one to be woken first at the top.
type schedule []*entry

// Len implements heap.Interface.
func (s schedule) Len() int { return len(s) }

// Less implements heap.Interface.
func (s schedule) Less(i, j int) bool { return s[i].wakeAt.Before(s[j].wakeAt) }

// Swap implements heap.Interface.
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push implements heap.Interface.
func (s *schedule) Push(x any) {
	e := x.(*entry)
	e.index = len(*s)
	*s = append(*s, e)
}

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	e := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	e.index = -1
	return e
}

// place puts e where its wake time belongs, whether it was in the heap or not.
func (s *schedule) place(e *entry) {
	e.wakeAt = e.wake()
	if e.wakeAt.IsZero() {
		s.remove(e)
		return
	}
	if e.index < 0 {
		heap.Push(s, e)
		return
	}
	heap.Fix(s, e.index)
}

// remove takes e out, if it is in.
func (s *schedule) remove(e *entry) {
	if e.index >= 0 {
		heap.Remove(s, e.index)
	}
}
