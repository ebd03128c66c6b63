package checks

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// What is needed of RADIUS: RFC 2865 (packets, PAP, CHAP), RFC 3579 3.2
// (Message-Authenticator), RFC 5997 (Status-Server).
const (
	radiusAccessRequest      = 1
	radiusAccessAccept       = 2
	radiusAccessReject       = 3
	radiusAccountingResponse = 5
	radiusAccessChallenge    = 11
	radiusStatusServer       = 12

	attrUserName             = 1
	attrUserPassword         = 2
	attrCHAPPassword         = 3
	attrReplyMessage         = 18
	attrNASIdentifier        = 32
	attrMessageAuthenticator = 80

	radiusHead        = 20   // code, identifier, length, authenticator
	radiusLimit       = 4096 // bytes of a packet
	radiusMaxValue    = 253  // bytes of an attribute's value
	radiusMaxPassword = 128  // bytes that User-Password can carry
)

// radiusAuthenticator is what ties an answer to its request and to the secret.
type radiusAuthenticator [md5.Size]byte

// radiusRequest is a request in the making. Its Message-Authenticator comes
// first, as an attacker would have to put something before it otherwise
// (CVE-2024-3596).
type radiusRequest struct {
	buf  []byte
	auth radiusAuthenticator
}

func newRadiusRequest(code, id byte, auth radiusAuthenticator) *radiusRequest {
	r := &radiusRequest{auth: auth, buf: make([]byte, 0, 256)}
	r.buf = append(r.buf, code, id, 0, 0)
	r.buf = append(r.buf, auth[:]...)
	r.add(attrMessageAuthenticator, make([]byte, md5.Size))
	return r
}

func (r *radiusRequest) add(attr byte, value []byte) {
	r.buf = append(append(r.buf, attr, byte(2+len(value))), value...)
}

// addPAP hides the password as RFC 2865, 5.2 says.
func (r *radiusRequest) addPAP(password, secret []byte) {
	blocks := max(1, (len(password)+md5.Size-1)/md5.Size)
	hidden := make([]byte, blocks*md5.Size)
	copy(hidden, password)
	before := r.auth[:]
	for b := range slices.Chunk(hidden, md5.Size) {
		pad := md5.Sum(slices.Concat(secret, before))
		for i := range b {
			b[i] ^= pad[i]
		}
		before = b
	}
	r.add(attrUserPassword, hidden)
}

// addCHAP answers the challenge that the request's authenticator is (RFC 2865,
// 2.2 and 5.3).
func (r *radiusRequest) addCHAP(password []byte, id byte) {
	sum := md5.Sum(slices.Concat([]byte{id}, password, r.auth[:]))
	r.add(attrCHAPPassword, append([]byte{id}, sum[:]...))
}

// sealed sets length and Message-Authenticator; nothing may follow.
func (r *radiusRequest) sealed(secret []byte) []byte {
	binary.BigEndian.PutUint16(r.buf[2:], uint16(len(r.buf)))
	mac := hmac.New(md5.New, secret)
	mac.Write(r.buf)
	copy(r.buf[radiusHead+2:], mac.Sum(nil))
	return r.buf
}

// radiusReply is an answer whose form is right. Nothing of it can be believed
// before verify.
type radiusReply struct {
	code, id byte
	raw      []byte // as long as the packet says
	message  []byte // Reply-Message, all of them
	mac      int    // where the value of the Message-Authenticator is, 0 without one
}

// parseRadius looks at the form of a packet (RFC 2865, 3 and 5).
func parseRadius(b []byte) (*radiusReply, error) {
	if len(b) < radiusHead {
		return nil, fmt.Errorf("%d bytes are no packet", len(b))
	}
	length := int(binary.BigEndian.Uint16(b[2:]))
	if length < radiusHead || length > radiusLimit || length > len(b) {
		return nil, fmt.Errorf("%d bytes that call themselves %d", len(b), length)
	}
	p := &radiusReply{code: b[0], id: b[1], raw: b[:length]} // what follows is padding
	for at := radiusHead; at < length; {
		if at+2 > length || b[at+1] < 2 || at+int(b[at+1]) > length {
			return nil, errors.New("an attribute is longer than the packet")
		}
		value := b[at+2 : at+int(b[at+1])]
		switch b[at] {
		case attrReplyMessage:
			p.message = append(p.message, value...)
		case attrMessageAuthenticator:
			if len(value) != md5.Size || p.mac != 0 {
				return nil, errors.New("its Message-Authenticator is malformed, or there twice")
			}
			p.mac = at + 2
		}
		at += int(b[at+1])
	}
	return p, nil
}

// verify says whether who answered the request with this authenticator has the
// secret: by the response authenticator (RFC 2865, 3) and, where there is one
// or has to be, by the Message-Authenticator (RFC 3579, 3.2).
func (p *radiusReply) verify(request radiusAuthenticator, secret []byte, needMAC bool) *failure {
	signed := slices.Concat(p.raw[:4], request[:], p.raw[radiusHead:])
	sum := md5.Sum(append(signed, secret...))
	if !hmac.Equal(sum[:], p.raw[4:radiusHead]) {
		return &failure{CauseAnswer, "an answer came with a wrong authenticator: the server has another secret for this host, or somebody else answered"}
	}
	if p.mac == 0 {
		if needMAC {
			return &failure{CauseAnswer, "an answer came without a Message-Authenticator"}
		}
		return nil
	}
	signed = signed[:len(p.raw)]
	got := bytes.Clone(signed[p.mac : p.mac+md5.Size])
	clear(signed[p.mac : p.mac+md5.Size])
	mac := hmac.New(md5.New, secret)
	mac.Write(signed)
	if !hmac.Equal(mac.Sum(nil), got) {
		return &failure{CauseAnswer, "an answer came with a wrong Message-Authenticator: somebody has changed it on its way"}
	}
	return nil
}

// radiusName is the name of a code in sentences.
func radiusName(code byte) string {
	switch code {
	case radiusAccessAccept:
		return "Access-Accept"
	case radiusAccessReject:
		return "Access-Reject"
	case radiusAccountingResponse:
		return "Accounting-Response"
	case radiusAccessChallenge:
		return "Access-Challenge"
	}
	return fmt.Sprintf("a packet of code %d", code)
}
