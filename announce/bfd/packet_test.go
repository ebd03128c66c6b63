package bfd

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// up is a packet of an established session.
func upPacket() packet {
	return packet{state: Up, mult: 3, my: 0x01020304, your: 0x0a0b0c0d, minTx: 100 * time.Millisecond, minRx: 50 * time.Millisecond}
}

func TestPacketOnTheWire(t *testing.T) {
	p := upPacket()
	p.poll, p.diag = true, DiagNeighbour
	// version 1, diag 3 | up, poll | mult 3 | length 24 | my | your | 100000 µs | 50000 µs | no echo
	want := "23e00318" + "01020304" + "0a0b0c0d" + "000186a0" + "0000c350" + "00000000"
	if got := hex.EncodeToString(p.append(nil)); got != want {
		t.Errorf("packet %s\nwant   %s", got, want)
	}
	got, raw, err := parse(append(p.append(nil), "trailing"...))
	if err != nil || len(raw) != headerLen {
		t.Fatalf("parse: %v, %d bytes", err, len(raw))
	}
	if d := cmp.Diff(p, got, cmp.AllowUnexported(packet{})); d != "" {
		t.Errorf("read back differently:\n%s", d)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(b []byte) []byte
		want string
	}{
		{"short", func(b []byte) []byte { return b[:23] }, "23 bytes"},
		{"version 0", func(b []byte) []byte { b[0] &= 31; return b }, "version 0"},
		{"length below the header", func(b []byte) []byte { b[3] = 23; return b }, "length field 23"},
		{"length beyond the datagram", func(b []byte) []byte { b[3] = 25; return b }, "length field 25 of 24"},
		{"authentication without room", func(b []byte) []byte { b[1] |= flagAuth; return b }, "length field 24"},
		{"multiplier 0", func(b []byte) []byte { b[2] = 0; return b }, "multiplier 0"},
		{"multipoint", func(b []byte) []byte { b[1] |= flagMulti; return b }, "multipoint"},
		{"poll and final", func(b []byte) []byte { b[1] |= flagPoll | flagFinal; return b }, "poll and final"},
		{"my discriminator 0", func(b []byte) []byte { clear(b[4:8]); return b }, "my discriminator"},
		{"your discriminator 0 when up", func(b []byte) []byte { clear(b[8:12]); return b }, "your discriminator 0 in state up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := parse(c.edit(upPacket().append(nil)))
			if !errors.Is(err, errMalformed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestAuthentication(t *testing.T) {
	right := Auth{Type: MeticulousKeyedSHA1, KeyID: 7, Key: "a secret"}
	signed := func() []byte { return right.sign(upPacket().append(nil), 42) }
	for _, c := range []struct {
		name string
		with Auth
		edit func(b []byte)
		ok   bool
	}{
		{"the same", right, func([]byte) {}, true},
		{"another key", Auth{right.Type, 7, "a secreT"}, func([]byte) {}, false},
		{"another key id", Auth{right.Type, 8, "a secret"}, func([]byte) {}, false},
		{"another type", Auth{KeyedSHA1, 7, "a secret"}, func([]byte) {}, false},
		{"state changed", right, func(b []byte) { b[1] ^= 0x40 }, false},
		{"sequence number changed", right, func(b []byte) { b[31]++ }, false},
		{"section length", right, func(b []byte) { b[25] = 27 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := signed()
			c.edit(b)
			seq, err := c.with.verify(b)
			if c.ok != (err == nil) || c.ok && seq != 42 {
				t.Errorf("sequence %d, error %v", seq, err)
			}
		})
	}
	if _, err := right.verify(upPacket().append(nil)); err == nil {
		t.Error("a packet without a section was taken")
	}
}

func TestSequenceWindow(t *testing.T) {
	for _, c := range []struct {
		name      string
		typ       AuthType
		last, seq uint32
		want      bool
	}{
		{"next", MeticulousKeyedSHA1, 5, 6, true},
		{"again", MeticulousKeyedSHA1, 5, 5, false},
		{"again, not meticulous", KeyedSHA1, 5, 5, true},
		{"last of the window", MeticulousKeyedSHA1, 5, 14, true},
		{"beyond it", MeticulousKeyedSHA1, 5, 15, false},
		{"before", KeyedSHA1, 5, 4, false},
		{"around zero", MeticulousKeyedSHA1, 0xffffffff, 0, true},
	} {
		if got := (Auth{Type: c.typ}).inWindow(c.last, c.seq, 3); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(upPacket().append(nil))
	f.Add(Auth{Type: KeyedSHA1, KeyID: 1, Key: "k"}.sign(upPacket().append(nil), 9))
	f.Add(packet{state: Down, mult: 1, my: 1}.append(nil))
	f.Add([]byte{0x20, 0xc4, 3, 26})
	auth := Auth{Type: KeyedSHA1, KeyID: 1, Key: "k"}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, raw, err := parse(b)
		if err != nil {
			return
		}
		if p.my == 0 || p.mult == 0 || len(raw) < headerLen || len(raw) > len(b) {
			t.Fatalf("accepted %+v from %x", p, b)
		}
		if _, err := auth.verify(raw); err == nil && !p.auth {
			t.Fatalf("verified without authentication: %x", b)
		}
		p.auth = false // append writes none
		again, _, err := parse(p.append(nil))
		if err != nil || again != p {
			t.Fatalf("wrote %+v, read %+v, %v", p, again, err)
		}
	})
}
