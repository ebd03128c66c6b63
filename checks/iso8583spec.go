package checks

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/moov-io/iso8583"
	"github.com/moov-io/iso8583/encoding"
	"github.com/moov-io/iso8583/field"
	"github.com/moov-io/iso8583/prefix"
)

// isoFormats are the data elements of ISO 8583:1987 in the standard's notation:
// what characters (n digits; a, an, ans text; b bytes), and a fixed length or,
// after two or three dots, the most that a length of as many digits announces.
// Tracks (35, 36, 45) are left out: a network message has none.
const isoFormats = `
2 n..19, 3 n6, 4 n12, 5 n12, 6 n12, 7 n10, 8 n8, 9 n8, 10 n8, 11 n6, 12 n6, 13 n4, 14 n4, 15 n4, 16 n4, 17 n4,
18 n4, 19 n3, 20 n3, 21 n3, 22 n3, 23 n3, 24 n3, 25 n2, 26 n2, 27 n1, 28 an9, 29 an9, 30 an9, 31 an9, 32 n..11,
33 n..11, 34 ans..28, 37 an12, 38 an6, 39 an2, 40 an3, 41 ans8, 42 ans15, 43 ans40, 44 ans..25, 46 ans...999,
47 ans...999, 48 ans...999, 49 an3, 50 an3, 51 an3, 52 b8, 53 n16, 54 ans...120, 55 b...999, 56 ans...999,
57 ans...999, 58 ans...999, 59 ans...999, 60 ans...999, 61 ans...999, 62 ans...999, 63 ans...999, 64 b8,
66 n1, 67 n2, 68 n3, 69 n3, 70 n3, 71 n4, 72 n4, 73 n6, 74 n10, 75 n10, 76 n10, 77 n10, 78 n10, 79 n10, 80 n10,
81 n10, 82 n12, 83 n12, 84 n12, 85 n12, 86 n16, 87 n16, 88 n16, 89 n16, 90 n42, 91 an1, 92 an2, 93 an5, 94 an7,
95 an42, 96 b8, 97 an17, 98 ans25, 99 n..11, 100 n..11, 101 ans..17, 102 ans..28, 103 ans..28, 104 ans...100,
105 ans...999, 106 ans...999, 107 ans...999, 108 ans...999, 109 ans...999, 110 ans...999, 111 ans...999,
112 ans...999, 113 ans...999, 114 ans...999, 115 ans...999, 116 ans...999, 117 ans...999, 118 ans...999,
119 ans...999, 120 ans...999, 121 ans...999, 122 ans...999, 123 ans...999, 124 ans...999, 125 ans...999,
126 ans...999, 127 ans...999, 128 b8`

// isoFormat is the format of one data element.
type isoFormat struct {
	kind   string // n, a, an, ans, b
	length int    // the most, or exactly so many
	digits int    // of the length before it; 0 for a fixed one
}

// parseISOFormat reads a format such as n6, an..25 or ans...999.
func parseISOFormat(s string) (isoFormat, error) {
	bad := fmt.Errorf("%q is not a format such as n6, an..25, ans...999 or b8", s)
	kind := strings.TrimRight(s, "0123456789")
	n, err := strconv.Atoi(s[len(kind):])
	if err != nil || n < 1 || n > 999 {
		return isoFormat{}, bad
	}
	f := isoFormat{kind: strings.TrimRight(kind, "."), length: n}
	f.digits = len(kind) - len(f.kind)
	switch f.kind {
	case "n", "a", "an", "ans", "b":
	default:
		return isoFormat{}, bad
	}
	if f.digits > 3 || f.digits == 1 || f.digits == 2 && n > 99 {
		return isoFormat{}, bad
	}
	return f, nil
}

// isoCoding says how characters and numbers are written.
type isoCoding struct {
	bcd       bool // digits and lengths as BCD rather than ASCII
	hexBitmap bool // bitmaps as hexadecimal digits rather than bytes
}

// spec describes the messages that the library is to pack and unpack, with the
// formats that differ from the standard.
func (c isoCoding) spec(differ map[string]string) (*iso8583.MessageSpec, error) {
	fields := map[int]field.Field{
		0: c.field(isoFormat{kind: "n", length: 4}, "n4"),
		1: field.NewBitmap(&field.Spec{Description: "bitmap", Enc: encoding.Binary, Pref: prefix.Binary.Fixed}),
	}
	if c.hexBitmap {
		fields[1] = field.NewBitmap(&field.Spec{Description: "bitmap", Enc: encoding.BytesToASCIIHex, Pref: prefix.Hex.Fixed})
	}
	add := func(number, format string) error {
		id, err := isoFieldNumber(number)
		if err != nil {
			return err
		}
		f, err := parseISOFormat(format)
		if err != nil {
			return fmt.Errorf("field %d: %w", id, err)
		}
		fields[id] = c.field(f, format)
		return nil
	}
	for _, entry := range strings.Split(isoFormats, ",") {
		number, format, _ := strings.Cut(strings.TrimSpace(entry), " ")
		if err := add(number, format); err != nil {
			return nil, err
		}
	}
	for _, number := range sortedKeys(differ) {
		if err := add(number, differ[number]); err != nil {
			return nil, err
		}
	}
	return &iso8583.MessageSpec{Name: "rhid", Fields: fields}, nil
}

// field is a data element for the library. Nothing is padded: what is written
// is what the configuration or the probe says.
func (c isoCoding) field(f isoFormat, description string) field.Field {
	s := &field.Spec{Length: f.length, Description: description, Enc: encoding.ASCII, Pref: c.prefix(f.digits)}
	switch {
	case f.kind == "b":
		s.Enc = encoding.Binary
		return field.NewBinary(s)
	case f.kind == "n" && c.bcd:
		s.Enc = encoding.BCD
	case f.kind == "ans":
		s.Enc = encoding.Binary // national characters, too
	}
	return field.NewString(s)
}

func (c isoCoding) prefix(digits int) prefix.Prefixer {
	set := prefix.ASCII
	if c.bcd {
		set = prefix.BCD
	}
	switch digits {
	case 2:
		return set.LL
	case 3:
		return set.LLL
	default:
		return set.Fixed
	}
}

// isoFieldNumber reads the number of a data element.
func isoFieldNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 2 || n > 128 || n == 65 {
		return 0, errors.New("data elements have the numbers 2 to 128, without 65")
	}
	return n, nil
}
