package checks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// InterfaceOptions are the settings of an interface check.
type InterfaceOptions struct {
	Device    string   `yaml:"device" required:"true" doc:"name of the interface, as in eth0"`
	Addresses []string `yaml:"addresses" doc:"addresses that must be on it, alone or with their prefix length"`
}

// NeedsTarget implements Options.
func (*InterfaceOptions) NeedsTarget() TargetKind { return TargetNone }

// Problems implements Options. Whether the interface exists is a question of
// the host, and each probe answers it.
func (o *InterfaceOptions) Problems() []Problem {
	ps := deviceProblems(o.Device, true)
	for _, text := range o.Addresses {
		if _, err := wantedAddr(text); err != nil {
			ps = append(ps, Problem{"addresses", err.Error()})
		}
	}
	return ps
}

// deviceProblems says why a name cannot be that of an interface.
func deviceProblems(name string, required bool) []Problem {
	switch {
	case name == "" && required:
		return []Problem{{"device", "is missing"}}
	case len(name) >= unix.IFNAMSIZ, strings.ContainsAny(name, "/: \t\n\x00"):
		return []Problem{{"device", fmt.Sprintf("%q is not the name of an interface: at most %d characters, none of them blank, / or :", name, unix.IFNAMSIZ-1)}}
	}
	return nil
}

// wantedAddr reads an address with or without a prefix length; without one the
// prefix has -1 bits and any length will do.
func wantedAddr(text string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address like 10.1.0.11 nor one with its prefix length like 10.1.0.11/24", text)
	}
	return netip.PrefixFrom(a.Unmap(), -1), nil
}

// interfaceProbe is an interface check.
type interfaceProbe struct {
	device string
	want   []netip.Prefix
	limit  string
}

// Prober implements Options.
func (o *InterfaceOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("interface check: %s %s", ps[0].Key, ps[0].Msg)
	}
	p := &interfaceProbe{device: o.Device, limit: limitText(t.Limit)}
	for _, text := range o.Addresses {
		a, err := wantedAddr(text)
		if err != nil {
			return nil, fmt.Errorf("interface check: addresses: %w", err)
		}
		p.want = append(p.want, a)
	}
	return timed(p.probe), nil
}

func (p *interfaceProbe) probe(ctx context.Context) Result {
	all, err := kernelLinks(ctx)
	if err != nil {
		return kernelFailure(ctx, err, p.limit).result("")
	}
	i := slices.IndexFunc(all, func(l kernelLink) bool { return l.name == p.device })
	if i < 0 {
		return failf(CauseInternal, "interface %s does not exist on this host", p.device).result("")
	}
	if f := all[i].failure(); f != nil {
		return f.result("")
	}
	good := "up, with carrier"
	if len(p.want) == 0 {
		return Result{OK: true, Detail: good}
	}
	have, err := kernelAddrs(ctx, all[i].index)
	if err != nil {
		return kernelFailure(ctx, err, p.limit).result("")
	}
	for _, want := range p.want {
		if f := missingAddr(want, have, p.device); f != nil {
			return f.result("")
		}
	}
	return Result{OK: true, Detail: good + ", all wanted addresses present"}
}

// missingAddr says what is wrong with a wanted address, nil for nothing.
func missingAddr(want netip.Prefix, have []kernelAddr, device string) *failure {
	for _, a := range have {
		switch {
		case a.prefix.Addr() != want.Addr(), want.Bits() >= 0 && a.prefix != want:
		case a.flags&unix.IFA_F_DADFAILED != 0:
			return failf(CauseAnswer, "address %s is on %s, but another host has it too (duplicate address detection failed)", want.Addr(), device)
		case a.flags&unix.IFA_F_TENTATIVE != 0 && a.flags&unix.IFA_F_OPTIMISTIC == 0:
			return failf(CauseAnswer, "address %s is on %s, but still tentative", want.Addr(), device)
		default:
			return nil
		}
	}
	text := want.String()
	if want.Bits() < 0 {
		text = want.Addr().String()
	}
	return failf(CauseAnswer, "address %s is not on %s", text, device)
}

