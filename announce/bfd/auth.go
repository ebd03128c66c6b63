package bfd

import (
	"crypto/sha1" //nolint:gosec // RFC 5880 has nothing better
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
)

// AuthType is how packets are authenticated.
type AuthType uint8

// The types of RFC 5880, 4.1 that rhid has. Without one, the TTL keeps strangers
// out.
const (
	AuthNone            AuthType = 0
	KeyedSHA1           AuthType = 4
	MeticulousKeyedSHA1 AuthType = 5
)

// MaxKey is the longest key in bytes (RFC 5880, 4.4).
const MaxKey = sha1.Size

const (
	authLen = 28 // type, length, key id, reserved, sequence number, digest
	hashAt  = headerLen + 8
)

var errAuth = errors.New("authentication")

// Auth is the authentication of a session; the zero value has none.
type Auth struct {
	Type  AuthType
	KeyID uint8
	Key   string // at most MaxKey bytes
}

// sign appends the authentication section with a sequence number to a packet
// that has none.
func (a Auth) sign(b []byte, seq uint32) []byte {
	b[1] |= flagAuth
	b[3] = headerLen + authLen
	b = append(b, byte(a.Type), authLen, a.KeyID, 0)
	b = binary.BigEndian.AppendUint32(b, seq)
	var key [sha1.Size]byte
	copy(key[:], a.Key)
	b = append(b, key[:]...)
	sum := sha1.Sum(b) //nolint:gosec // RFC 5880, 6.7.4
	copy(b[hashAt:], sum[:])
	return b
}

// verify checks the authentication section of a packet that parse has accepted
// and returns its sequence number.
func (a Auth) verify(b []byte) (seq uint32, err error) {
	if len(b) != headerLen+authLen || b[headerLen+1] != authLen {
		return 0, fmt.Errorf("%w: section of %d bytes", errAuth, len(b)-headerLen)
	}
	s := b[headerLen:]
	if AuthType(s[0]) != a.Type || s[2] != a.KeyID {
		return 0, fmt.Errorf("%w: type %d with key id %d, want %d with %d", errAuth, s[0], s[2], a.Type, a.KeyID)
	}
	signed := append([]byte(nil), b...)
	var key [sha1.Size]byte
	copy(key[:], a.Key)
	copy(signed[hashAt:], key[:])
	sum := sha1.Sum(signed) //nolint:gosec // RFC 5880, 6.7.4
	if subtle.ConstantTimeCompare(sum[:], b[hashAt:]) != 1 {
		return 0, fmt.Errorf("%w: wrong digest, so another key", errAuth)
	}
	return binary.BigEndian.Uint32(s[4:]), nil
}

// inWindow says whether a received sequence number may follow the last one
// (RFC 5880, 6.7.4): at most three times the multiplier further on, and with
// meticulous authentication not the same again.
func (a Auth) inWindow(last, seq uint32, mult uint8) bool {
	ahead := seq - last // circular
	if a.Type == MeticulousKeyedSHA1 && ahead == 0 {
		return false
	}
	return ahead <= 3*uint32(mult)
}
