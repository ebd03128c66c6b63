package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/moov-io/iso8583"
	isoerrors "github.com/moov-io/iso8583/errors"
)

const (
	isoMaxForeign = 8 // messages of the target's own that are passed over
	isoMaxSTAN    = 999999
)

// Numbers of data elements.
const (
	isoTransmission = 7  // date and time
	isoSTAN         = 11 // system trace audit number
	isoResponse     = 39 // response code
	isoManagement   = 70 // network management information code
)

// ISO8583Options are the settings of an iso8583 check: one network management
// request (0800) and its response (0810) on a fresh connection.
type ISO8583Options struct {
	Header        string            `yaml:"header" default:"binary2" enum:"binary2,ascii4,bcd2,none" doc:"length before each message: two bytes, four ASCII digits, four BCD digits, or none"`
	HeaderCounted bool              `yaml:"header_counted" doc:"the length counts its own bytes, too"`
	TPDU          string            `yaml:"tpdu" doc:"TPDU after the length, as ten hexadecimal digits, for example 6000010000; the one of the answer is not looked at"`
	MessageHeader string            `yaml:"message_header" doc:"text between the TPDU and the message type, for example ISO001000050; as many bytes are expected in the answer"`
	Encoding      string            `yaml:"encoding" default:"ascii" enum:"ascii,bcd" doc:"how digits and lengths of fields are written"`
	Bitmap        string            `yaml:"bitmap" enum:"hex,binary" doc:"how bitmaps are written; hex with ascii and binary with bcd by default"`
	MTI           string            `yaml:"mti" default:"0800" doc:"message type of the request; that of the response has the next function digit, as 0810"`
	Code          string            `yaml:"code" default:"301" doc:"network management code (field 70), for example 301 echo, 001 sign-on; none leaves the field out"`
	LocalTime     bool              `yaml:"local_time" doc:"field 7 in the time zone of the host rather than UTC"`
	Fields        map[string]string `yaml:"fields" doc:"more fields of the request by number; in place of those of kind b hexadecimal digits"`
	Formats       map[string]string `yaml:"formats" doc:"formats of fields that differ from ISO 8583:1987, for example {\"48\": \"b...255\", \"63\": \"n..20\"}"`
	ExpectCode    []string          `yaml:"expect_code" default:"00" doc:"wanted response codes (field 39)"`
}

// NeedsTarget implements Options.
func (*ISO8583Options) NeedsTarget() TargetKind { return TargetPort }

// isoProbe is an iso8583 check of one target.
type isoProbe struct {
	*aim
	isoRequest
	framing  isoFraming
	response string // message type
	want     []string
	stan     uint32 // of the last request
}

// Prober implements Options.
func (o *ISO8583Options) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("iso8583 check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("iso8583 check: %w", err)
	}
	req, err := o.request()
	if err != nil {
		return nil, fmt.Errorf("iso8583 check: %w", err)
	}
	p := &isoProbe{
		aim: a, isoRequest: req, framing: o.framing(), response: responseType(req.mti), want: o.ExpectCode,
		stan: rand.Uint32N(isoMaxSTAN), // so that nodes and restarts differ
	}
	if len(p.want) == 0 {
		p.want = []string{"00"}
	}
	return timed(p.probe), nil
}

// probe sends the request and waits for its response.
func (p *isoProbe) probe(ctx context.Context) Result {
	p.stan = p.stan%isoMaxSTAN + 1
	request, err := p.pack(p.stan, time.Now())
	if err == nil {
		request, err = p.framing.wrap(request)
	}
	if err != nil {
		return failf(CauseInternal, "the request cannot be made: %v", err).result("")
	}
	conn, f := p.dial(ctx)
	if f != nil {
		return f.result("")
	}
	defer conn.Close()
	defer bind(ctx, conn)()
	if _, err := conn.Write(request); err != nil {
		return netFailure(ctx, err, "connected, but could not send within "+p.limitText()).result("")
	}
	return p.await(ctx, conn)
}

// await reads until the response has come, or cannot come any more.
func (p *isoProbe) await(ctx context.Context, conn net.Conn) Result {
	in := isoReader{isoProbe: p, buf: make([]byte, isoFrameLimit+p.framing.size())}
	for {
		n, err := conn.Read(in.buf[in.n:])
		in.n += n
		if res, done := in.judge(); done {
			return res
		}
		if err != nil {
			return in.cutShort(ctx, err).result("")
		}
		if in.n == len(in.buf) {
			return failf(CauseAnswer, "the first %d bytes of the answer are not a response", in.n).result("")
		}
	}
}

// isoReader is what has come of a target in one probe.
type isoReader struct {
	*isoProbe
	buf     []byte
	n       int
	foreign int   // messages passed over
	trouble error // why what has come is no message yet, where it has no length
}