// kernelLink is an interface as the kernel has it.
type kernelLink struct {
	index int
	name  string
	flags uint32
}

// failure says why nothing can be sent over the interface, nil when it can.
func (l kernelLink) failure() *failure {
	switch {
	case l.flags&unix.IFF_UP == 0:
		return failf(CauseAnswer, "interface %s is switched off (administratively down)", l.name)
	case l.flags&unix.IFF_LOWER_UP == 0:
		return failf(CauseAnswer, "interface %s has no carrier", l.name)
	case l.flags&unix.IFF_RUNNING == 0: // RFC 2863: dormant, or down below
		return failf(CauseAnswer, "interface %s has carrier, but is not operational", l.name)
	default:
		return nil
	}
}

// kernelLinks lists the interfaces of the namespace.
func kernelLinks(ctx context.Context) ([]kernelLink, error) {
	msgs, err := dumpKernel(ctx, unix.RTM_GETLINK, unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg))
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	out := make([]kernelLink, 0, len(msgs))
	for _, m := range msgs {
		if l, ok := parseLink(m.Data); ok {
			out = append(out, l)
		}
	}
	return out, nil
}

// parseLink reads RTM_NEWLINK: struct ifinfomsg and attributes.
func parseLink(data []byte) (kernelLink, bool) {
	if len(data) < unix.SizeofIfInfomsg {
		return kernelLink{}, false
	}
	l := kernelLink{
		index: int(binary.NativeEndian.Uint32(data[4:])),
		flags: binary.NativeEndian.Uint32(data[8:]),
	}
	for _, a := range attributes(data, unix.SizeofIfInfomsg) {
		if a.kind == unix.IFLA_IFNAME {
			l.name = strings.TrimRight(string(a.value), "\x00")
		}
	}
	return l, l.name != ""
}

// kernelAddr is an address of an interface.
type kernelAddr struct {
	prefix netip.Prefix
	flags  uint32 // IFA_F_…
}

// kernelAddrs lists the addresses of one interface, of both families.
func kernelAddrs(ctx context.Context, index int) ([]kernelAddr, error) {
	var out []kernelAddr
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		body := make([]byte, unix.SizeofIfAddrmsg)
		body[0] = family
		binary.NativeEndian.PutUint32(body[4:], uint32(index)) //nolint:gosec // an interface index
		msgs, err := dumpKernel(ctx, unix.RTM_GETADDR, unix.RTM_NEWADDR, body)
		if absentFamily(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list addresses: %w", err)
		}
		for _, m := range msgs {
			if a, of, ok := parseAddr(m.Data); ok && of == index {
				out = append(out, a)
			}
		}
	}
	return out, nil
}

// absentFamily says whether err only means that the kernel has no IPv6, or no
// such table.
func absentFamily(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

// parseAddr reads RTM_NEWADDR: struct ifaddrmsg and attributes. On a point to
// point link IFA_ADDRESS is the far end, and IFA_LOCAL the own address.
func parseAddr(data []byte) (a kernelAddr, index int, ok bool) {
	if len(data) < unix.SizeofIfAddrmsg {
		return a, 0, false
	}
	a.flags = uint32(data[2])
	var local, address netip.Addr
	for _, at := range attributes(data, unix.SizeofIfAddrmsg) {
		switch at.kind {
		case unix.IFA_LOCAL:
			local = addrOf(at.value)
		case unix.IFA_ADDRESS:
			address = addrOf(at.value)
		case unix.IFA_FLAGS:
			a.flags, _ = uint32Of(at.value)
		}
	}
	if !local.IsValid() {
		local = address
	}
	a.prefix = netip.PrefixFrom(local, int(data[1]))
	return a, int(binary.NativeEndian.Uint32(data[4:])), a.prefix.IsValid()
}
