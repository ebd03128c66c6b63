package bfd

import (
	"time"
)

// entry is a session with its socket and what people want to know of it.
type entry struct {
	*session
	sender  *sender
	openErr error // why there is no sender
	sendErr error // of the last packet

	since    time.Time // of the state
	flaps    int       // how often it was lost
	rejected uint64
	rejectAs error // why the last packet was refused; nil once one was accepted

	ending bool // the speaker stops: once it is not up it shall not come up again

	// The farewell: AdminDown at the pace of the session, until it is answered.
	leaving  bool
	said     int
	sayEvery time.Duration
	sayAgain time.Time
}

// open opens the socket where there is none.
func (e *entry) open() {
	if e.sender == nil {
		e.sender, e.openErr = newSender(e.peer)
	}
}

func (e *entry) close() {
	if e.sender != nil {
		_ = e.sender.conn.Close() // every packet stands for itself
		e.sender = nil
	}
}

// expired says whether the detection time is over.
func (e *entry) expired(now time.Time) bool {
	end := e.detectAt()
	return !end.IsZero() && !now.Before(end)
}

// leave ends the session on purpose.
func (e *entry) leave(now time.Time) {
	e.sayEvery = min(max(e.interval(), MinInterval), slow)
	e.leaving, e.sayAgain, e.since = true, now, now
	e.adminDown(now)
}

// bidFarewell makes AdminDown due again.
func (e *entry) bidFarewell(now time.Time) {
	if e.leaving && e.said < farewells && !now.Before(e.sayAgain) {
		e.nextTx = now
		e.said++
		e.sayAgain = now.Add(e.sayEvery)
	}
}

// left says whether the peer knows of the end, or was told often enough.
func (e *entry) left(now time.Time) bool {
	if !e.leaving || e.said == 0 {
		return false
	}
	knows := e.remote == 0 || e.remoteState == Down || e.remoteState == AdminDown
	return knows || e.said >= farewells && !now.Before(e.sayAgain)
}

// due is when something is to be done next; zero is never.
func (e *entry) due() time.Time {
	next := e.session.due()
	if e.leaving && (next.IsZero() || e.sayAgain.Before(next)) {
		return e.sayAgain
	}
	return next
}

// planned says whether the session ended because one side wants it so.
func (e *entry) planned() bool { return e.state == AdminDown || e.remoteState == AdminDown }