// judge looks at the messages that have come. It is done with the response or
// with something else that the target should not say; its own requests are
// passed over.
func (r *isoReader) judge() (res Result, done bool) {
	for r.n > 0 {
		message, used, f := r.framing.unwrap(r.buf[:r.n])
		switch {
		case f != nil:
			return f.result(""), true
		case used == 0:
			return Result{}, false
		}
		answer, err := r.unpack(message)
		switch {
		case err != nil && r.framing.length == "none":
			r.trouble = err // more may come
			return Result{}, false
		case err != nil:
			return failf(CauseAnswer, "the answer is not ISO 8583 as configured: %v", err).result(""), true
		case answer.mti == r.response:
			return r.conclude(answer), true
		case r.foreign == isoMaxForeign || responseType(answer.mti) == "":
			return failf(CauseAnswer, "answered with message type %s, wanted %s", quoted([]byte(answer.mti), quoteLimit), r.response).result(""), true
		}
		r.foreign++
		r.n = copy(r.buf, r.buf[used:r.n])
	}
	return Result{}, false
}

// conclude says what a response means.
func (p *isoProbe) conclude(a isoAnswer) Result {
	switch {
	case a.stan == "":
		return failf(CauseAnswer, "the response has no STAN (field 11)").result("")
	case a.stan != stanText(p.stan):
		return failf(CauseAnswer, "the response has STAN %s, the request had %s", quoted([]byte(a.stan), quoteLimit), stanText(p.stan)).result("")
	case a.code == "":
		return failf(CauseAnswer, "the response has no response code (field 39)").result("")
	case !slices.Contains(p.want, a.code):
		return failf(CauseAnswer, "response code %s%s, wanted %s", printable(a.code), responseMeaning(a.code), wantedText(p.want)).result("")
	}
	return Result{OK: true, Detail: fmt.Sprintf("%s with response code %s", p.response, printable(a.code))}
}

// cutShort explains why no response came.
func (r *isoReader) cutShort(ctx context.Context, err error) *failure {
	rest := fmt.Sprintf("connected, but no %s within %s", r.response, r.limitText())
	if r.foreign > 0 {
		rest += fmt.Sprintf("; %d other messages came", r.foreign)
	}
	f := netFailure(ctx, err, rest)
	switch closed := errors.Is(err, io.EOF); {
	case r.trouble != nil && (closed || f.cause == CauseTimeout):
		return failf(CauseAnswer, "the answer of %d bytes is not ISO 8583 as configured: %v", r.n, r.trouble)
	case closed && r.n > 0:
		return failf(CauseAnswer, "the target closed the connection after %d bytes of an answer", r.n)
	case closed:
		return &failure{CauseAnswer, "the target closed the connection without an answer"}
	case f.cause == CauseTimeout && r.n > 0:
		return failf(CauseAnswer, "only %d bytes of an answer within %s", r.n, r.limitText())
	}
	return f
}

// isoAnswer is what a message says, as far as it counts; what it lacks is
// empty.
type isoAnswer struct {
	mti, stan, code string
}

// unpack reads a message. What cannot be read beyond the response code is of
// no interest: there are the fields that every switch has in its own form. The
// library is given bounded bytes, and a panic in it is an error.
func (p *isoProbe) unpack(message []byte) (a isoAnswer, err error) {
	defer func() {
		if r := recover(); r != nil {
			a, err = isoAnswer{}, fmt.Errorf("the library failed: %v", r)
		}
	}()
	m := iso8583.NewMessage(p.spec)
	if err := m.Unpack(message); err != nil {
		var where *isoerrors.UnpackError
		if !errors.As(err, &where) {
			return isoAnswer{}, err
		}
		if id, convErr := strconv.Atoi(where.FieldID); convErr != nil || id <= isoResponse {
			return isoAnswer{}, where.Err
		}
	}
	if a.mti, err = m.GetMTI(); err != nil {
		return isoAnswer{}, err
	}
	for id, text := range map[int]*string{isoSTAN: &a.stan, isoResponse: &a.code} {
		if !m.Bitmap().IsSet(id) {
			continue
		}
		if *text, err = m.GetString(id); err != nil {
			return isoAnswer{}, err
		}
	}
	return a, nil
}

// responseMeaning is the standard's meaning of the response codes that a switch
// gives to network management.
func responseMeaning(code string) string {
	switch code {
	case "12":
		return " (invalid transaction)"
	case "30":
		return " (format error)"
	case "58":
		return " (not permitted to the terminal)"
	case "90":
		return " (cutoff in process)"
	case "91":
		return " (issuer or switch inoperative)"
	case "94":
		return " (duplicate transmission)"
	case "96":
		return " (system malfunction)"
	}
	return ""
}
