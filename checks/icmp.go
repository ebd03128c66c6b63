package checks

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	icmpMaxCount       = 100
	icmpDefaultSpacing = 100 * time.Millisecond
	icmpPayload        = 56 // what ping sends
	icmpNonce          = 8  // bytes of the payload that tell our packets from others'
)

// Problems implements Options.
func (o *ICMPOptions) Problems() []Problem {
	var ps []Problem
	if o.Count < 0 || o.Count > icmpMaxCount {
		ps = append(ps, Problem{"count", fmt.Sprintf("%d is not between 1 and %d", o.Count, icmpMaxCount)})
	}
	if o.Spacing < 0 || o.Spacing > 0 && o.Spacing < time.Millisecond {
		ps = append(ps, Problem{"spacing", fmt.Sprintf("%s is shorter than 1ms", o.Spacing)})
	}
	if o.MaxLoss < 0 || o.MaxLoss > 99 {
		ps = append(ps, Problem{"max_loss", fmt.Sprintf("%d is not a percentage from 0 to 99", o.MaxLoss)})
	}
	if o.MaxRTT < 0 {
		ps = append(ps, Problem{"max_rtt", fmt.Sprintf("%s is negative", o.MaxRTT)})
	}
	return ps
}

// icmpProbe is an icmp check of one target.
type icmpProbe struct {
	*aim
	count   int
	spacing time.Duration
	maxLoss int
	maxRTT  time.Duration
}

// Prober implements Options.
func (o *ICMPOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("icmp check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetHost)
	if err != nil {
		return nil, fmt.Errorf("icmp check: %w", err)
	}
	p := &icmpProbe{aim: a, count: max(o.Count, 1), spacing: o.Spacing, maxLoss: o.MaxLoss, maxRTT: o.MaxRTT}
	if p.spacing == 0 {
		p.spacing = icmpDefaultSpacing
	}
	if last := time.Duration(p.count-1) * p.spacing; t.Limit > 0 && last >= t.Limit {
		return nil, fmt.Errorf("icmp check: %d echo requests every %s take %s, which must be shorter than the timeout %s",
			p.count, p.spacing, last, t.Limit)
	}
	return timed(p.probe), nil
}

// echoes is one probe under way.
type echoes struct {
	conn  net.Conn
	id    uint16
	nonce [icmpNonce]byte
	raw   bool
	v4    bool
	sent  []time.Time
	back  []bool
	n     int           // answers
	total time.Duration // sum of their round trips
}

func (p *icmpProbe) probe(ctx context.Context) Result {
	addr, f := p.resolve(ctx)
	if f != nil {
		return f.result("")
	}
	conn, raw, err := p.openICMP(addr)
	if err != nil {
		return p.openFailure(ctx, err).result("")
	}
	defer conn.Close()
	defer bind(ctx, conn)()
	e := &echoes{conn: conn, raw: raw, v4: addr.Is4(), back: make([]bool, p.count)}
	var seed [icmpNonce + 2]byte
	_, _ = rand.Read(seed[:]) // never fails
	copy(e.nonce[:], seed[2:])
	e.id = binary.BigEndian.Uint16(seed[:])
	if f := p.run(ctx, e); f != nil {
		return f.result("")
	}
	return p.judge(ctx, e)
}

// run sends the echo requests at their times and collects answers until all
// are there or time is up. What the network says meanwhile counts only when
// nothing was answered at all.
func (p *icmpProbe) run(ctx context.Context, e *echoes) (trouble *failure) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return &failure{CauseInternal, "the probe has no time limit"}
	}
	next := time.Now()
	for e.n < p.count {
		if len(e.sent) < p.count && !time.Now().Before(next) {
			next = next.Add(p.spacing)
			if err := e.send(); err != nil {
				trouble = p.icmpFailure(ctx, err)
			}
		}
		until := end
		if len(e.sent) < p.count && next.Before(end) {
			until = next
		}
		err := e.receive(ctx, until)
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded) && until.Equal(end):
			return e.unlessAnswered(trouble)
		case errors.Is(err, os.ErrDeadlineExceeded):
		default:
			trouble = p.icmpFailure(ctx, err)
			if len(e.sent) == p.count {
				return e.unlessAnswered(trouble)
			}
		}
	}
	return nil
}

// unlessAnswered is trouble when it is all that came.
func (e *echoes) unlessAnswered(trouble *failure) *failure {
	if e.n > 0 {
		return nil
	}
	return trouble
}

