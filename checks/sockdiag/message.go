package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes and numbers of linux/inet_diag.h and linux/tcp.h that x/sys/unix does
// not have.
const (
	sockDiagByFamily = 20
	destroyTCP4      = 1 // multicast groups SKNLGRP_INET_TCP_DESTROY
	destroyTCP6      = 3 // and SKNLGRP_INET6_TCP_DESTROY

	attrInfo     = 2      // INET_DIAG_INFO of an answer
	attrBytecode = 1      // INET_DIAG_REQ_BYTECODE of a request
	attrTypeMask = 0x3fff // NLA_TYPE_MASK
	opDstCond    = 8      // INET_DIAG_BC_D_COND

	requestSize = 56 // struct inet_diag_req_v2
	messageSize = 72 // struct inet_diag_msg
	infoSize    = 216
)

const timerRetransmit = 1 // of idiag_timer

// States of a TCP socket (net/tcp_states.h).
const (
	stateEstablished = 1
	stateSynSent     = 2
	stateCloseWait   = 8
)

// Socket is one TCP socket as the kernel describes it.
type Socket struct {
	Cookie   uint64 // identifies it as long as it lives
	Remote   netip.AddrPort
	State    uint8
	Timeouts uint8         // retransmission timeouts in a row
	Waits    time.Duration // since the last segment that waits for its acknowledgement was sent; 0 when none does
	RTT      time.Duration

	Retransmits uint32 // segments sent again, SYN included
	SegsIn      uint32
	DataOut     uint32 // segments with data, those sent again included
	Acked       uint64 // bytes the other side acknowledged; SYN and FIN count as one each
	Sent        uint64 // bytes sent for the first time
	Received    uint64 // bytes received
}

var errShort = errors.New("the kernel's message is too short")

// parse reads a struct inet_diag_msg and the tcp_info behind it.
func parse(b []byte) (Socket, error) {
	if len(b) < messageSize {
		return Socket{}, errShort
	}
	s := Socket{State: b[1], Timeouts: b[3], Cookie: binary.NativeEndian.Uint64(b[44:])}
	port := binary.BigEndian.Uint16(b[6:])
	switch b[0] {
	case unix.AF_INET:
		s.Remote = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[24:28])), port)
	case unix.AF_INET6:
		s.Remote = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[24:40])).Unmap(), port)
	default:
		return s, fmt.Errorf("the kernel's message is of address family %d", b[0])
	}
	info, err := attribute(b[messageSize:], attrInfo)
	if err != nil {
		return s, err
	}
	if len(info) < infoSize {
		return s, errors.New("this kernel says too little of a connection; it must be Linux 4.19 or newer")
	}
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(info[at:]) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(info[at:]) }
	s.RTT = time.Duration(u32(68)) * time.Microsecond
	if b[2] == timerRetransmit { // it runs from the timeout down to 0
		timeout := time.Duration(u32(8)) * time.Microsecond
		s.Waits = max(0, timeout-time.Duration(binary.NativeEndian.Uint32(b[52:]))*time.Millisecond)
	}
	s.Retransmits, s.SegsIn, s.DataOut = u32(100), u32(140), u32(156)
	s.Acked, s.Received = u64(120), u64(128)
	if sent, again := u64(200), u64(208); sent > again {
		s.Sent = sent - again
	}
	return s, nil
}

// attribute finds a netlink attribute.
func attribute(b []byte, typ uint16) ([]byte, error) {
	for len(b) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return nil, errShort
		}
		if binary.NativeEndian.Uint16(b[2:])&attrTypeMask == typ {
			return b[unix.SizeofRtAttr:n], nil
		}
		b = b[min(align4(n), len(b)):]
	}
	return nil, errShort
}

func align4(n int) int { return (n + 3) &^ 3 }

// request makes the netlink message that asks for all live connections to a
// server; the kernel leaves out all others.
func request(target netip.AddrPort, seq uint32) []byte {
	addr := target.Addr().AsSlice()
	cond := 4 + 8 + len(addr) // struct inet_diag_bc_op, struct inet_diag_hostcond, the address
	attr := unix.SizeofRtAttr + cond
	b := make([]byte, unix.SizeofNlMsghdr+requestSize+attr)
	ne := binary.NativeEndian
	ne.PutUint32(b[0:], uint32(len(b)))
	ne.PutUint16(b[4:], sockDiagByFamily)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	ne.PutUint32(b[8:], seq)
	req := b[unix.SizeofNlMsghdr:]
	req[0], req[1], req[2] = family(target.Addr()), unix.IPPROTO_TCP, 1<<(attrInfo-1)
	ne.PutUint32(req[4:], 1<<stateEstablished|1<<stateSynSent|1<<stateCloseWait)
	a := req[requestSize:]
	ne.PutUint16(a[0:], uint16(attr)) //nolint:gosec // at most 36
	ne.PutUint16(a[2:], attrBytecode)
	op := a[unix.SizeofRtAttr:]
	op[0], op[1] = opDstCond, byte(cond)
	ne.PutUint16(op[2:], uint16(cond+4)) //nolint:gosec // beyond the end means no
	op[4], op[5] = req[0], byte(8*len(addr))
	ne.PutUint32(op[8:], uint32(target.Port()))
	copy(op[12:], addr)
	return b
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// eachMessage calls f with the type and body of each netlink message in b. The
// bodies are only valid during the call.
func eachMessage(b []byte, f func(typ uint16, body []byte) error) error {
	for len(b) >= unix.SizeofNlMsghdr {
		n := int(binary.NativeEndian.Uint32(b))
		if n < unix.SizeofNlMsghdr || n > len(b) {
			return errShort
		}
		if err := f(binary.NativeEndian.Uint16(b[4:]), b[unix.SizeofNlMsghdr:n]); err != nil {
			return err
		}
		b = b[min(align4(n), len(b)):]
	}
	return nil
}
