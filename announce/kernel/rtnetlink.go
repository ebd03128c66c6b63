package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	answerSeconds = 3      // the kernel answers at once; longer means a lost answer
	dumpAttempts  = 5      // a dump that a change ran into is started again
	typeMask      = 0x3fff // NLA_TYPE_MASK: the rest of an attribute's type are flags
)

// rtnetlink is the stack of one network namespace. Requests are written here
// and not by the netlink library, which knows neither IFA_PROTO nor the number
// of its own socket, by which own changes are told from those of others.
type rtnetlink struct {
	sock   *nl.SocketHandle
	portID uint32
}

// openRtnetlink opens the stack of the calling thread's network namespace.
func openRtnetlink() (*rtnetlink, error) {
	s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	// What fails here is only missing on kernels before 4.20, which then
	// filter less and explain less.
	_ = unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	_ = s.SetExtAck(true)
	timeout := unix.Timeval{Sec: answerSeconds}
	err = errors.Join(s.SetSendTimeout(&timeout), s.SetReceiveTimeout(&timeout))
	id, errID := s.GetPid()
	if err = errors.Join(err, errID); err != nil {
		s.Close()
		return nil, fmt.Errorf("set up netlink socket: %w", err)
	}
	return &rtnetlink{sock: &nl.SocketHandle{Socket: s}, portID: id}, nil
}

func (k *rtnetlink) close() { k.sock.Close() }

func (k *rtnetlink) request(kind uint16, flags uint16) *nl.NetlinkRequest {
	return &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{
			Len:   unix.SizeofNlMsghdr,
			Type:  kind,
			Flags: unix.NLM_F_REQUEST | flags,
		},
		Sockets: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: k.sock},
	}
}

// dump asks until the answer was not interrupted by a change.
func (k *rtnetlink) dump(kind, answer uint16, data ...nl.NetlinkRequestData) ([][]byte, error) {
	var err error
	for range dumpAttempts {
		req := k.request(kind, unix.NLM_F_DUMP)
		for _, d := range data {
			req.AddData(d)
		}
		var msgs [][]byte
		msgs, err = req.Execute(unix.NETLINK_ROUTE, answer)
		if err == nil {
			return msgs, nil
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return nil, err
		}
	}
	return nil, err
}

// link asks for one interface, by its index or, where that is 0, its name.
func (k *rtnetlink) link(index int, name string) (*nl.IfInfomsg, []byte, error) {
	req := k.request(unix.RTM_GETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	if index == 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	}
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, nil, err
	}
	if len(msgs) != 1 || len(msgs[0]) < unix.SizeofIfInfomsg {
		return nil, nil, errors.New("unexpected answer about an interface")
	}
	return nl.DeserializeIfInfomsg(msgs[0]), msgs[0][unix.SizeofIfInfomsg:], nil
}

func (k *rtnetlink) up() (bool, error) {
	msg, _, err := k.link(loopback, "")
	if err != nil {
		return false, fmt.Errorf("look at lo: %w", err)
	}
	return msg.Flags&unix.IFF_UP != 0, nil
}

func (k *rtnetlink) linkName(index int) string {
	if _, attrs, err := k.link(index, ""); err == nil {
		if name := attribute(attrs, unix.IFLA_IFNAME); len(name) > 1 {
			return nl.BytesToString(name)
		}
	}
	return fmt.Sprintf("interface %d", index)
}

func (k *rtnetlink) device(name string) (device, error) {
	d := device{name: name}
	msg, _, err := k.link(0, name)
	switch {
	case errors.Is(err, unix.ENODEV):
		return d, nil
	case err != nil:
		return d, fmt.Errorf("look at %s: %w", name, err)
	}
	const ready = unix.IFF_UP | unix.IFF_LOWER_UP
	d.index, d.up = int(msg.Index), msg.Flags&ready == ready
	return d, nil
}

// families are listed one by one: a dump of all would visit others as well.
var families = [...]uint8{unix.AF_INET, unix.AF_INET6}

