package lab

import (
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// captureFilter lets through what parsePacket knows, so that bulk traffic does
// not fill the socket: OSPF, ICMP, TCP of port 179 or with RST. Packets begin
// with the IP header.
func captureFilter() (*unix.SockFprog, error) {
	const v6, tcp, reject, accept = 8, 13, 19, 20 // places in the program
	var prog []bpf.Instruction
	add := func(i bpf.Instruction) { prog = append(prog, i) }
	jump := func(to int) uint8 { return uint8(to - len(prog) - 1) }
	load := func(off uint32) { add(bpf.LoadAbsolute{Off: off, Size: 1}) }
	// accepts the protocols in A, goes to tcp or rejects the rest
	protocols := func(icmp uint32) {
		add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: protoOSPF, SkipTrue: jump(accept)})
		add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: icmp, SkipTrue: jump(accept)})
		add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_TCP, SkipTrue: jump(tcp), SkipFalse: jump(reject)})
	}
	load(0)
	add(bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4})
	add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: 6, SkipTrue: jump(v6)})
	add(bpf.LoadMemShift{Off: 0}) // X = length of the IPv4 header
	load(9)
	protocols(unix.IPPROTO_ICMP)
	// v6: extension headers are not looked at; none of these packets has any
	add(bpf.LoadConstant{Dst: bpf.RegX, Val: ipv6Header})
	load(6)
	protocols(unix.IPPROTO_ICMPV6)
	// tcp:
	add(bpf.LoadIndirect{Off: 0, Size: 2})
	add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: bgpPort, SkipTrue: jump(accept)})
	add(bpf.LoadIndirect{Off: 2, Size: 2})
	add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: bgpPort, SkipTrue: jump(accept)})
	add(bpf.LoadIndirect{Off: 13, Size: 1})
	add(bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: tcpRST, SkipTrue: jump(accept)})
	add(bpf.RetConstant{Val: 0})       // reject:
	add(bpf.RetConstant{Val: 1 << 18}) // accept: the whole packet
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("assembling the packet filter: %w", err)
	}
	filters := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filters[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return &unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}, nil
}
