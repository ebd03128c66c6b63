package daemon

import (
	"sync/atomic"
	"time"
)

// pulse says whether the daemon is alive to those who ask more often than it
// needs to move. Only one goroutine at a time may ask.
type pulse struct {
	moved func() bool // since it was asked last; see Daemon.alive
	last  time.Time   // when it had; zero before the first time
	over  atomic.Bool
}

// end says that the event loop has ended in order. What it leaves behind is
// closed in bounded time and counts as alive until then.
func (p *pulse) end() { p.over.Store(true) }

// alive says whether the last move is not longer ago than what counts as a
// stall. Before the first one nothing is decided, and nothing to vouch for.
func (p *pulse) alive() bool {
	if p.over.Load() {
		return true
	}
	now := time.Now()
	if p.moved() {
		p.last = now
	}
	return !p.last.IsZero() && now.Sub(p.last) < stallAfter
}
