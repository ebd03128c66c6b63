package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	// snap is how much of a packet is copied: both headers at their longest,
	// and an HTTP status line.
	snap = 60 + 60 + 16

	// MaxSample is the largest number of connections of which one is looked at.
	MaxSample = 1024
)

// program builds a filter with jumps to labels that come later.
type program struct {
	ins    []bpf.Instruction
	labels map[string]int
	jumps  []jump
}

// jump is a conditional jump whose way is not known yet.
type jump struct {
	at          int
	yes, no     string // "" is the next instruction
	cond        bpf.JumpTest
	val         uint32
	conditional bool
}

func (p *program) add(i ...bpf.Instruction) { p.ins = append(p.ins, i...) }

func (p *program) label(name string) { p.labels[name] = len(p.ins) }

// when jumps to yes where A compares with val, and to no where it does not.
func (p *program) when(cond bpf.JumpTest, val uint32, yes, no string) {
	p.jumps = append(p.jumps, jump{len(p.ins), yes, no, cond, val, true})
	p.add(nil)
}

func (p *program) jump(to string) {
	p.jumps = append(p.jumps, jump{at: len(p.ins), yes: to})
	p.add(nil)
}

// assemble puts the jumps in.
func (p *program) assemble() ([]bpf.RawInstruction, error) {
	for _, j := range p.jumps {
		skip := func(to string) uint32 {
			if to == "" {
				return 0
			}
			return uint32(p.labels[to] - j.at - 1) //nolint:gosec // labels come later
		}
		if !j.conditional {
			p.ins[j.at] = bpf.Jump{Skip: skip(j.yes)}
			continue
		}
		p.ins[j.at] = bpf.JumpIf{Cond: j.cond, Val: j.val, SkipTrue: uint8(skip(j.yes)), SkipFalse: uint8(skip(j.no))} //nolint:gosec // the program is short
	}
	raw, err := bpf.Assemble(p.ins)
	if err != nil {
		return nil, fmt.Errorf("assembling the packet filter: %w", err)
	}
	return raw, nil
}

// filter makes the program that the kernel runs for each packet: TCP between
// the server and anybody, of one in sample connections, cut to snap bytes. A
// connection is in or out as a whole, by a hash of the client's port. loopback
// leaves out the second sight of a packet that leaves and comes in again. With a
// sample of 0 nothing passes.
func filter(server netip.AddrPort, sample int, loopback bool) ([]bpf.RawInstruction, error) {
	p := &program{labels: map[string]int{}}
	if sample == 0 {
		p.add(bpf.RetConstant{Val: 0})
		return p.assemble()
	}
	proto, next, src := uint32(unix.ETH_P_IP), uint32(9), uint32(12)
	if server.Addr().Is6() {
		proto, next, src = unix.ETH_P_IPV6, 6, 8
	}
	addr := server.Addr().AsSlice()
	dst := src + uint32(len(addr)) //nolint:gosec // 4 or 16
	p.add(bpf.LoadExtension{Num: bpf.ExtProto})
	p.when(bpf.JumpEqual, proto, "", "reject")
	if loopback {
		p.add(bpf.LoadExtension{Num: bpf.ExtType})
		p.when(bpf.JumpEqual, unix.PACKET_OUTGOING, "reject", "")
	}
	p.add(bpf.LoadAbsolute{Off: next, Size: 1})
	p.when(bpf.JumpEqual, unix.IPPROTO_TCP, "", "reject")
	if server.Addr().Is4() {
		p.add(bpf.LoadAbsolute{Off: 6, Size: 2})
		p.when(bpf.JumpBitsSet, 0x1fff, "reject", "")
		p.add(bpf.LoadMemShift{Off: 0}) // X = length of the header
	} else {
		p.add(bpf.LoadConstant{Dst: bpf.RegX, Val: ipv6Header})
	}
	isServer := func(at, port uint32, otherwise string) {
		for i := uint32(0); i < uint32(len(addr)); i += 4 { //nolint:gosec // 4 or 16
			p.add(bpf.LoadAbsolute{Off: at + i, Size: 4})
			p.when(bpf.JumpEqual, binary.BigEndian.Uint32(addr[i:]), "", otherwise)
		}
		p.add(bpf.LoadIndirect{Off: port, Size: 2})
		p.when(bpf.JumpEqual, uint32(server.Port()), "", otherwise)
	}
	isServer(dst, 2, "answer")
	p.add(bpf.LoadIndirect{Off: 0, Size: 2})
	p.jump("sample")
	p.label("answer")
	isServer(src, 0, "reject")
	p.add(bpf.LoadIndirect{Off: 2, Size: 2})
	p.label("sample")
	// Ports are given out in steps of two; the multiplication (Knuth's) spreads them.
	p.add(bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: 2654435761},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 20},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(sample - 1)}) //nolint:gosec // a power of two
	p.when(bpf.JumpEqual, 0, "", "reject")
	p.add(bpf.RetConstant{Val: snap})
	p.label("reject")
	p.add(bpf.RetConstant{Val: 0})
	return p.assemble()
}

// attach makes prog the filter of a socket, in the place of any other.
func attach(fd int, prog []bpf.RawInstruction) error {
	filters := make([]unix.SockFilter, len(prog))
	for i, r := range prog {
		filters[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}) //nolint:gosec // a few dozen
	return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)
}
