package checks

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/moov-io/iso8583"
	"github.com/moov-io/iso8583/field"
)

const (
	isoTPDULength  = 5  // bytes
	isoHeaderLimit = 64 // bytes of message_header
)

// Problems implements Options.
func (o *ISO8583Options) Problems() []Problem {
	ps := wordProblems("header", o.Header, "binary2", "ascii4", "bcd2", "none")
	ps = append(ps, wordProblems("encoding", o.Encoding, "ascii", "bcd")...)
	ps = append(ps, wordProblems("bitmap", o.Bitmap, "hex", "binary")...)
	add := func(key, format string, args ...any) {
		ps = append(ps, Problem{Key: key, Msg: fmt.Sprintf(format, args...)})
	}
	if o.HeaderCounted && o.Header == "none" {
		add("header_counted", "has no effect with header: none; leave it out")
	}
	if b, err := unhex(o.TPDU); err != nil || len(b) != isoTPDULength && len(b) != 0 {
		add("tpdu", "%q is not ten hexadecimal digits", o.TPDU)
	}
	if len(o.MessageHeader) > isoHeaderLimit {
		add("message_header", "is longer than %d bytes", isoHeaderLimit)
	}
	if o.MTI != "" && responseType(o.MTI) == "" {
		add("mti", "%q is not the message type of a request, such as 0800", o.MTI)
	}
	if o.Code != "" && o.Code != "none" && (len(o.Code) != 3 || !digits(o.Code)) {
		add("code", "%q is neither three digits nor none", o.Code)
	}
	for _, c := range o.ExpectCode {
		if c == "" || len(c) > 3 {
			add("expect_code", "%q is not a response code of two or three characters", c)
		}
	}
	ps = append(ps, o.fieldProblems()...)
	if ps != nil {
		return ps
	}
	if req, err := o.request(); err != nil {
		add("fields", "%v", err)
	} else if _, err := req.pack(1, time.Unix(0, 0)); err != nil {
		add("fields", "cannot be written: %v", err)
	}
	return ps
}

// fieldProblems are those of fields and formats.
func (o *ISO8583Options) fieldProblems() []Problem {
	var ps []Problem
	for _, number := range sortedKeys(o.Formats) {
		if _, err := isoFieldNumber(number); err != nil {
			ps = append(ps, Problem{"formats", fmt.Sprintf("%q: %v", number, err)})
		} else if _, err := parseISOFormat(o.Formats[number]); err != nil {
			ps = append(ps, Problem{"formats", fmt.Sprintf("%q: %v", number, err)})
		}
	}
	for _, number := range sortedKeys(o.Fields) {
		switch id, err := isoFieldNumber(number); {
		case err != nil:
			ps = append(ps, Problem{"fields", fmt.Sprintf("%q: %v", number, err)})
		case id == isoTransmission || id == isoSTAN:
			ps = append(ps, Problem{"fields", fmt.Sprintf("%q is set anew at each probe; leave it out", number)})
		case id == isoManagement:
			ps = append(ps, Problem{"fields", fmt.Sprintf("%q is set with code", number)})
		}
	}
	return ps
}

func digits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// responseType is the message type of the response to a request; empty when
// mti is none. The third digit is the function: even for a request.
func responseType(mti string) string {
	if len(mti) != 4 || !digits(mti) || (mti[2]-'0')%2 != 0 {
		return ""
	}
	return mti[:2] + string(mti[2]+1) + mti[3:]
}

func (o *ISO8583Options) framing() isoFraming {
	tpdu, _ := unhex(o.TPDU) // Problems has looked at it
	return isoFraming{length: orDefault(o.Header, "binary2"), whole: o.HeaderCounted, before: append(tpdu, o.MessageHeader...)}
}

// isoRequest is what each probe sends, but for time and number.
type isoRequest struct {
	spec   *iso8583.MessageSpec
	mti    string
	local  bool
	fields map[int][]byte
}

// request puts the settings of the request together.
func (o *ISO8583Options) request() (isoRequest, error) {
	coding := isoCoding{bcd: o.Encoding == "bcd"}
	coding.hexBitmap = o.Bitmap == "hex" || o.Bitmap == "" && !coding.bcd
	spec, err := coding.spec(o.Formats)
	if err != nil {
		return isoRequest{}, err
	}
	req := isoRequest{spec: spec, mti: orDefault(o.MTI, "0800"), local: o.LocalTime, fields: map[int][]byte{}}
	if code := orDefault(o.Code, "301"); code != "none" {
		req.fields[isoManagement] = []byte(code)
	}
	for _, number := range sortedKeys(o.Fields) {
		id, err := isoFieldNumber(number)
		if err != nil {
			return isoRequest{}, err
		}
		value := []byte(o.Fields[number])
		if _, isBinary := spec.Fields[id].(*field.Binary); isBinary {
			if value, err = hex.DecodeString(o.Fields[number]); err != nil {
				return isoRequest{}, fmt.Errorf("%q must be hexadecimal digits: %w", number, err)
			}
		}
		req.fields[id] = value
	}
	return req, nil
}

// pack makes the request of one probe.
func (r isoRequest) pack(stan uint32, now time.Time) ([]byte, error) {
	if !r.local {
		now = now.UTC()
	}
	m := iso8583.NewMessage(r.spec)
	m.MTI(r.mti)
	values := map[int][]byte{isoTransmission: []byte(now.Format("0102150405")), isoSTAN: []byte(stanText(stan))}
	for id, value := range r.fields {
		values[id] = value
	}
	for id, value := range values {
		if err := m.BinaryField(id, value); err != nil {
			return nil, err
		}
	}
	return m.Pack()
}

func stanText(n uint32) string { return fmt.Sprintf("%06d", n) }

// printable is a short value of the target in a sentence: as it is, or quoted
// where that could spoil it.
func printable(s string) string {
	if q := strconv.Quote(s); q != `"`+s+`"` || len(s) > quoteLimit {
		return cut(q, quoteLimit)
	}
	return s
}

func wantedText(list []string) string { return strings.Join(list, " or ") }
