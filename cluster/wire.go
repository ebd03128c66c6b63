package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Versions of the protocol. A node speaks the highest that every live node
// understands, and understands one step back, so that a cluster is upgraded
// one node after the other.
const (
	protocolMin = 1
	protocolMax = 1
)

// Limits of what is taken from the network.
const (
	wireMagic      = 0xA7
	maxMessage     = 8 << 20 // bytes in a message
	maxStamps      = 16384   // records or stamps in a message
	maxName        = 255     // bytes in a node's name or an intent's key
	maxPacked      = 1 << 20 // bytes in a body as it travels
	maxBody        = 4 << 20 // bytes in a body once it is inflated
	maxKeySize     = 32
	maxErrorText   = 512
	minRecordBytes = 7 // the least that a record or stamp takes
	maxLife        = 10 * 365 * 24 * time.Hour
)

// messageKind says what a message carries.
type messageKind uint8

// The kinds of messages. Numbers are part of the wire format.
const (
	messageRecords   messageKind = 1  // records
	messageDigest    messageKind = 2  // all stamps of the sender, its clock, and the nonce of the hello it answers
	messageHello     messageKind = 3  // nonce and the sum of all stamps; asks for a digest
	messageWant      messageKind = 4  // asks for the records of the stamps
	messageNotice    messageKind = 5  // some stamps, instead of records that do not fit a packet
	messageKeyChange messageKind = 6  // nonce, op, key
	messageKeyAnswer messageKind = 7  // nonce, text of the error, if any
	messageSame      messageKind = 8  // nonce, clock: the digest would list what the hello summed up
	messageAsk       messageKind = 9  // nonce, subject, argument
	messageAnswer    messageKind = 10 // nonce, text of the error, if any, body
)

// answered says that a message is a question, or the answer to one, that
// nobody repeats when it is lost.
func (k messageKind) answered() bool {
	switch k {
	case messageKeyChange, messageKeyAnswer, messageAsk, messageAnswer:
		return true
	default:
		return false
	}
}

// message is one message between two nodes.
type message struct {
	kind              messageKind
	from              string
	nonce             uint64
	sum               uint64
	clock             time.Time
	stamps            []stamp
	records           []record
	op                keyOp
	key               []byte
	text              string
	subject, argument string
	body              []byte
}

var errMessage = errors.New("not a message of this cluster's protocol")

// versionError is a message in a version that this node does not understand.
type versionError struct{ got, low, high uint8 }

func (e *versionError) Error() string {
	return fmt.Sprintf("protocol version %d, this node understands %d to %d", e.got, e.low, e.high)
}

// encode writes a message in the given version of the protocol: magic byte,
// version, kind, sender, then what the kind carries. Numbers are unsigned
// varints, strings and bodies carry their length. Bytes after the last field
// are ignored, which is how a version adds a field.
func (m *message) encode(version uint8) []byte {
	b := []byte{wireMagic, version, byte(m.kind)}
	b = appendText(b, m.from)
	switch m.kind {
	case messageRecords:
		b = binary.AppendUvarint(b, uint64(len(m.records)))
		for i := range m.records {
			b = m.records[i].encode(b)
		}
	case messageDigest:
		b = binary.AppendUvarint(b, m.nonce)
		b = binary.AppendVarint(b, m.clock.UnixMilli())
		b = appendStamps(b, m.stamps)
	case messageHello:
		b = binary.AppendUvarint(b, m.nonce)
		b = binary.AppendUvarint(b, m.sum)
	case messageSame:
		b = binary.AppendUvarint(b, m.nonce)
		b = binary.AppendVarint(b, m.clock.UnixMilli())
	case messageWant, messageNotice:
		b = appendStamps(b, m.stamps)
	case messageKeyChange:
		b = binary.AppendUvarint(b, m.nonce)
		b = append(b, byte(m.op))
		b = appendText(b, string(m.key))
	case messageKeyAnswer:
		b = binary.AppendUvarint(b, m.nonce)
		b = appendText(b, cut(m.text, maxErrorText))
	case messageAsk:
		b = binary.AppendUvarint(b, m.nonce)
		b = appendText(b, m.subject)
		b = appendText(b, m.argument)
	case messageAnswer:
		b = binary.AppendUvarint(b, m.nonce)
		b = appendText(b, cut(m.text, maxErrorText))
		b = appendText(b, string(m.body))
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendStamps(b []byte, list []stamp) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = s.encode(b)
	}
	return b
}

