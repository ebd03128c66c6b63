package bfd

import (
	"fmt"
	"net/netip"
	"time"
)

// Status is what people want to know of a session.
type Status struct {
	Name       string
	Address    netip.Addr
	State      State
	Since      time.Time // of State
	Diag       Diag      // why it went down last
	RemoteDiag Diag
	Hops       Hops          // in use
	Interval   time.Duration // between two packets, before jitter; 0 sends none
	Detection  time.Duration // after which the peer counts as silent; 0 before it was heard
	Flaps      int           // how often it was lost, planned ends left out
	Refused    uint64        // packets from the peer's address that were not taken
	Why        string        // why it is not up, as a sentence
}

// Sessions returns the state of all sessions, sorted by address.
func (s *Speaker) Sessions() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Status, 0, len(s.entries))
	for _, e := range s.entries {
		if e.leaving {
			continue
		}
		st := e.status()
		if err := s.listenErr[listenKey{e.peer.Address.Is6(), e.hops}]; err != nil {
			st.Why = err.Error()
		}
		out = append(out, st)
	}
	return out
}

func (e *entry) status() Status {
	st := Status{
		Name: e.peer.Name, Address: e.peer.Address, State: e.state, Since: e.since, Diag: e.diag, RemoteDiag: e.remoteDiag,
		Hops: e.hops, Interval: e.interval(), Detection: e.detection(), Flaps: e.flaps, Refused: e.rejected,
	}
	if e.state != Up {
		st.Why = e.why()
	}
	return st
}

// why is the reason for the state as one sentence.
func (e *entry) why() string {
	switch {
	case e.state == Up:
		return "packets go both ways"
	case e.state == AdminDown:
		return "ended by this host"
	case e.openErr != nil:
		return e.openErr.Error()
	case e.sendErr != nil:
		return e.sendErr.Error()
	case e.rejectAs != nil:
		return "packets of the neighbour are refused: " + e.rejectAs.Error()
	case e.remoteState == AdminDown:
		return "the neighbour has it administratively down"
	case e.diag == DiagExpired && e.heard.IsZero():
		return fmt.Sprintf("nothing heard for %v", e.detection())
	case e.diag == DiagNeighbour:
		return "the neighbour took it down: " + e.remoteDiag.String()
	case e.heard.IsZero():
		return "nothing heard from the neighbour: it has no BFD session with this host yet"
	default:
		return "the neighbour is in state " + e.remoteState.String()
	}
}
