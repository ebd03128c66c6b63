package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Limits of a State.
const (
	MaxServices = 4096
	maxWord     = 255 // bytes in a name, version, digest, readiness or code
	maxEvidence = 256 // bytes; a longer sentence is cut
)

// State is what a node says of itself.
type State struct {
	Site     string                  `json:"site,omitempty"`
	Version  string                  `json:"version,omitempty"` // of the program
	Digest   string                  `json:"digest,omitempty"`  // of the configuration
	Capacity int                     `json:"capacity,omitempty"`
	Load     int                     `json:"load,omitempty"`
	Services map[string]ServiceState `json:"services,omitempty"`
}

// ServiceState is what a node says of one service.
type ServiceState struct {
	Readiness  string    `json:"readiness,omitempty"`
	Code       string    `json:"code,omitempty"` // typed reason of the readiness
	Evidence   string    `json:"evidence,omitempty"`
	Announcing bool      `json:"announcing,omitempty"`
	Rank       int       `json:"rank,omitempty"`     // among the announcers; meaningful when Announcing
	Exported   int       `json:"exported,omitempty"` // to how many routers
	Of         int       `json:"of,omitempty"`       // of how many
	Since      time.Time `json:"since,omitzero"`     // of the readiness, by the node's own clock
}

// stateBody is a State as it travels.
type stateBody struct {
	State
	Leaving string `json:"leaving,omitempty"` // the node is going away, and why
}

// sight is what a node knows of the cluster, as it travels.
type sight struct {
	Sees      []string  `json:"sees,omitempty"` // live nodes, itself not among them
	Certainty Certainty `json:"certainty"`
	Keys      []string  `json:"keys,omitempty"` // of its key ring, see KeyID; the first encrypts
}

var errState = errors.New("a state that is out of bounds")

// check says what is wrong with a state, of this node or from the network.
func (s *stateBody) check() error {
	if len(s.Services) > MaxServices {
		return fmt.Errorf("%w: %d services, at most %d", errState, len(s.Services), MaxServices)
	}
	for _, word := range []string{s.Site, s.Version, s.Digest, s.Leaving} {
		if len(word) > maxWord {
			return fmt.Errorf("%w: %.20q… has %d bytes, at most %d", errState, word, len(word), maxWord)
		}
	}
	for name, v := range s.Services {
		for _, word := range []string{name, v.Readiness, v.Code} {
			if len(word) > maxWord {
				return fmt.Errorf("%w: service %.20q: %.20q… has %d bytes, at most %d", errState, name, word, len(word), maxWord)
			}
		}
		if len(v.Evidence) > maxEvidence {
			return fmt.Errorf("%w: service %q: %d bytes of evidence, at most %d", errState, name, len(v.Evidence), maxEvidence)
		}
	}
	return nil
}

// own makes the body of this node's own state. The map of the caller is
// copied.
func (s State) own(leaving string) (*stateBody, []byte, error) {
	b := &stateBody{State: s, Leaving: cut(leaving, maxWord)}
	b.Services = make(map[string]ServiceState, len(s.Services))
	for name, v := range s.Services {
		v.Evidence = cut(v.Evidence, maxEvidence)
		b.Services[name] = v
	}
	if err := b.check(); err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, nil, fmt.Errorf("write the state: %w", err)
	}
	return b, text, nil
}

// readBody reads what a record carries, and checks it.
func (c *codec) readBody(r *record) (any, error) {
	switch r.key.kind {
	case recordState:
		v := &stateBody{}
		if err := c.unpack(r.body, v); err != nil {
			return nil, err
		}
		return v, v.check()
	case recordSight:
		v := &sight{}
		if err := c.unpack(r.body, v); err != nil {
			return nil, err
		}
		if len(v.Sees) > maxNodes || len(v.Keys) > maxKeys {
			return nil, errState
		}
		return v, nil
	default:
		v := &intentBody{}
		if err := c.unpack(r.body, v); err != nil {
			return nil, err
		}
		if v.key() != r.key.name {
			return nil, errIntent
		}
		return v, v.check()
	}
}
