package checks

import "time"

// rollingMarks is how many readings a rolling keeps at the most.
const rollingMarks = 64

// rolling remembers readings of counters that only grow, so that one can say
// how much they grew within the last span. The zero value with a span is ready.
type rolling[T any] struct {
	span  time.Duration
	marks []mark[T] // the oldest first
}

type mark[T any] struct {
	at time.Time
	v  T
}

// since notes a reading and returns the one to compare it with, and how old
// that is: the youngest that is at least span old, or the oldest there is. The
// first reading is compared with itself.
func (r *rolling[T]) since(now time.Time, v T) (T, time.Duration) {
	n := len(r.marks)
	if n == 0 || now.Sub(r.marks[n-1].at) >= r.span/rollingMarks {
		r.marks = append(r.marks, mark[T]{now, v})
	}
	for len(r.marks) > 1 && now.Sub(r.marks[1].at) >= r.span {
		r.marks = r.marks[1:]
	}
	return r.marks[0].v, now.Sub(r.marks[0].at)
}

// forget drops all readings: the counters began anew.
func (r *rolling[T]) forget() { r.marks = nil }

// percentOf returns part in percent of all, exact to a tenth.
func percentOf(part, all uint64) float64 {
	if all == 0 {
		return 0
	}
	return float64(int64(1000*float64(part)/float64(all)+0.5)) / 10
}
