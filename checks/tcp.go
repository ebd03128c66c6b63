package checks

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

const (
	tcpAnswerLimit = 64 << 10 // bytes of an answer that are looked at
	tcpFirstBuffer = 512      // enough for a banner or a status line
	quoteLimit     = 60       // bytes of an answer shown in a sentence
)

// Problems implements Options.
func (o *TCPOptions) Problems() []Problem {
	var ps []Problem
	add := func(key, format string, args ...any) {
		ps = append(ps, Problem{Key: key, Msg: fmt.Sprintf(format, args...)})
	}
	if o.Send != "" && o.SendHex != "" {
		add("send_hex", "cannot stand together with send; use one of them")
	}
	if o.Expect != "" && o.ExpectHex != "" {
		add("expect_hex", "cannot stand together with expect; use one of them")
	}
	if _, err := unhex(o.SendHex); err != nil {
		add("send_hex", "%v", err)
	}
	want, err := unhex(o.ExpectHex)
	if err != nil {
		add("expect_hex", "%v", err)
	}
	if len(want) > tcpAnswerLimit || len(o.Expect) > tcpAnswerLimit {
		add("expect", "is longer than the %d bytes of an answer that are looked at", tcpAnswerLimit)
	}
	switch o.Match {
	case "", "contains":
	case "prefix":
		if o.Expect == "" && o.ExpectHex == "" {
			add("match", "needs expect or expect_hex")
		}
	default:
		add("match", "%q is neither contains nor prefix", o.Match)
	}
	return ps
}

// unhex reads hexadecimal digits, with blanks wherever they please.
func unhex(s string) ([]byte, error) {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		return nil, errors.New("must be pairs of hexadecimal digits, as in \"30 0a ff\"")
	}
	return b, nil
}

// tcpProbe is a tcp check of one target.
type tcpProbe struct {
	*aim
	send   []byte
	want   []byte
	prefix bool
	buf    []byte // for the answer; probes of one Prober never overlap
}

// Prober implements Options.
func (o *TCPOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("tcp check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("tcp check: %w", err)
	}
	p := o.probeOf(a)
	return timed(p.probe), nil
}

// probeOf makes what tcp and udp have in common.
func (o *TCPOptions) probeOf(a *aim) tcpProbe {
	p := tcpProbe{aim: a, send: []byte(o.Send), want: []byte(o.Expect), prefix: o.Match == "prefix"}
	if o.SendHex != "" {
		p.send, _ = unhex(o.SendHex) // Problems has looked at it
	}
	if o.ExpectHex != "" {
		p.want, _ = unhex(o.ExpectHex)
	}
	return p
}

func (p *tcpProbe) probe(ctx context.Context) Result {
	addr, f := p.resolve(ctx)
	if f != nil {
		return f.result("")
	}
	conn, err := p.connectTCP(ctx, netip.AddrPortFrom(addr, p.port))
	if err != nil {
		return p.dialFailure(ctx, err).result("")
	}
	defer conn.Close()
	if len(p.send) == 0 && len(p.want) == 0 {
		return Result{OK: true, Detail: "connected"}
	}
	defer bind(ctx, conn)()
	if len(p.send) > 0 {
		if _, err := conn.Write(p.send); err != nil {
			return netFailure(ctx, err, "connected, but could not send within "+p.limitText()).result("")
		}
	}
	if len(p.want) == 0 {
		return Result{OK: true, Detail: "connected and sent"}
	}
	return p.await(ctx, conn).result("answered as expected")
}

// await reads until what is wanted has come, or cannot come any more.
func (p *tcpProbe) await(ctx context.Context, conn io.Reader) *failure {
	if p.buf == nil {
		p.buf = make([]byte, max(tcpFirstBuffer, len(p.want)))
	}
	n := 0
	for {
		m, err := conn.Read(p.buf[n:])
		// What came before may end with the beginning of what is wanted.
		from := max(0, n-len(p.want)+1)
		n += m
		if done, f := p.judge(p.buf[:n], from); done {
			return f
		}
		switch {
		case errors.Is(err, io.EOF):
			return p.closedEarly(p.buf[:n])
		case err != nil:
			return p.cutShort(ctx, err, p.buf[:n])
		case n == tcpAnswerLimit:
			return failf(CauseAnswer, "the first %d bytes of the answer do not contain %s", n, quoted(p.want, quoteLimit))
		case n == len(p.buf):
			grown := make([]byte, min(2*len(p.buf), tcpAnswerLimit))
			copy(grown, p.buf)
			p.buf = grown
		}
	}
}

// judge looks at the answer so far, of which the bytes before from have been
// searched. It is done when the answer is right or can no longer become so.
func (p *tcpProbe) judge(got []byte, from int) (done bool, f *failure) {
	if !p.prefix {
		return bytes.Contains(got[from:], p.want), nil
	}
	if k := min(len(got), len(p.want)); !bytes.Equal(got[:k], p.want[:k]) {
		return true, failf(CauseAnswer, "answered %s, wanted %s at the start",
			quoted(got, quoteLimit), quoted(p.want, quoteLimit))
	}
	return len(got) >= len(p.want), nil
}

// closedEarly explains an answer that ended without what is wanted.
func (p *tcpProbe) closedEarly(got []byte) *failure {
	if len(got) == 0 {
		return &failure{CauseAnswer, "the target closed the connection without an answer"}
	}
	return failf(CauseAnswer, "answered %s and closed the connection, wanted %s",
		quoted(got, quoteLimit), quoted(p.want, quoteLimit))
}

// cutShort explains an answer that broke off.
func (p *tcpProbe) cutShort(ctx context.Context, err error, got []byte) *failure {
	f := netFailure(ctx, err, "connected, but no answer within "+p.limitText())
	if f.cause == CauseTimeout && len(got) > 0 {
		return failf(CauseAnswer, "answered %s and nothing more within %s, wanted %s",
			quoted(got, quoteLimit), p.limitText(), quoted(p.want, quoteLimit))
	}
	return f
}
