package checks

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestISO8583Problems(t *testing.T) {
	wantProblems(t, &ISO8583Options{
		Header: "ascii4", HeaderCounted: true, TPDU: "60 0001 0000", MessageHeader: "ISO001000050", Encoding: "bcd", Bitmap: "hex", MTI: "1804",
		Code: "none", Fields: map[string]string{"24": "831", "63": "00ff"}, Formats: map[string]string{"39": "n3", "63": "b..20"}, ExpectCode: []string{"800"},
	})
	wantProblems(t, &ISO8583Options{Header: "x", TPDU: "6000", MessageHeader: strings.Repeat("x", 65), Encoding: "ebcdic", Bitmap: "x"},
		`header: "x" is none of`, `encoding: "ebcdic" is none of ascii, bcd`, `bitmap: "x" is none of hex, binary`, `tpdu: "6000" is not ten`, "message_header: is longer")
	wantProblems(t, &ISO8583Options{Header: "none", HeaderCounted: true}, "header_counted: has no effect")
	wantProblems(t, &ISO8583Options{MTI: "0810", Code: "30", ExpectCode: []string{"0000", ""}},
		`mti: "0810" is not`, `code: "30" is neither`, `expect_code: "0000" is not`, `expect_code: "" is not`)
	wantProblems(t, &ISO8583Options{Formats: map[string]string{"1": "n6", "65": "n1", "129": "n1", "x": "n1"}},
		`formats: "1": data elements have`, `formats: "129": data`, `formats: "65": data`, `formats: "x": data`)
	wantProblems(t, &ISO8583Options{Formats: map[string]string{"48": "n", "60": "n.9", "61": "n..100", "62": "z..9", "63": "n...1000"}},
		`formats: "48": "n" is not a format`, `formats: "60"`, `formats: "61"`, `formats: "62"`, `formats: "63"`)
	wantProblems(t, &ISO8583Options{Fields: map[string]string{"7": "x", "11": "x", "35": "x", "70": "301"}},
		`fields: "11" is set anew`, `fields: "7" is set anew`, `fields: "70" is set with code`)
	wantProblems(t, &ISO8583Options{Fields: map[string]string{"35": "x"}}, `fields: cannot be written: failed to set binary field 35`)
	wantProblems(t, &ISO8583Options{Fields: map[string]string{"24": "1"}}, `fields: cannot be written: failed to pack field 24 (n3)`)
	wantProblems(t, &ISO8583Options{Fields: map[string]string{"64": "xx"}}, `fields: "64" must be hexadecimal digits`)
}

// The request as it is on the wire, byte by byte.
func TestISO8583Request(t *testing.T) {
	at := time.Date(2026, 11, 30, 9, 8, 7, 0, time.FixedZone("east", 8*3600))
	tests := []struct {
		name string
		opts ISO8583Options
		want string // hexadecimal
	}{
		{"defaults", ISO8583Options{}, "0037" + hexOf("0800"+"8220000000000000"+"0400000000000000"+"1130010807"+"000042"+"301")},
		{"ascii4, binary bitmap", ISO8583Options{Header: "ascii4", Bitmap: "binary"}, hexOf("0039") + hexOf("0800") + "82200000000000000400000000000000" + hexOf("1130010807"+"000042"+"301")},
		{"bcd, tpdu, bcd2", ISO8583Options{Header: "bcd2", Encoding: "bcd", TPDU: "6000010000"}, "0033" + "6000010000" + "0800" + "82200000000000000400000000000000" + "1130010807" + "000042" + "0301"},
		{"counted, header, local", ISO8583Options{HeaderCounted: true, MessageHeader: "ISO", LocalTime: true}, "003c" + hexOf("ISO"+"0800"+"8220000000000000"+"0400000000000000"+"1130090807"+"000042"+"301")},
		{"none, no code, fields", ISO8583Options{Header: "none", Code: "none", Fields: map[string]string{"24": "831", "32": "12345"}}, hexOf("0800" + "0220010100000000" + "1130010807" + "000042" + "831" + "05" + "12345")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantProblems(t, &tt.opts)
			req, err := tt.opts.request()
			if err != nil {
				t.Fatal(err)
			}
			packed, err := req.pack(42, at)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tt.opts.framing().wrap(packed)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, hex.EncodeToString(got)); d != "" {
				t.Errorf("request (-want +got):\n%s", d)
			}
		})
	}
}

func hexOf(s string) string { return hex.EncodeToString([]byte(s)) }

// isoAnswers reads a request of the default form and answers what f makes of
// its STAN, each message with a length before it.
func isoAnswers(t *testing.T, f func(stan string) []string) Target {
	t.Helper()
	return targetOf(serve(t, "127.0.0.1:0", func(c net.Conn) {
		var request [2 + 55]byte
		if _, err := io.ReadFull(c, request[:]); err != nil {
			return // the probe has a complaint of its own
		}
		for _, message := range f(string(request[2+4+32+10 : 2+4+32+16])) {
			_, _ = c.Write(append([]byte{byte(len(message) >> 8), byte(len(message))}, message...)) // the probe may have seen enough
		}
		_, _ = io.Copy(io.Discard, c)
	}), probeLimit)
}

