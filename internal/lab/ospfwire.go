package lab

import (
	"encoding/binary"
	"net/netip"
)

// Numbers of RFC 2328 and RFC 5340.
const (
	ospfTypeUpdate  = 4
	ospfHeaderV2    = 24
	ospfHeaderV3    = 16
	lsaHeader       = 20
	lsaMaxAge       = 3600
	lsaDoNotAge     = 0x8000
	lsaExternalV2   = 5
	lsaExternalV3   = 0x4005
	lsaPrefixV3     = lsaHeader + 4 // where the prefix begins, after flags and metric
	lsaPrefixBodyV3 = lsaPrefixV3 + 4
)

// parseOSPF reads a Link State Update of OSPFv2 or v3 and returns the prefixes
// of its AS-external LSAs; those of age MaxAge are withdrawn. ok is false for
// any other packet.
func parseOSPF(b []byte) (announced, withdrawn []netip.Prefix, ok bool) {
	head := ospfHeaderV2
	if len(b) >= 2 && b[0] == 3 {
		head = ospfHeaderV3
	}
	if len(b) < head+4 || b[1] != ospfTypeUpdate {
		return nil, nil, false
	}
	count := binary.BigEndian.Uint32(b[head:])
	v3 := b[0] == 3
	b = b[head+4:]
	for ; count > 0 && len(b) >= lsaHeader; count-- {
		length := int(binary.BigEndian.Uint16(b[18:]))
		if length < lsaHeader || length > len(b) {
			break
		}
		p, external := externalPrefix(b[:length], v3)
		age := binary.BigEndian.Uint16(b) &^ lsaDoNotAge
		switch {
		case !external:
		case age >= lsaMaxAge:
			withdrawn = append(withdrawn, p)
		default:
			announced = append(announced, p)
		}
		b = b[length:]
	}
	return announced, withdrawn, true
}

// externalPrefix returns the prefix of an AS-external LSA.
func externalPrefix(lsa []byte, v3 bool) (netip.Prefix, bool) {
	if v3 {
		if binary.BigEndian.Uint16(lsa[2:]) != lsaExternalV3 || len(lsa) < lsaPrefixBodyV3 {
			return netip.Prefix{}, false
		}
		bits := int(lsa[lsaPrefixV3])
		n := (bits + 7) / 8
		if n > 16 || len(lsa) < lsaPrefixBodyV3+n {
			return netip.Prefix{}, false
		}
		var full [16]byte
		copy(full[:], lsa[lsaPrefixBodyV3:lsaPrefixBodyV3+n])
		return netip.PrefixFrom(netip.AddrFrom16(full), bits), true
	}
	if lsa[3] != lsaExternalV2 || len(lsa) < lsaHeader+4 {
		return netip.Prefix{}, false
	}
	mask := binary.BigEndian.Uint32(lsa[lsaHeader:])
	bits := 0
	for bits < 32 && mask&(1<<(31-bits)) != 0 {
		bits++
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(lsa[4:8])), bits).Masked(), true
}
