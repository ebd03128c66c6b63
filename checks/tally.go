package checks

import (
	"math"
	"time"
)

// tallyBuckets is into how many parts a tally divides its time where it does
// not keep single results: what it says is at most 1/64 of Over too young.
const tallyBuckets = 64

// tally counts successes and failures that are not older than over, and of
// those at most the last ones. It needs constant time for each result, and
// memory for its buckets only.
type tally struct {
	over  time.Duration
	grain time.Duration // results within it share a bucket; 0 keeps each
	last  uint64        // 0 is all
	began time.Time     // of which the buckets' times count
	ring  []bucket
	head  int // the oldest
	n     int
	ok    uint64
	fail  uint64
}

type bucket struct {
	at       time.Duration // since began, when its first result came
	ok, fail uint64
}

// newTally returns an empty tally. single says that results come one by one:
// then the last ones are counted exactly.
func newTally(over time.Duration, last int, single bool) tally {
	t := tally{over: over, last: uint64(max(last, 0)), grain: max(over/tallyBuckets, 1)}
	size := tallyBuckets + 1
	if single && last > 0 {
		t.grain, size = 0, last
	}
	t.ring = make([]bucket, 0, size)
	return t
}

// add counts results of time at.
func (t *tally) add(ok, fail uint64, at time.Time) {
	if ok+fail == 0 {
		return
	}
	if t.began.IsZero() {
		t.began = at
	}
	// Whoever counts for us may say nonsense, and the sums must not overflow.
	ok, fail = min(ok, math.MaxUint32), min(fail, math.MaxUint32)
	d := at.Sub(t.began)
	t.ok, t.fail = t.ok+ok, t.fail+fail
	if t.n > 0 {
		newest := &t.ring[(t.head+t.n-1)%len(t.ring)]
		if d-newest.at < t.grain {
			newest.ok, newest.fail = newest.ok+ok, newest.fail+fail
			t.trim(at)
			return
		}
	}
	if t.n == cap(t.ring) {
		t.drop()
	}
	b := bucket{d, ok, fail}
	if i := t.head + t.n; len(t.ring) < cap(t.ring) {
		t.ring = append(t.ring, b)
	} else {
		t.ring[i%len(t.ring)] = b
	}
	t.n++
	t.trim(at)
}

// trim drops what is too old at time now, or no longer among the last.
func (t *tally) trim(now time.Time) {
	for t.n > 0 {
		b := t.ring[t.head]
		aged := now.Sub(t.began)-b.at >= t.over
		spare := t.last > 0 && t.ok+t.fail >= t.last+b.ok+b.fail
		if !aged && !spare {
			return
		}
		t.drop()
	}
}

// drop takes the oldest bucket out.
func (t *tally) drop() {
	b := t.ring[t.head]
	t.ok, t.fail = t.ok-b.ok, t.fail-b.fail
	t.head = (t.head + 1) % len(t.ring)
	t.n--
	if t.n == 0 {
		t.ring, t.head, t.ok, t.fail = t.ring[:0], 0, 0, 0
	}
}

// total is how many results are counted.
func (t *tally) total() uint64 { return t.ok + t.fail }

// percent is the share of successes, 0 without results.
func (t *tally) percent() float64 {
	if t.total() == 0 {
		return 0
	}
	return 100 * float64(t.ok) / float64(t.total())
}

// due is when the tally changes by time alone, zero when it will not.
func (t *tally) due() time.Time {
	if t.n == 0 {
		return time.Time{}
	}
	return t.began.Add(t.ring[t.head].at + t.over)
}
