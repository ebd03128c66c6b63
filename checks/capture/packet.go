package capture

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// TCP flags.
const (
	flagFIN = 1 << 0
	flagSYN = 1 << 1
	flagRST = 1 << 2
	flagACK = 1 << 4
)

const (
	ipv4Header = 20
	ipv6Header = 40
	tcpHeader  = 20
)

// segment is one TCP segment as far as it was captured.
type segment struct {
	src, dst netip.AddrPort
	seq      uint32
	flags    byte
	window   uint16
	length   uint32 // of the data, also where not all of it was captured
	data     []byte // what was captured of it; valid until the next packet
}

// parse reads a packet that begins with its IP header. It takes no part of a
// fragmented packet, and no IPv6 packet with extension headers: the filter lets
// none through either.
func parse(b []byte) (s segment, ok bool) {
	if len(b) < ipv4Header {
		return s, false
	}
	var header, total int
	var src, dst netip.Addr
	switch b[0] >> 4 {
	case 4:
		header, total = int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
		fragment := binary.BigEndian.Uint16(b[6:])&0x1fff != 0
		if header < ipv4Header || fragment || b[9] != unix.IPPROTO_TCP {
			return s, false
		}
		src, dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	case 6:
		if len(b) < ipv6Header || b[6] != unix.IPPROTO_TCP {
			return s, false
		}
		header, total = ipv6Header, ipv6Header+int(binary.BigEndian.Uint16(b[4:]))
		src, dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		return s, false
	}
	if len(b) < header+tcpHeader {
		return s, false
	}
	t := b[header:]
	offset := int(t[12]>>4) * 4
	if offset < tcpHeader || total < header+offset {
		return s, false
	}
	s = segment{
		src: netip.AddrPortFrom(src, binary.BigEndian.Uint16(t)), dst: netip.AddrPortFrom(dst, binary.BigEndian.Uint16(t[2:])),
		seq: binary.BigEndian.Uint32(t[4:]), flags: t[13], window: binary.BigEndian.Uint16(t[14:]),
		length: uint32(total - header - offset), //nolint:gosec // at most 64 KiB
	}
	if offset < len(t) {
		s.data = t[offset:min(len(t), offset+int(s.length))]
	}
	return s, true
}

// isRequest says whether data begins an HTTP/1 request: a method in capital
// letters and a blank.
func isRequest(data []byte) bool {
	for i, c := range data {
		if c == ' ' {
			return i >= 3
		}
		if c < 'A' || c > 'Z' || i >= 16 {
			return false
		}
	}
	return false
}

// statusOf reads the status code of an HTTP/1 answer; 0 when data begins none.
func statusOf(data []byte) int {
	const line = "HTTP/1.x 200"
	if len(data) < len(line) || string(data[:7]) != line[:7] || data[8] != ' ' {
		return 0
	}
	code := 0
	for _, c := range data[9:12] {
		if c < '0' || c > '9' {
			return 0
		}
		code = code*10 + int(c-'0')
	}
	return code
}
