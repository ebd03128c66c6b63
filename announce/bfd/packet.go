package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// State is a session's state (RFC 5880, 4.1).
type State uint8

// The states.
const (
	AdminDown State = iota
	Down
	Init
	Up
)

func (s State) String() string {
	return [...]string{"admin-down", "down", "init", "up"}[s&3]
}

// Diag is why a session went down last (RFC 5880, 4.1).
type Diag uint8

// The diagnostic codes that rhid sends.
const (
	DiagNone      Diag = 0
	DiagExpired   Diag = 1
	DiagNeighbour Diag = 3
	DiagAdmin     Diag = 7
)

func (d Diag) String() string {
	names := [...]string{
		"no diagnostic", "control detection time expired", "echo function failed", "neighbour signalled session down",
		"forwarding plane reset", "path down", "concatenated path down", "administratively down", "reverse concatenated path down",
	}
	if int(d) < len(names) {
		return names[d]
	}
	return fmt.Sprintf("diagnostic %d", uint8(d))
}

const (
	version    = 1
	headerLen  = 24
	maxPacket  = 255 // the length field is one byte
	flagPoll   = 1 << 5
	flagFinal  = 1 << 4
	flagAuth   = 1 << 2
	flagDemand = 1 << 1
	flagMulti  = 1 << 0
)

// errMalformed wraps why a packet is not a BFD control packet.
var errMalformed = errors.New("malformed BFD packet")

// packet is the mandatory section of a control packet (RFC 5880, 4.1) as far as
// rhid has a use for it.
type packet struct {
	diag                Diag
	state               State
	poll, final, demand bool
	auth                bool // has an authentication section
	mult                uint8
	my, your            uint32
	minTx, minRx        time.Duration // whole microseconds
}

// parse reads a control packet and applies those reception rules of RFC 5880,
// 6.8.6 that need no session. It returns the packet without what follows it.
func parse(b []byte) (packet, []byte, error) {
	bad := func(format string, a ...any) (packet, []byte, error) {
		return packet{}, nil, fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, a...))
	}
	if len(b) < headerLen {
		return bad("%d bytes", len(b))
	}
	if v := b[0] >> 5; v != version {
		return bad("version %d", v)
	}
	flags, length := b[1], int(b[3])
	p := packet{
		diag: Diag(b[0] & 31), state: State(flags >> 6),
		poll: flags&flagPoll != 0, final: flags&flagFinal != 0, demand: flags&flagDemand != 0, auth: flags&flagAuth != 0,
		mult: b[2], my: binary.BigEndian.Uint32(b[4:]), your: binary.BigEndian.Uint32(b[8:]),
		minTx: micros(b[12:]), minRx: micros(b[16:]),
	}
	least := headerLen
	if p.auth {
		least += 2
	}
	switch {
	case length < least || length > len(b):
		return bad("length field %d of %d bytes", length, len(b))
	case p.mult == 0:
		return bad("detection multiplier 0")
	case flags&flagMulti != 0:
		return bad("multipoint bit set")
	case p.poll && p.final:
		return bad("poll and final bit set")
	case p.my == 0:
		return bad("my discriminator 0")
	case p.your == 0 && p.state != Down && p.state != AdminDown:
		return bad("your discriminator 0 in state %v", p.state)
	}
	return p, b[:length], nil
}

func micros(b []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Microsecond
}

// append writes the mandatory section, without an authentication section.
func (p packet) append(b []byte) []byte {
	flags := byte(p.state) << 6
	for bit, set := range map[byte]bool{flagPoll: p.poll, flagFinal: p.final, flagDemand: p.demand} {
		if set {
			flags |= bit
		}
	}
	b = append(b, version<<5|byte(p.diag)&31, flags, p.mult, headerLen)
	for _, v := range [...]uint32{p.my, p.your, uint32(p.minTx / time.Microsecond), uint32(p.minRx / time.Microsecond), 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}