// judge says what the answers amount to.
func (p *icmpProbe) judge(ctx context.Context, e *echoes) Result {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return (&failure{CauseInternal, "the probe was stopped"}).result("")
	}
	if e.n == 0 {
		return failf(CauseTimeout, "no answer within %s (0 of %d echo requests answered)", p.limitText(), p.count).result("")
	}
	lost := p.count - e.n
	if lost*100 > p.maxLoss*p.count {
		return failf(CauseAnswer, "%d of %d echo requests answered within %s, at most %d%% may be lost",
			e.n, p.count, p.limitText(), p.maxLoss).result("")
	}
	rtt := (e.total / time.Duration(e.n)).Round(10 * time.Microsecond)
	if p.maxRTT > 0 && rtt > p.maxRTT {
		return failf(CauseAnswer, "round trip of %s on average, at most %s allowed", rtt, p.maxRTT).result("")
	}
	return Result{OK: true, Detail: fmt.Sprintf("%d of %d echo requests answered, round trip %s on average", e.n, p.count, rtt)}
}

// send sends the next echo request. It counts as sent even when the kernel
// refuses it: then it is lost.
func (e *echoes) send() error {
	data := make([]byte, icmpPayload)
	copy(data, e.nonce[:])
	m := icmp.Message{
		Type: ipv4.ICMPTypeEcho,
		Body: &icmp.Echo{ID: int(e.id), Seq: len(e.sent), Data: data},
	}
	if !e.v4 {
		m.Type = ipv6.ICMPTypeEchoRequest // the kernel adds the checksum
	}
	b, err := m.Marshal(nil)
	if err != nil {
		return fmt.Errorf("make the echo request: %w", err)
	}
	e.sent = append(e.sent, time.Now())
	_, err = e.conn.Write(b)
	return err
}

// receive waits until a given time for one packet, and counts it when it is
// an answer that was not counted yet.
func (e *echoes) receive(ctx context.Context, until time.Time) error {
	if err := e.conn.SetReadDeadline(until); err != nil {
		return err
	}
	// The end of ctx sets a deadline in the past, and the line above may have
	// overwritten it.
	if err := ctx.Err(); err != nil {
		return err
	}
	var buf [512]byte
	n, err := e.conn.Read(buf[:])
	now := time.Now()
	if err != nil {
		return err
	}
	if seq, ok := e.match(buf[:n]); ok && !e.back[seq] {
		e.back[seq] = true
		e.n++
		e.total += now.Sub(e.sent[seq])
	}
	return nil
}

// match says which of our echo requests a packet answers. The source is right
// already, because the socket is connected. On a datagram socket the kernel
// sets the identifier to one of its own and delivers only what bears it.
func (e *echoes) match(b []byte) (seq int, ok bool) {
	proto, reply := 58, icmp.Type(ipv6.ICMPTypeEchoReply)
	if e.v4 {
		proto, reply = 1, ipv4.ICMPTypeEchoReply
		if e.raw {
			if b, ok = stripIPv4(b); !ok {
				return 0, false
			}
		}
	}
	m, err := icmp.ParseMessage(proto, b)
	if err != nil || m.Type != reply {
		return 0, false
	}
	echo, isEcho := m.Body.(*icmp.Echo)
	if !isEcho || len(echo.Data) < icmpNonce || [icmpNonce]byte(echo.Data) != e.nonce {
		return 0, false
	}
	if e.raw && echo.ID != int(e.id) {
		return 0, false
	}
	return echo.Seq, echo.Seq < len(e.sent)
}

// stripIPv4 takes off the IPv4 header that a raw socket delivers.
func stripIPv4(b []byte) ([]byte, bool) {
	if len(b) < ipv4.HeaderLen || b[0]>>4 != 4 {
		return nil, false
	}
	n := int(b[0]&0x0f) * 4
	if n < ipv4.HeaderLen || n > len(b) {
		return nil, false
	}
	return b[n:], true
}

// icmpFailure explains an error of sending or receiving.
func (p *icmpProbe) icmpFailure(ctx context.Context, err error) *failure {
	f := netFailure(ctx, err, "no answer within "+p.limitText())
	if f.cause == CauseRefused { // how the kernel reports ICMP port or protocol unreachable
		return &failure{CauseNetwork, "the target says it does not speak ICMP echo"}
	}
	return f
}

// openFailure explains why there is no socket to send from. What connect refuses
// is a route that prohibits, and no lack of privilege.
func (p *icmpProbe) openFailure(ctx context.Context, err error) *failure {
	var call *os.SyscallError
	if errors.Is(err, os.ErrPermission) && (!errors.As(err, &call) || call.Syscall != "connect") {
		return &failure{CauseInternal, "this host does not let rhid send ICMP echo requests: " +
			"it needs CAP_NET_RAW, or its group within net.ipv4.ping_group_range"}
	}
	return p.dialFailure(ctx, err)
}
