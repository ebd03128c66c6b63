package bfd

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Ports (RFC 5881, 4; RFC 5883, 5).
const (
	portSingle = 3784
	portMulti  = 4784
)

// Limits of Peer.Interval.
const (
	MinInterval = 10 * time.Millisecond
	MaxInterval = 10 * time.Second
)

// Hops says on which port a session runs.
type Hops uint8

// The kinds of sessions.
const (
	HopsAuto   Hops = iota // as the router speaks; until it does, as Peer.Expect says
	HopsSingle             // RFC 5881
	HopsMulti              // RFC 5883
)

func (h Hops) String() string { return [...]string{"auto", "single", "multi"}[h] }

// Peer is a router to have a session with.
type Peer struct {
	Name       string     // for people
	Address    netip.Addr // with its zone where it is link-local
	Source     netip.Addr // local address; the kernel's choice when not valid
	Hops       Hops
	Expect     Hops  // with HopsAuto: HopsSingle or HopsMulti until the router has spoken
	MinTTL     uint8 // of packets received on the multihop port; on the other it is always 255
	Interval   time.Duration
	Multiplier uint8
	Auth       Auth
}

// validate returns everything that is wrong with p.
func (p Peer) validate() error {
	var errs []error
	bad := func(when bool, format string, a ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	bad(!p.Address.IsValid() || p.Address.Is4In6() || p.Address.IsUnspecified() || p.Address.IsMulticast(), "address %v is not of a host", p.Address)
	bad(p.linkLocal() && p.Address.Zone() == "", "link-local address %v needs a zone", p.Address)
	bad(p.Source.IsValid() && p.Source.Is4() != p.Address.Is4(), "source %v is of another family", p.Source)
	bad(p.Hops == HopsAuto && p.Expect == HopsAuto, "neither single nor multihop to begin with")
	bad(p.linkLocal() && p.Hops == HopsMulti, "multihop to a link-local address")
	bad(p.Interval < MinInterval || p.Interval > MaxInterval, "interval %v is not between %v and %v", p.Interval, MinInterval, MaxInterval)
	bad(p.Multiplier == 0, "multiplier 0")
	bad(len(p.Auth.Key) > MaxKey || p.Auth.Type != AuthNone && p.Auth.Key == "", "a key has 1 to %d bytes", MaxKey)
	if len(errs) > 0 {
		return fmt.Errorf("bfd: peer %s: %w", p.Name, errors.Join(errs...))
	}
	return nil
}

func (p Peer) linkLocal() bool { return p.Address.Is6() && p.Address.IsLinkLocalUnicast() }

// begin is the kind of session that p begins with.
func (p Peer) begin() Hops {
	if p.Hops == HopsAuto {
		return p.Expect
	}
	return p.Hops
}

// leastTTL is what a packet must have left that came in on the port of a kind:
// over one hop all of the 255 it began with (RFC 5881, 5).
func (p Peer) leastTTL(h Hops) int {
	if h == HopsSingle {
		return ttl
	}
	return int(p.MinTTL)
}

// takes says whether a packet that came in on the port of a kind may be p's.
func (p Peer) takes(h Hops) bool { return p.Hops == HopsAuto || p.Hops == h }

// sameSession says whether a session with p can go on as one with q: all that
// differs are names, which nobody sends, and timers, which are negotiated.
func (p Peer) sameSession(q Peer) bool {
	p.Name, p.Interval, p.Multiplier = q.Name, q.Interval, q.Multiplier
	return p == q
}
