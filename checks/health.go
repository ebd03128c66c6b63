package checks

// Health applies rise and fall to the results of one check. It is a pure
// state machine: it knows no clock and does nothing but count.
//
// Rise successes in a row make it Up, fall failures in a row make it Down; a
// single result of the other kind starts the count anew. The zero value is
// Unknown and decides on the first result.
type Health struct {
	rise, fall int
	state      State
	streak     int
	good       bool // what the streak consists of
}

// NewHealth returns a Health that is Unknown. Values below 1 count as 1.
func NewHealth(rise, fall int) Health {
	var h Health
	h.SetLimits(rise, fall)
	return h
}

// SetLimits changes rise and fall, and keeps the state. The count towards the
// old limits is dropped: it was not collected under the new ones.
func (h *Health) SetLimits(rise, fall int) {
	h.rise, h.fall = max(rise, 1), max(fall, 1)
	h.streak = 0
}

// Observe counts one result and says whether the state changed by it.
func (h *Health) Observe(r Result) (changed bool) {
	if h.confirms(r.OK) {
		h.streak = 0
		return false
	}
	if r.OK != h.good {
		h.streak = 0
	}
	h.good = r.OK
	h.streak++
	limit, next := h.fall, Down
	if r.OK {
		limit, next = h.rise, Up
	}
	if h.streak < limit {
		return false
	}
	h.state, h.streak = next, 0
	return true
}

// confirms says whether a result of this kind is what the state expects.
func (h *Health) confirms(ok bool) bool {
	return h.state == Up && ok || h.state == Down && !ok
}

// State returns the state in force.
func (h *Health) State() State { return h.state }

// Streak returns how many results in a row speak against the state, that is,
// how far the way to Rise or Fall has been gone. While the state is Unknown it
// is the number of equal results in a row.
func (h *Health) Streak() int { return h.streak }

// InDoubt says whether the next results matter more than usual, so that
// Timing.FastInterval applies: the state is Unknown, or a streak against it
// has begun.
func (h *Health) InDoubt() bool { return h.state == Unknown || h.streak > 0 }