func TestISO8583Answers(t *testing.T) {
	const with = "0810" + "8220000002000000" + "0400000000000000" + "1130010807"
	good := func(stan string) string { return with + stan + "00" + "301" }
	longRest := func(stan string) string { // fields 48 and 63 in no format of the standard
		return "0810" + "0220000002010002" + "1130010807" + stan + "00" + "\x01\xff"
	}
	tests := []struct {
		name string
		f    func(stan string) []string
		want outcome
	}{
		{"good", func(stan string) []string { return []string{good(stan)} }, outcome{true, CauseNone, "0810 with response code 00"}},
		{"good after the target's own requests", func(stan string) []string {
			own := "0800" + "0220000000000000" + "1130010807" + "900001"
			return []string{own, own, good(stan)}
		}, outcome{true, CauseNone, "0810 with response code 00"}},
		{"private fields of another format", func(stan string) []string { return []string{longRest(stan)} }, outcome{true, CauseNone, "0810 with response code 00"}},
		{"refused", func(stan string) []string { return []string{with + stan + "91" + "301"} },
			outcome{false, CauseAnswer, "response code 91 (issuer or switch inoperative), wanted 00"}},
		{"refused in no words", func(stan string) []string { return []string{with + stan + "\n1" + "301"} },
			outcome{false, CauseAnswer, `response code "\n1", wanted 00`}},
		{"another STAN", func(string) []string { return []string{good("999999")} }, outcome{false, CauseAnswer, `the response has STAN "999999", the request had STAN`}},
		{"no STAN", func(string) []string { return []string{"0810" + "0200000002000000" + "1130010807" + "00"} },
			outcome{false, CauseAnswer, "the response has no STAN (field 11)"}},
		{"no response code", func(stan string) []string { return []string{"0810" + "0220000000000000" + "1130010807" + stan} },
			outcome{false, CauseAnswer, "the response has no response code (field 39)"}},
		{"another message", func(stan string) []string { return []string{"0110" + "0220000000000000" + "1130010807" + stan} },
			outcome{false, CauseAnswer, `answered with message type "0110", wanted 0810`}},
		{"only requests", func(stan string) []string {
			return strings.Split(strings.Repeat("0800"+"0020000000000000"+"900001 ", 9), " ")
		}, outcome{false, CauseAnswer, `answered with message type "0800", wanted 0810`}},
		{"not ISO 8583", func(string) []string { return []string{"garbage in here"} },
			outcome{false, CauseAnswer, "the answer is not ISO 8583 as configured: failed to unpack bitmap: failed to decode content for 1 bitmap: not enough data to read"}},
		{"a message that breaks off", func(string) []string { return []string{"0810" + "0220000002000000" + "11300"} },
			outcome{false, CauseAnswer, "the answer is not ISO 8583 as configured: failed to unpack field 7 (n10): failed to decode content: not enough data to decode. expected len 10, got 5"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stan string
			to := isoAnswers(t, func(s string) []string { stan = s; return tt.f(s) })
			res := probeOnce(t, &ISO8583Options{}, to)
			res.Detail = strings.Replace(res.Detail, "had "+stan, "had STAN", 1)
			wantOutcome(t, res, tt.want)
		})
	}
}

func TestISO8583Streams(t *testing.T) {
	const message = "0810" + "0220000002000000" + "1130010807" + "000001" + "00"
	none := &ISO8583Options{Header: "none"}
	tests := []struct {
		name  string
		opts  *ISO8583Options
		limit time.Duration
		f     func(net.Conn)
		want  outcome
	}{
		{"HTTP for binary2", &ISO8583Options{}, probeLimit, holds("HTTP/1.1 400 Bad Request"), outcome{false, CauseAnswer,
			"the answer says it has 18516 bytes, at most 8192 are taken: is its length binary2?"}},
		{"HTTP for ascii4", &ISO8583Options{Header: "ascii4"}, probeLimit, holds("HTTP/1.1 400 Bad Request"), outcome{false, CauseAnswer,
			`the answer does not begin with a length (ascii4): "HTTP" is not a number`}},
		{"HTTP for bcd2", &ISO8583Options{Header: "bcd2"}, probeLimit, holds("\x1f\x00"), outcome{false, CauseAnswer,
			`the answer does not begin with a length (bcd2): "\x1f\x00" are not decimal digits`}},
		{"too short for a TPDU", &ISO8583Options{TPDU: "6000010000"}, probeLimit, holds("\x00\x03xxx"), outcome{false, CauseAnswer,
			"the answer says it has 3 bytes, too few for a message: is its length binary2?"}},
		{"part of an answer", &ISO8583Options{}, partLimit, holds("\x00\x10abc"), outcome{false, CauseAnswer, "only 5 bytes of an answer within 1s"}},
		{"nothing", &ISO8583Options{}, shortLimit, holds(), outcome{false, CauseTimeout, "connected, but no 0810 within 300ms"}},
		{"closed", &ISO8583Options{}, probeLimit, answers(true), outcome{false, CauseAnswer, "the target closed the connection without an answer"}},
		{"closed in an answer", &ISO8583Options{}, probeLimit, answers(true, "\x00\x10abc"), outcome{false, CauseAnswer, "the target closed the connection after 5 bytes of an answer"}},
		{"no length, in parts", none, probeLimit, answers(true, message[:20], message[20:]), outcome{false, CauseAnswer, "the response has STAN"}},
		{"no length, HTTP", none, partLimit, holds("HTTP/1.1 400 Bad Request"), outcome{false, CauseAnswer,
			"the answer of 24 bytes is not ISO 8583 as configured: failed to unpack bitmap: failed to decode content for 1 bitmap: failed to perform hex decoding"}},
		{"no length, endless", none, probeLimit, holds("0810" + strings.Repeat("F", isoFrameLimit)), outcome{false, CauseAnswer,
			"the first 8192 bytes of the answer are not a response"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := probeOnce(t, tt.opts, targetOf(serve(t, "127.0.0.1:0", tt.f), tt.limit))
			if strings.HasPrefix(res.Detail, tt.want.Detail) {
				res.Detail = tt.want.Detail
			}
			wantOutcome(t, res, tt.want)
		})
	}
}

