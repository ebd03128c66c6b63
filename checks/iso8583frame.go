package checks

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

const isoFrameLimit = 8 << 10 // bytes of a message with what stands before it

// isoFraming is what stands before a message on the wire.
type isoFraming struct {
	length string // its form: binary2, ascii4, bcd2, none
	whole  bool   // it counts itself, too
	before []byte // TPDU and header, as they are sent
}

// size is the number of bytes of the length.
func (f isoFraming) size() int {
	switch f.length {
	case "none":
		return 0
	case "ascii4":
		return 4
	default:
		return 2
	}
}

// wrap makes a packed message ready to send.
func (f isoFraming) wrap(message []byte) ([]byte, error) {
	n := len(f.before) + len(message)
	if n > isoFrameLimit {
		return nil, fmt.Errorf("the message has %d bytes, at most %d are sent", n, isoFrameLimit)
	}
	if f.whole {
		n += f.size()
	}
	var out []byte
	switch f.length {
	case "none":
	case "ascii4":
		out = fmt.Appendf(out, "%04d", n)
	case "bcd2": // four digits, which are also those of a hexadecimal number
		digits, err := strconv.ParseUint(strconv.Itoa(n), 16, 16)
		if err != nil {
			return nil, fmt.Errorf("the message has %d bytes: %w", n, err)
		}
		out = binary.BigEndian.AppendUint16(out, uint16(digits))
	default:
		out = binary.BigEndian.AppendUint16(out, uint16(n))
	}
	return append(append(out, f.before...), message...), nil
}

// unwrap finds the first message in what has come so far. Without a whole one
// used is 0. Where messages have no length, it is all that has come.
func (f isoFraming) unwrap(got []byte) (message []byte, used int, fail *failure) {
	n, size := len(got), f.size()
	if size > 0 {
		if len(got) < size {
			return nil, 0, nil
		}
		var err error
		if n, err = f.announced(got[:size]); err != nil {
			return nil, 0, failf(CauseAnswer, "the answer does not begin with a length (%s): %v", f.length, err)
		}
		if f.whole {
			n -= size
		}
	}
	switch {
	case n > isoFrameLimit:
		return nil, 0, failf(CauseAnswer, "the answer says it has %d bytes, at most %d are taken: is its length %s?", n, isoFrameLimit, f.length)
	case n < len(f.before) && size > 0:
		return nil, 0, failf(CauseAnswer, "the answer says it has %d bytes, too few for a message: is its length %s?", n, f.length)
	case len(got) < size+n || n < len(f.before):
		return nil, 0, nil
	}
	return got[size+len(f.before) : size+n], size + n, nil
}

// announced reads a length.
func (f isoFraming) announced(b []byte) (int, error) {
	switch f.length {
	case "ascii4":
		n, err := strconv.ParseUint(string(b), 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%s is not a number", quoted(b, quoteLimit))
		}
		return int(n), nil
	case "bcd2":
		n, err := strconv.Atoi(fmt.Sprintf("%02x%02x", b[0], b[1]))
		if err != nil {
			return 0, fmt.Errorf("%s are not decimal digits", quoted(b, quoteLimit))
		}
		return n, nil
	default:
		return int(binary.BigEndian.Uint16(b)), nil
	}
}
