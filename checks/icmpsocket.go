package checks

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openICMP returns a socket for echo requests to one address, connected, so
// that the kernel delivers answers and errors of that address only. Datagram
// sockets need no privilege where net.ipv4.ping_group_range allows them; raw
// ones need CAP_NET_RAW.
func (a *aim) openICMP(to netip.Addr) (conn net.Conn, raw bool, err error) {
	conn, err = a.dialICMP(unix.SOCK_DGRAM, to)
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return conn, false, err
	}
	conn, err = a.dialICMP(unix.SOCK_RAW, to)
	return conn, true, err
}

func (a *aim) dialICMP(kind int, to netip.Addr) (net.Conn, error) {
	family, proto := unix.AF_INET6, unix.IPPROTO_ICMPV6
	if to.Is4() {
		family, proto = unix.AF_INET, unix.IPPROTO_ICMP
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), "icmp")
	defer file.Close() // net.FileConn makes its own copy
	if kind == unix.SOCK_RAW {
		if err := onlyReplies(fd, to.Is4()); err != nil {
			return nil, err
		}
	}
	if err := reportErrors(fd, to.Is4()); err != nil {
		return nil, err
	}
	if err := a.prepare(fd); err != nil {
		return nil, err
	}
	if a.source.IsValid() {
		sa, err := sockaddr(a.source, 0)
		if err != nil {
			return nil, err
		}
		if err := unix.Bind(fd, sa); err != nil {
			return nil, os.NewSyscallError("bind", err)
		}
	}
	sa, err := sockaddr(to, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return nil, os.NewSyscallError("connect", err)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("use the ICMP socket: %w", err)
	}
	return conn, nil
}

// onlyReplies makes a raw socket deliver echo replies only, so that a host
// with much ICMP does not wake every check for each packet.
func onlyReplies(fd int, v4 bool) error {
	if v4 {
		const solRaw, icmpFilter = 255, 1 // linux/icmp.h
		const allButReply = ^1            // a set bit blocks a type; echo reply is type 0
		err := unix.SetsockoptInt(fd, solRaw, icmpFilter, allButReply)
		return os.NewSyscallError("setsockopt", err)
	}
	var filter unix.ICMPv6Filter // a set bit blocks a type
	for i := range filter.Data {
		filter.Data[i] = ^uint32(0)
	}
	const echoReply = 129
	filter.Data[echoReply/32] &^= 1 << (echoReply % 32)
	err := unix.SetsockoptICMPv6Filter(fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &filter)
	return os.NewSyscallError("setsockopt", err)
}

// reportErrors makes reads fail when a router, or this host, says that the
// target cannot be reached. Without it the kernel keeps to itself what may be
// temporary.
func reportErrors(fd int, v4 bool) error {
	level, option := unix.SOL_IPV6, unix.IPV6_RECVERR
	if v4 {
		level, option = unix.SOL_IP, unix.IP_RECVERR
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, level, option, 1))
}

// sockaddr is the form of an address that the kernel takes.
func sockaddr(a netip.Addr, port uint16) (unix.Sockaddr, error) {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: int(port)}, nil
	}
	sa := &unix.SockaddrInet6{Addr: a.As16(), Port: int(port)}
	if zone := a.Zone(); zone != "" {
		id, err := zoneID(zone)
		if err != nil {
			return nil, err
		}
		sa.ZoneId = id
	}
	return sa, nil
}

// zoneID is the number of the interface that an address's zone names.
func zoneID(zone string) (uint32, error) {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifi, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("find the interface %s: %w", zone, err)
	}
	return uint32(ifi.Index), nil
}