func (k *rtnetlink) routes(f routeFilter) ([]route, error) {
	var out []route
	for _, family := range families {
		msg := &nl.RtMsg{RtMsg: unix.RtMsg{Family: family, Protocol: f.proto}}
		data := []nl.NetlinkRequestData{msg}
		if f.table != 0 {
			data = append(data, uint32Attr(unix.RTA_TABLE, uint32(f.table)))
		}
		msgs, err := k.dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, data...)
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, m := range msgs {
			r, cloned, ok := parseRoute(m)
			if ok && !cloned && (f.proto == 0 || r.proto == f.proto) && (f.table == 0 || r.table == f.table) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// absent says whether err only means that the kernel has no such table or no
// IPv6.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

func (k *rtnetlink) addRoute(r route) error {
	return k.change(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, r)
}

func (k *rtnetlink) replaceRoute(r route) error {
	return k.change(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, r)
}

func (k *rtnetlink) delRoute(r route) error {
	return k.change(unix.RTM_DELROUTE, 0, r)
}

func (k *rtnetlink) change(kind, flags uint16, r route) error {
	req := k.request(kind, flags|unix.NLM_F_ACK)
	for _, d := range routeMessage(r) {
		req.AddData(d)
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// routeMessage is r in the form of RTM_NEWROUTE and RTM_DELROUTE.
func routeMessage(r route) []nl.NetlinkRequestData {
	msg := &nl.RtMsg{RtMsg: unix.RtMsg{
		Family:   familyOf(r.dst.Addr()),
		Dst_len:  uint8(r.dst.Bits()),
		Protocol: r.proto,
		Scope:    r.scope,
		Type:     r.kind,
	}}
	data := []nl.NetlinkRequestData{
		msg,
		nl.NewRtAttr(unix.RTA_DST, r.dst.Addr().AsSlice()),
		uint32Attr(unix.RTA_TABLE, uint32(r.table)),
	}
	if r.metric != 0 {
		data = append(data, uint32Attr(unix.RTA_PRIORITY, r.metric))
	}
	if r.gateway.IsValid() {
		msg.Flags = unix.RTNH_F_ONLINK
		data = append(data, nl.NewRtAttr(unix.RTA_GATEWAY, r.gateway.AsSlice()))
	}
	if r.link != 0 {
		data = append(data, uint32Attr(unix.RTA_OIF, uint32(r.link)))
	}
	if r.src.IsValid() {
		data = append(data, nl.NewRtAttr(unix.RTA_PREFSRC, r.src.AsSlice()))
	}
	return data
}

// parseRoute reads what RTM_NEWROUTE and RTM_DELROUTE carry. cloned says that
// the message is of a cache entry.
func parseRoute(m []byte) (r route, cloned, ok bool) {
	if len(m) < unix.SizeofRtMsg {
		return route{}, false, false
	}
	msg, attrs := nl.DeserializeRtMsg(m), m[unix.SizeofRtMsg:]
	r = route{kind: msg.Type, table: int(msg.Table), proto: msg.Protocol}
	if msg.Family == unix.AF_INET {
		r.scope = msg.Scope
	}
	if r.dst, ok = destination(msg.Family, msg.Dst_len, attribute(attrs, unix.RTA_DST)); !ok {
		return route{}, false, false
	}
	if v, ok := uint32Of(attribute(attrs, unix.RTA_TABLE)); ok {
		r.table = int(v)
	}
	if v, ok := uint32Of(attribute(attrs, unix.RTA_OIF)); ok {
		r.link = int(v)
	}
	r.metric, _ = uint32Of(attribute(attrs, unix.RTA_PRIORITY))
	r.gateway, _ = netip.AddrFromSlice(attribute(attrs, unix.RTA_GATEWAY))
	if r.proto != unix.RTPROT_KERNEL {
		r.src, _ = netip.AddrFromSlice(attribute(attrs, unix.RTA_PREFSRC))
	}
	return r, msg.Flags&unix.RTM_F_CLONED != 0, true
}

// destination returns the prefix of a route; without an address it is the
// default route.
func destination(family, bits uint8, ip []byte) (netip.Prefix, bool) {
	if family != unix.AF_INET && family != unix.AF_INET6 {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(ip)
	switch {
	case ip == nil && family == unix.AF_INET:
		a = netip.IPv4Unspecified()
	case ip == nil:
		a = netip.IPv6Unspecified()
	case !ok || familyOf(a) != family:
		return netip.Prefix{}, false
	}
	p := netip.PrefixFrom(a, int(bits))
	return p, p.IsValid()
}

func familyOf(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// attribute returns the value of the first attribute of a kind, nil if there
// is none or the list is cut short before it.
func attribute(attrs []byte, kind uint16) []byte {
	for len(attrs) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(attrs))
		if n < unix.SizeofRtAttr || n > len(attrs) {
			return nil
		}
		if binary.NativeEndian.Uint16(attrs[2:])&typeMask == kind {
			return attrs[unix.SizeofRtAttr:n:n]
		}
		attrs = attrs[min(len(attrs), (n+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1)):]
	}
	return nil
}

func uint32Of(b []byte) (uint32, bool) {
	if len(b) != 4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(b), true
}

func uint32Attr(kind int, v uint32) *nl.RtAttr { return nl.NewRtAttr(kind, nl.Uint32Attr(v)) }
