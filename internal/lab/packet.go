package lab

import (
	"encoding/binary"
	"net/netip"
)

// Numbers on the wire.
const (
	ipv6Header      = 40
	protoICMP       = 1
	protoTCP        = 6
	protoICMPv6     = 58
	protoOSPF       = 89
	bgpPort         = 179
	tcpFIN          = 0x01
	tcpSYN          = 0x02
	tcpRST          = 0x04
	icmpUnreachable = 3 // RFC 792
	icmp6NoRoute    = 1 // RFC 4443, destination unreachable
)

// flow is one direction of a TCP connection.
type flow struct{ src, dst netip.AddrPort }

// parsePacket reads an IP packet and returns what it means: copies of e with
// the rest filled in. TCP streams of BGP are followed in flows.
func parsePacket(b []byte, e Event, flows map[flow]*stream) []Event {
	src, dst, proto, payload, ok := parseIP(b)
	if !ok {
		return nil
	}
	e.Src, e.Dst = netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0)
	switch proto {
	case protoTCP:
		return parseTCP(payload, e, flows)
	case protoOSPF:
		if announced, withdrawn, ok := parseOSPF(payload); ok {
			e.Kind, e.Announced, e.Withdrawn = OSPFUpdate, announced, withdrawn
			return []Event{e}
		}
	case protoICMP:
		if len(payload) > 0 && payload[0] == icmpUnreachable {
			e.Kind = Unreachable
			return []Event{e}
		}
	case protoICMPv6:
		if len(payload) > 0 && payload[0] == icmp6NoRoute {
			e.Kind = Unreachable
			return []Event{e}
		}
	}
	return nil
}

// parseIP takes an IP header off. Later fragments and IPv6 extension headers
// are not understood.
func parseIP(b []byte) (src, dst netip.Addr, proto byte, payload []byte, ok bool) {
	if len(b) < 20 {
		return
	}
	switch b[0] >> 4 {
	case 4:
		head, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
		if total == 0 { // segmentation offload of more than 64 KiB
			total = len(b)
		}
		if head < 20 || total < head || total > len(b) || binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
			return
		}
		src, _ = netip.AddrFromSlice(b[12:16])
		dst, _ = netip.AddrFromSlice(b[16:20])
		return src, dst, b[9], b[head:total], true
	case 6:
		if len(b) < ipv6Header {
			return
		}
		src, _ = netip.AddrFromSlice(b[8:24])
		dst, _ = netip.AddrFromSlice(b[24:40])
		total := ipv6Header + int(binary.BigEndian.Uint16(b[4:]))
		if total == ipv6Header || total > len(b) {
			total = len(b)
		}
		return src, dst, b[6], b[ipv6Header:total], true
	}
	return
}

// parseTCP reports a reset, and what BGP says on port 179.
func parseTCP(b []byte, e Event, flows map[flow]*stream) []Event {
	if len(b) < 20 {
		return nil
	}
	head := int(b[12]>>4) * 4
	if head < 20 || head > len(b) {
		return nil
	}
	sport, dport := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	e.Src = netip.AddrPortFrom(e.Src.Addr(), sport)
	e.Dst = netip.AddrPortFrom(e.Dst.Addr(), dport)
	seq, flags := binary.BigEndian.Uint32(b[4:]), b[13]
	key := flow{e.Src, e.Dst}
	if flags&tcpRST != 0 {
		delete(flows, key)
		e.Kind = TCPReset
		return []Event{e}
	}
	if sport != bgpPort && dport != bgpPort {
		return nil
	}
	if flags&tcpSYN != 0 {
		flows[key] = &stream{next: seq + 1}
		return nil
	}
	s := flows[key]
	if s == nil {
		s = &stream{next: seq}
		flows[key] = s
	}
	s.push(seq, b[head:])
	if flags&tcpFIN != 0 {
		delete(flows, key)
	}
	var events []Event
	for _, m := range s.messages() {
		if m.event(&e) {
			events = append(events, e)
		}
	}
	return events
}

// stream puts one direction of a TCP connection in order. After a gap it goes
// on at the next segment that begins with a BGP message.
type stream struct {
	next uint32 // sequence number of the first byte not yet in buf
	buf  []byte
}

func (s *stream) push(seq uint32, data []byte) {
	ahead := int32(seq - s.next) // modulo 2^32, as TCP counts
	switch {
	case len(data) == 0:
	case ahead > 0: // something was not seen
		s.buf = append([]byte(nil), data...)
		s.next = seq + uint32(len(data))
	case int(-ahead) < len(data): // new, perhaps with a repetition before it
		s.buf = append(s.buf, data[-ahead:]...)
		s.next = seq + uint32(len(data))
	}
}