func (s stamp) encode(b []byte) []byte {
	b = append(b, byte(s.key.kind))
	b = appendText(b, s.key.name)
	b = binary.AppendUvarint(b, s.ver.hi)
	b = binary.AppendUvarint(b, s.ver.lo)
	return appendText(b, s.ver.origin)
}

// Bits of a record's life.
const (
	lifeBounded = 1 << iota
	lifeGuessed
)

func (r record) encode(b []byte) []byte {
	b = r.stamp.encode(b)
	var flags byte
	if r.life.bounded {
		flags |= lifeBounded
	}
	if r.life.guessed {
		flags |= lifeGuessed
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(r.life.left.Milliseconds()))
	return appendText(b, string(r.body))
}

// decode reads a message of one of the versions low to high. Nothing in it
// refers to b.
func decode(b []byte, low, high uint8) (*message, error) {
	if len(b) < 3 || len(b) > maxMessage || b[0] != wireMagic {
		return nil, errMessage
	}
	if v := b[1]; v < low || v > high {
		return nil, &versionError{v, low, high}
	}
	r := &reader{b: b[3:]}
	m := &message{kind: messageKind(b[2]), from: r.text(maxName)}
	switch m.kind {
	case messageRecords:
		for range r.count() {
			m.records = append(m.records, r.record())
		}
	case messageDigest:
		m.nonce = r.uint()
		m.clock = time.UnixMilli(r.int())
		m.stamps = r.stamps()
	case messageHello:
		m.nonce, m.sum = r.uint(), r.uint()
	case messageSame:
		m.nonce = r.uint()
		m.clock = time.UnixMilli(r.int())
	case messageWant, messageNotice:
		m.stamps = r.stamps()
	case messageKeyChange:
		m.nonce, m.op, m.key = r.uint(), keyOp(r.byte()), []byte(r.text(maxKeySize))
	case messageKeyAnswer:
		m.nonce, m.text = r.uint(), r.text(maxErrorText)
	case messageAsk:
		m.nonce, m.subject, m.argument = r.uint(), r.text(maxName), r.text(maxArgument)
	case messageAnswer:
		m.nonce, m.text, m.body = r.uint(), r.text(maxErrorText), []byte(r.text(maxPacked))
	default:
		// A kind that a later version added within this protocol version.
		return m, r.err
	}
	if r.err != nil {
		return nil, fmt.Errorf("message of kind %d from %q: %w", m.kind, m.from, r.err)
	}
	return m, nil
}

var errShort = errors.New("it ends too early or a length is out of bounds")

// reader takes fields off a message. After the first error all are zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() { r.b, r.err = nil, errShort }

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// text copies, so that a small name does not keep a large message in memory.
func (r *reader) text(limit int) string {
	n := r.uint()
	if n > uint64(limit) || n > uint64(len(r.b)) {
		r.fail()
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// count reads a number of records, bounded by what can follow it.
func (r *reader) count() int {
	n := r.uint()
	if n > maxStamps || n > uint64(len(r.b)/minRecordBytes+1) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) stamp() stamp {
	return stamp{
		key: recordKey{recordKind(r.byte()), r.text(maxName)},
		ver: version{r.uint(), r.uint(), r.text(maxName)},
	}
}

func (r *reader) stamps() []stamp {
	n := r.count()
	list := make([]stamp, 0, n)
	for range n {
		list = append(list, r.stamp())
	}
	return list
}

func (r *reader) record() record {
	rec := record{stamp: r.stamp()}
	flags, left := r.byte(), r.uint()
	rec.life.bounded = flags&lifeBounded != 0
	rec.life.guessed = flags&lifeGuessed != 0
	if left > uint64(maxLife.Milliseconds()) {
		r.fail()
		return rec
	}
	rec.life.left = time.Duration(left) * time.Millisecond
	rec.body = []byte(r.text(maxPacked))
	return rec
}
