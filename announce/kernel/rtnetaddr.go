package kernel

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ifaProto is IFA_PROTO of if_addr.h, the protocol number of an address (Linux
// 5.18). An older kernel passes over it.
const ifaProto = 11

func (k *rtnetlink) addrs() ([]addr, error) {
	var out []addr
	for _, family := range families {
		msgs, err := k.dump(unix.RTM_GETADDR, unix.RTM_NEWADDR, nl.NewIfAddrmsg(int(family)))
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list addresses: %w", err)
		}
		for _, m := range msgs {
			if a, ok := parseAddr(m); ok {
				out = append(out, a)
			}
		}
	}
	return out, nil
}

func (k *rtnetlink) addAddr(a addr) error {
	req := k.request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	msg, data := addrMessage(a)
	if a.prefix.Addr().Is4() {
		msg.Scope = unix.RT_SCOPE_HOST
	} else {
		life := nl.IfaCacheInfo{IfaCacheinfo: unix.IfaCacheinfo{Valid: math.MaxUint32, Prefered: 0}}
		data = append(data, nl.NewRtAttr(unix.IFA_CACHEINFO, life.Serialize()))
	}
	req.AddData(msg)
	for _, d := range data {
		req.AddData(d)
	}
	if a.proto != 0 {
		req.AddData(nl.NewRtAttr(ifaProto, []byte{a.proto}))
	}
	if a.flags != 0 {
		req.AddData(uint32Attr(unix.IFA_FLAGS, a.flags))
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// leaseAddr is only used for IPv4.
func (k *rtnetlink) leaseAddr(a addr, life time.Duration) error {
	req := k.request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	msg, data := addrMessage(a)
	msg.Scope = unix.RT_SCOPE_HOST
	seconds := uint32(life / time.Second)
	lives := nl.IfaCacheInfo{IfaCacheinfo: unix.IfaCacheinfo{Valid: seconds, Prefered: seconds}}
	req.AddData(msg)
	for _, d := range append(data, nl.NewRtAttr(unix.IFA_CACHEINFO, lives.Serialize()), nl.NewRtAttr(ifaProto, []byte{a.proto})) {
		req.AddData(d)
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// leaseStamp returns the kernel's time of the last update, in hundredths of a
// second.
func (k *rtnetlink) leaseStamp() (stamp uint32, there bool, err error) {
	msgs, err := k.dump(unix.RTM_GETADDR, unix.RTM_NEWADDR, nl.NewIfAddrmsg(unix.AF_INET))
	if err != nil {
		return 0, false, fmt.Errorf("list addresses: %w", err)
	}
	for _, m := range msgs {
		if a, ok := parseAddr(m); ok && a.link == loopback && a.prefix == leaseAddress() {
			info := attribute(m[unix.SizeofIfAddrmsg:], unix.IFA_CACHEINFO)
			if len(info) < unix.SizeofIfaCacheinfo {
				return 0, true, nil
			}
			return nl.DeserializeIfaCacheInfo(info).Tstamp, true, nil
		}
	}
	return 0, false, nil
}

// delAddr leaves it to the kernel to compare the label in IPv4. In IPv6 the
// kernel compares nothing, so the address is read first.
func (k *rtnetlink) delAddr(a addr) error {
	if a.prefix.Addr().Is6() {
		now, err := k.addr6(a)
		if err != nil {
			return err
		}
		if now.proto != a.proto || now.prefix != a.prefix {
			return unix.EADDRNOTAVAIL
		}
	}
	req := k.request(unix.RTM_DELADDR, unix.NLM_F_ACK)
	msg, data := addrMessage(a)
	req.AddData(msg)
	for _, d := range data {
		req.AddData(d)
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// addr6 asks for one IPv6 address of an interface.
func (k *rtnetlink) addr6(a addr) (addr, error) {
	req := k.request(unix.RTM_GETADDR, 0)
	msg := nl.NewIfAddrmsg(unix.AF_INET6)
	msg.Index = uint32(a.link)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, a.prefix.Addr().AsSlice()))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	if err != nil {
		return addr{}, err
	}
	for _, m := range msgs {
		if now, ok := parseAddr(m); ok && now.link == a.link {
			return now, nil
		}
	}
	return addr{}, unix.EADDRNOTAVAIL
}

// addrMessage is what names a in RTM_NEWADDR and RTM_DELADDR.
func addrMessage(a addr) (*nl.IfAddrmsg, []nl.NetlinkRequestData) {
	ip := a.prefix.Addr().AsSlice()
	msg := nl.NewIfAddrmsg(int(familyOf(a.prefix.Addr())))
	msg.Prefixlen = uint8(a.prefix.Bits())
	msg.Index = uint32(a.link)
	data := []nl.NetlinkRequestData{
		nl.NewRtAttr(unix.IFA_LOCAL, ip),
		nl.NewRtAttr(unix.IFA_ADDRESS, ip),
	}
	if a.label != "" {
		data = append(data, nl.NewRtAttr(unix.IFA_LABEL, nl.ZeroTerminated(a.label)))
	}
	return msg, data
}

// parseAddr reads what RTM_NEWADDR and RTM_DELADDR carry. Where the address
// has a peer, the local end counts.
func parseAddr(m []byte) (addr, bool) {
	if len(m) < unix.SizeofIfAddrmsg {
		return addr{}, false
	}
	msg, attrs := nl.DeserializeIfAddrmsg(m), m[unix.SizeofIfAddrmsg:]
	ip, ok := netip.AddrFromSlice(attribute(attrs, unix.IFA_LOCAL))
	if !ok {
		ip, ok = netip.AddrFromSlice(attribute(attrs, unix.IFA_ADDRESS))
	}
	if !ok || familyOf(ip) != msg.Family {
		return addr{}, false
	}
	a := addr{
		prefix: netip.PrefixFrom(ip, int(msg.Prefixlen)),
		link:   int(msg.Index),
		flags:  uint32(msg.Flags),
	}
	if label := attribute(attrs, unix.IFA_LABEL); len(label) > 0 {
		a.label = unix.ByteSliceToString(label)
	}
	if proto := attribute(attrs, ifaProto); len(proto) == 1 {
		a.proto = proto[0]
	}
	if flags, ok := uint32Of(attribute(attrs, unix.IFA_FLAGS)); ok {
		a.flags = flags
	}
	return a, a.prefix.IsValid()
}
