//go:build integration

package checks

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/moov-io/iso8583"
	"github.com/moov-io/iso8583/encoding"
	"github.com/moov-io/iso8583/field"
	"github.com/moov-io/iso8583/prefix"
)

// isoSwitch is the peer of the tests: there is no switch in Debian, so it is
// made of the library that the probe uses, with the library's own description
// of ISO 8583:1987, or with one in BCD.
type isoSwitch struct {
	spec   *iso8583.MessageSpec
	before int // bytes of a TPDU
	ascii4 bool
	delay  time.Duration
	code   string // of the response
	change func(*iso8583.Message) error
}

// serve answers requests until the probe closes.
func (s isoSwitch) serve(c net.Conn) {
	for {
		if err := s.exchange(c); err != nil {
			return // end of the connection, or a request that it does not understand
		}
	}
}

func (s isoSwitch) exchange(c net.Conn) error {
	frame, err := s.read(c)
	if err != nil {
		return err
	}
	m := iso8583.NewMessage(s.spec)
	if err := m.Unpack(frame[s.before:]); err != nil {
		return err
	}
	if mti, err := m.GetMTI(); err != nil || mti != "0800" {
		return fmt.Errorf("message type %s: %w", mti, err)
	}
	m.MTI("0810")
	if err := m.Field(39, s.code); err != nil {
		return err
	}
	if s.change != nil {
		if err := s.change(m); err != nil {
			return err
		}
	}
	packed, err := m.Pack()
	if err != nil {
		return err
	}
	timer := time.NewTimer(s.delay)
	defer timer.Stop()
	<-timer.C
	return s.write(c, append(frame[:s.before:s.before], packed...))
}

func (s isoSwitch) read(c net.Conn) ([]byte, error) {
	var n int
	if s.ascii4 {
		var head [4]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(string(head[:]), "%04d", &n); err != nil {
			return nil, err
		}
	} else {
		var head [2]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return nil, err
		}
		n = int(binary.BigEndian.Uint16(head[:]))
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(c, frame)
	return frame, err
}

func (s isoSwitch) write(c net.Conn, frame []byte) error {
	head := binary.BigEndian.AppendUint16(nil, uint16(len(frame)))
	if s.ascii4 {
		head = fmt.Appendf(nil, "%04d", len(frame))
	}
	_, err := c.Write(append(head, frame...))
	return err
}

// bcdSpec has the fields of network management in BCD.
func bcdSpec() *iso8583.MessageSpec {
	n := func(length int) field.Field {
		return field.NewString(&field.Spec{Length: length, Enc: encoding.BCD, Pref: prefix.BCD.Fixed})
	}
	an := func(length int) field.Field {
		return field.NewString(&field.Spec{Length: length, Enc: encoding.ASCII, Pref: prefix.ASCII.Fixed})
	}
	return &iso8583.MessageSpec{Fields: map[int]field.Field{
		0: n(4), 1: field.NewBitmap(&field.Spec{Enc: encoding.Binary, Pref: prefix.Binary.Fixed}),
		7: n(10), 11: n(6), 24: n(3), 32: field.NewString(&field.Spec{Length: 11, Enc: encoding.BCD, Pref: prefix.BCD.LL}),
		39: an(2), 41: an(8), 70: n(3),
	}}
}

func TestISO8583Sicknesses(t *testing.T) {
	ascii := isoSwitch{spec: iso8583.Spec87, code: "00"}
	with := func(change func(*isoSwitch)) Target {
		s := ascii
		change(&s)
		return targetOf(serve(t, "127.0.0.1:0", s.serve), probeLimit)
	}
	echo, healthy := &ISO8583Options{}, with(func(*isoSwitch) {})
	bcd := with(func(s *isoSwitch) { s.spec, s.before = bcdSpec(), isoTPDULength })
	ascii4 := with(func(s *isoSwitch) { s.ascii4 = true })
	in300ms := func(to Target) Target { to.Limit = shortLimit; return to }
	showSicknesses(t, "iso8583", []sickness{
		{name: "healthy", opts: echo, to: healthy, ok: true, says: "0810 with response code 00"},
		{name: "healthy, BCD with TPDU", opts: &ISO8583Options{Encoding: "bcd", TPDU: "6000010000", Fields: map[string]string{"24": "001", "32": "12345", "41": "TERM0001"}},
			to: bcd, ok: true, says: "0810 with response code 00"},
		{name: "healthy, ASCII length", opts: &ISO8583Options{Header: "ascii4", Code: "001"}, to: ascii4, ok: true, says: "0810 with response code 00"},
		{name: "refused", opts: echo, to: targetOf(closedPort(t), probeLimit), cause: CauseRefused, says: "connection refused"},
		{name: "black hole", opts: echo, to: targetOf(blackHole(t), shortLimit), cause: CauseTimeout, says: "SYN not answered"},
		{name: "mute", opts: echo, to: targetOf(silent(t), shortLimit), cause: CauseTimeout, says: "connected, but no 0810 within 300ms"},
		{name: "slow", opts: echo, to: in300ms(with(func(s *isoSwitch) { s.delay = 2 * shortLimit })), cause: CauseTimeout, says: "connected, but no 0810 within 300ms"},
		{name: "half-closed", opts: echo, to: targetOf(halfClosed(t), probeLimit), cause: CauseAnswer, says: "closed the connection without an answer"},
		{name: "broken off", opts: echo, to: targetOf(relay(t, netip.AddrPortFrom(netip.MustParseAddr(healthy.Host), healthy.Port), 0, 20), probeLimit), cause: CauseAnswer, says: "closed the connection after 20 bytes"},
		{name: "host behind it is down", opts: echo, to: with(func(s *isoSwitch) { s.code = "91" }), cause: CauseAnswer, says: "response code 91 (issuer or switch inoperative), wanted 00"},
		{name: "answer to another request", opts: echo, to: with(func(s *isoSwitch) {
			s.change = func(m *iso8583.Message) error { return m.Field(11, "000000") }
		}), cause: CauseAnswer, says: "the response has STAN"},
		{name: "another message", opts: echo, to: with(func(s *isoSwitch) {
			s.change = func(m *iso8583.Message) error { m.MTI("0110"); return nil }
		}), cause: CauseAnswer, says: `message type "0110", wanted 0810`},
		{name: "another length", opts: &ISO8583Options{Header: "ascii4"}, to: in300ms(healthy), cause: CauseTimeout, says: "no 0810 within"},
		{name: "another coding", opts: &ISO8583Options{Encoding: "bcd"}, to: healthy, cause: CauseAnswer, says: "closed the connection without an answer"},
		{name: "not ISO 8583", opts: echo, to: targetOf(babbler(t, "SSH-2.0-OpenSSH_9.2\r\n"), probeLimit), cause: CauseAnswer, says: "is its length binary2?"},
	})
}