// Each probe has a STAN of its own, from 000001 to 999999.
func TestISO8583STAN(t *testing.T) {
	var stans []string
	to := isoAnswers(t, func(stan string) []string { stans = append(stans, stan); return []string{"x"} })
	p, err := (&ISO8583Options{}).Prober(to)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), probeLimit)
	defer cancel()
	for range 3 {
		p.Probe(ctx)
	}
	var first int
	if _, err := fmt.Sscanf(stans[0], "%06d", &first); err != nil {
		t.Fatal(err)
	}
	want := []string{stans[0], stanText(uint32(first%isoMaxSTAN + 1)), stanText(uint32((first+1)%isoMaxSTAN + 1))}
	if d := cmp.Diff(want, stans); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What was wrapped is unwrapped as the same, wherever it is cut.
func TestISO8583Framing(t *testing.T) {
	for _, form := range []string{"binary2", "ascii4", "bcd2"} {
		for _, whole := range []bool{false, true} {
			f := isoFraming{length: form, whole: whole, before: []byte("TPDU.")}
			frame, err := f.wrap([]byte("message"))
			if err != nil {
				t.Fatal(err)
			}
			for n := range frame {
				if m, used, fail := f.unwrap(frame[:n]); m != nil || used != 0 || fail != nil {
					t.Errorf("%s: %q of the first %d bytes: %+v", form, m, n, fail)
				}
			}
			m, used, fail := f.unwrap(append(frame, "next"...))
			if string(m) != "message" || used != len(frame) || fail != nil {
				t.Errorf("%s: %q, %d bytes used: %+v", form, m, used, fail)
			}
		}
	}
	if _, err := (isoFraming{length: "ascii4"}).wrap(make([]byte, isoFrameLimit+1)); err == nil {
		t.Error("a message that is too long can be sent")
	}
}

// FuzzISO8583 gives any bytes to a probe as the answer. Whatever they are, the
// probe says something of them, and the library does not fail.
func FuzzISO8583(f *testing.F) {
	for i, frame := range []string{
		"\x00\x3e08108220000002000000040000000000000011300108070000420030100",
		"00560810\x02\x20\x00\x00\x02\x00\x00\x001130010807000042",
		"\x00\x17\x08\x10\x82\x20\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x11\x30\x01\x08\x07\x00\x00\x4200\x03\x01",
		"08100220000002000000113001080700004200",
		"\x00\x04-001", "-001", "\x00\x00\x00\x00", strings.Repeat("\xff", 100), "0810" + strings.Repeat("F", 200), "0810FFFFFFFFFFFFFFFF99",
	} {
		f.Add(uint8(i), []byte(frame))
	}
	var readers []isoReader
	for _, o := range []ISO8583Options{
		{}, {Header: "ascii4", Bitmap: "binary"}, {Header: "bcd2", Encoding: "bcd"}, {Header: "none"},
		{HeaderCounted: true, TPDU: "6000010000"}, {Header: "none", Encoding: "bcd"},
		{Header: "none", Formats: map[string]string{"2": "b..99", "3": "a...999", "39": "b...10", "11": "ans..6"}},
	} {
		req, err := o.request()
		if err != nil {
			f.Fatal(err)
		}
		readers = append(readers, isoReader{isoProbe: &isoProbe{isoRequest: req, framing: o.framing(), response: "0810", want: []string{"00"}, stan: 42}})
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		r := readers[int(which)%len(readers)]
		r.buf = append(bytes.Clone(data), make([]byte, 8)...)
		r.n = min(len(data), isoFrameLimit)
		res, done := r.judge()
		if done && (res.OK != (res.Cause == CauseNone) || res.Detail == "") {
			t.Fatalf("%+v", res)
		}
		if strings.Contains(res.Detail, "the library failed") || r.trouble != nil && strings.Contains(r.trouble.Error(), "the library failed") {
			t.Fatalf("%+v %v", res, r.trouble)
		}
	})
}
