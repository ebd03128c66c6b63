package checks

import "math/bits"

// nOfM applies a Window to the results of one check, as Health applies rise
// and fall: a pure state machine.
type nOfM struct {
	w     Window
	state State
	bits  uint64 // the last results, the newest lowest; 1 is a success
	n     int    // how many there are, up to w.Size
}

func newNOfM(w Window) nOfM {
	w.Size = min(max(w.Size, 1), MaxWindow)
	if w.Recover == 0 {
		w.Recover = w.Size
	}
	return nOfM{w: w}
}

// observe counts one result.
func (m *nOfM) observe(ok bool) {
	m.bits <<= 1
	if ok {
		m.bits |= 1
	}
	m.bits &= 1<<m.w.Size - 1
	m.n = min(m.n+1, m.w.Size)
	switch {
	case m.failed() >= m.w.Fail:
		m.state = Down
	case m.succeeded() >= m.w.Recover:
		m.state = Up
	}
}

func (m *nOfM) succeeded() int { return bits.OnesCount64(m.bits) }

func (m *nOfM) failed() int { return m.n - m.succeeded() }

// streak is how many of the results speak against the state.
func (m *nOfM) streak() int {
	if m.state == Down {
		return m.succeeded()
	}
	return m.failed()
}

// inDoubt is as Health.InDoubt.
func (m *nOfM) inDoubt() bool { return m.state == Unknown || m.streak() > 0 }
