package lab

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// Numbers of RFC 4271 and RFC 4760.
const (
	bgpHeader       = 19
	bgpLongest      = 4096
	bgpTypeOpen     = 1
	bgpTypeUpdate   = 2
	bgpTypeNotify   = 3
	attrMPReach     = 14
	attrMPUnreach   = 15
	attrExtendedLen = 0x10
	afiIPv6         = 2
	safiUnicast     = 1
)

// bgpMessage is a whole BGP message.
type bgpMessage struct {
	kind byte
	body []byte // after the header
}

// messages takes the whole messages out of the stream. What is no BGP message
// empties it.
func (s *stream) messages() []bgpMessage {
	marker := bytes.Repeat([]byte{0xff}, 16)
	var out []bgpMessage
	for len(s.buf) >= bgpHeader {
		length := int(binary.BigEndian.Uint16(s.buf[16:]))
		if !bytes.Equal(s.buf[:16], marker) || length < bgpHeader || length > bgpLongest {
			s.buf = nil
			break
		}
		if len(s.buf) < length {
			break
		}
		out = append(out, bgpMessage{kind: s.buf[18], body: s.buf[bgpHeader:length]})
		s.buf = s.buf[length:]
	}
	return out
}

// event fills in what the message means; false for a KEEPALIVE and the like.
func (m bgpMessage) event(e *Event) bool {
	e.Announced, e.Withdrawn = nil, nil
	switch m.kind {
	case bgpTypeOpen:
		e.Kind = BGPOpen
	case bgpTypeNotify:
		e.Kind = BGPNotification
	case bgpTypeUpdate:
		e.Kind = BGPUpdate
		e.Announced, e.Withdrawn = parseUpdate(m.body)
	default:
		return false
	}
	return true
}

// parseUpdate returns the unicast prefixes of an UPDATE, as far as it can be
// read.
func parseUpdate(b []byte) (announced, withdrawn []netip.Prefix) {
	gone, b, ok := lengthPrefixed(b)
	if !ok {
		return nil, nil
	}
	withdrawn = parseNLRI(gone, false)
	attrs, nlri, ok := lengthPrefixed(b)
	if !ok {
		return nil, withdrawn
	}
	announced = parseNLRI(nlri, false)
	for len(attrs) >= 3 {
		flags, kind, n, rest := attrs[0], attrs[1], int(attrs[2]), attrs[3:]
		if flags&attrExtendedLen != 0 {
			if len(attrs) < 4 {
				break
			}
			n, rest = int(binary.BigEndian.Uint16(attrs[2:])), attrs[4:]
		}
		if n > len(rest) {
			break
		}
		value := rest[:n]
		attrs = rest[n:]
		switch kind {
		case attrMPReach:
			announced = append(announced, parseReach(value)...)
		case attrMPUnreach:
			if len(value) >= 3 && value[2] == safiUnicast {
				withdrawn = append(withdrawn, parseNLRI(value[3:], isIPv6(value))...)
			}
		}
	}
	return announced, withdrawn
}

// lengthPrefixed splits off a field that follows its two bytes of length.
func lengthPrefixed(b []byte) (field, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return nil, nil, false
	}
	return b[2 : 2+n], b[2+n:], true
}

// parseReach reads MP_REACH_NLRI: family, next hop, a reserved byte, prefixes.
func parseReach(v []byte) []netip.Prefix {
	if len(v) < 5 || v[2] != safiUnicast || len(v) < 5+int(v[3]) {
		return nil
	}
	return parseNLRI(v[5+int(v[3]):], isIPv6(v))
}

func isIPv6(v []byte) bool { return binary.BigEndian.Uint16(v) == afiIPv6 }

// parseNLRI reads prefixes, each a length in bits and as many bytes as it takes.
func parseNLRI(b []byte, v6 bool) []netip.Prefix {
	size := 4
	if v6 {
		size = 16
	}
	var out []netip.Prefix
	for len(b) > 0 {
		bits := int(b[0])
		n := (bits + 7) / 8
		if n > size || len(b) < 1+n {
			break
		}
		full := make([]byte, size)
		copy(full, b[1:1+n])
		addr, _ := netip.AddrFromSlice(full) // 4 or 16 bytes always fit
		out = append(out, netip.PrefixFrom(addr, bits))
		b = b[1+n:]
	}
	return out
}
