package checks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
)

const (
	udpAnswerLimit = 8 << 10 // bytes of an answer that are looked at; a check keeps as many
	maxDatagram    = 65507   // bytes that one datagram carries over IPv4 (65535 - 20 - 8)
)

// UDPOptions are the settings of a udp check.
type UDPOptions struct {
	Send      string `yaml:"send" doc:"text of the datagram to send; this or send_hex is required"`
	SendHex   string `yaml:"send_hex" doc:"the same as hexadecimal digits, blanks allowed; instead of send"`
	Expect    string `yaml:"expect" doc:"text that must be within the first 8 KiB of the datagram that comes back; without it, any answer will do"`
	ExpectHex string `yaml:"expect_hex" doc:"the same as hexadecimal digits, blanks allowed; instead of expect"`
	Match     string `yaml:"match" default:"contains" enum:"contains,prefix" doc:"where the expected bytes must stand in the answer: anywhere, or at its start"`
	Silence   string `yaml:"silence" default:"fail" enum:"fail,ok" doc:"what it means that nothing comes back; ok is for servers that never answer, and then only a port reported as closed within half of the timeout is a failure"`
}

// NeedsTarget implements Options.
func (*UDPOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *UDPOptions) Problems() []Problem {
	var ps []Problem
	add := func(key, msg string) { ps = append(ps, Problem{key, msg}) }
	if o.Send == "" && o.SendHex == "" {
		add("send", "is missing: a udp check sends something; use send or send_hex")
	}
	if len(o.Send) > maxDatagram {
		add("send", fmt.Sprintf("is longer than the %d bytes of a datagram", maxDatagram))
	}
	switch o.Silence {
	case "", "fail":
	case "ok":
		if o.Expect != "" || o.ExpectHex != "" {
			add("silence", "cannot be ok when an answer is expected")
		}
	default:
		add("silence", fmt.Sprintf("%q is neither fail nor ok", o.Silence))
	}
	if want, _ := unhex(o.ExpectHex); max(len(want), len(o.Expect)) > udpAnswerLimit {
		add("expect", fmt.Sprintf("is longer than the %d bytes of an answer that are looked at", udpAnswerLimit))
		return ps
	}
	return append(ps, o.exchange().Problems()...)
}

// exchange returns the settings that tcp has, too.
func (o *UDPOptions) exchange() *TCPOptions {
	return &TCPOptions{Send: o.Send, SendHex: o.SendHex, Expect: o.Expect, ExpectHex: o.ExpectHex, Match: o.Match}
}

// udpProbe is a udp check of one target.
type udpProbe struct {
	tcpProbe // for what is sent and how an answer is judged
	silentOK bool
}

// Prober implements Options.
func (o *UDPOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("udp check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("udp check: %w", err)
	}
	p := &udpProbe{tcpProbe: o.exchange().probeOf(a), silentOK: o.Silence == "ok"}
	if len(p.send) > maxDatagram {
		return nil, fmt.Errorf("udp check: send_hex is longer than the %d bytes of a datagram", maxDatagram)
	}
	return timed(p.probe), nil
}

func (p *udpProbe) probe(ctx context.Context) Result {
	addr, f := p.resolve(ctx)
	if f != nil {
		return f.result("")
	}
	conn, f := p.dialUDP(ctx, netip.AddrPortFrom(addr, p.port))
	if f != nil {
		return f.result("")
	}
	defer conn.Close()
	defer bind(ctx, conn)()
	if _, err := conn.Write(p.send); err != nil {
		return p.udpFailure(ctx, err).result("")
	}
	if p.silentOK {
		if d, ok := ctx.Deadline(); ok {
			_ = conn.SetReadDeadline(time.Now().Add(time.Until(d) / 2)) // it can be set, as bind did
		}
	}
	if p.buf == nil {
		p.buf = make([]byte, udpAnswerLimit)
	}
	n, err := conn.Read(p.buf)
	if err != nil {
		f := p.udpFailure(ctx, err)
		if p.silentOK && f.cause == CauseTimeout && ctx.Err() == nil {
			return Result{OK: true, Detail: "sent, and nothing came back to say that the port is closed"}
		}
		return f.result("")
	}
	return p.judgeDatagram(p.buf[:n]).result("answered as expected")
}

// judgeDatagram looks at the one answer that counts: on a fresh port nothing
// comes in that an earlier probe asked for.
func (p *udpProbe) judgeDatagram(got []byte) *failure {
	if len(p.want) == 0 {
		return nil
	}
	done, f := p.judge(got, 0)
	if done {
		return f
	}
	return failf(CauseAnswer, "answered %s, wanted %s", quoted(got, quoteLimit), quoted(p.want, quoteLimit))
}

// udpFailure explains why a datagram was not answered.
func (a *aim) udpFailure(ctx context.Context, err error) *failure {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return &failure{CauseRefused, "port closed: the target says that nothing listens there (ICMP port unreachable)"}
	}
	return netFailure(ctx, err, "no answer within "+a.limitText())
}
