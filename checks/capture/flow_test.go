package capture

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	serverAddr = netip.MustParseAddrPort("10.9.1.1:80")
	clientAddr = netip.MustParseAddrPort("10.9.0.1:40000")
)

// step is a segment of the client (up) or the server at a time.
type step struct {
	at     time.Duration
	up     bool
	flags  byte
	seq    uint32
	data   string
	window uint16 // one more than in the segment; 0 is an open window
}

func play(http bool, steps []step) Totals {
	tr := newTracker(serverAddr, http)
	start := time.Unix(1000, 0)
	for _, s := range steps {
		if s.flags == 0 && s.seq == 0 { // only time passes
			tr.expire(start.Add(s.at))
			continue
		}
		seg := segment{src: serverAddr, dst: clientAddr, seq: s.seq, flags: s.flags, length: uint32(len(s.data)), data: []byte(s.data), window: s.window}
		if s.up {
			seg.src, seg.dst = clientAddr, serverAddr
		}
		if seg.window == 0 {
			seg.window = 1000
		} else {
			seg.window--
		}
		tr.packet(&seg, start.Add(s.at))
	}
	tr.totals.Packets = 0
	return tr.totals
}

const ms = time.Millisecond

// The three segments that open a connection.
var opening = []step{{0, true, flagSYN, 99, "", 0}, {1 * ms, false, flagSYN | flagACK, 499, "", 0}, {2 * ms, true, flagACK, 100, "", 0}}

func after(steps ...step) []step { return append(append([]step(nil), opening...), steps...) }

func TestTracker(t *testing.T) {
	const get, ok, bad = "GET / HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 503 Unavailable\r\n"
	hs := Delay{1, 1 * ms}
	tests := []struct {
		name  string
		http  bool
		steps []step
		want  Totals
	}{
		{"answered", false, after(step{3 * ms, true, flagACK, 100, "hello", 0}, step{5 * ms, false, flagACK, 500, "hi", 0}),
			Totals{Good: 1, Handshake: hs, Segments: 2, Answers: 1}},
		{"SYN again", false, []step{{0, true, flagSYN, 99, "", 0}, {1000 * ms, true, flagSYN, 99, "", 0}, {3000 * ms, true, flagSYN, 99, "", 0}},
			Totals{Unanswered: 1, Retransmits: 2}},
		{"SYN given up", false, []step{{0, true, flagSYN, 99, "", 0}, {at: 999 * ms}, {at: 1000 * ms}, {at: 1500 * ms}},
			Totals{Unanswered: 1}},
		{"refused", false, []step{{0, true, flagSYN, 99, "", 0}, {1 * ms, false, flagRST | flagACK, 1, "", 0}, {at: 2000 * ms}},
			Totals{Refused: 1}},
		{"reset at once", false, after(step{3 * ms, false, flagRST, 500, "", 0}),
			Totals{Reset: 1, Handshake: hs}},
		{"reset after the request", false, after(step{3 * ms, true, flagACK, 100, "hello", 0}, step{5 * ms, false, flagRST, 500, "", 0}),
			Totals{Reset: 1, Handshake: hs, Segments: 1}},
		{"request after the reset", true, after(step{3 * ms, false, flagRST, 500, "", 0}, step{4 * ms, true, flagACK, 100, get, 0}, step{5 * ms, false, flagRST, 500, "", 0}, step{at: 2000 * ms}),
			Totals{Reset: 1, Handshake: hs}},
		{"reset after the answer", false, after(step{3 * ms, true, flagACK, 100, "a", 0}, step{4 * ms, false, flagACK, 500, "b", 0}, step{5 * ms, false, flagRST, 501, "", 0}),
			Totals{Good: 1, Handshake: hs, Segments: 2, Answers: 1}},
		{"aborted by the client", false, after(step{3 * ms, true, flagRST, 100, "", 0}, step{at: 2000 * ms}),
			Totals{Handshake: hs}},
		{"ended in order without a word", false, after(step{3 * ms, false, flagFIN | flagACK, 500, "", 0}, step{4 * ms, true, flagFIN | flagACK, 100, "", 0}, step{5 * ms, false, flagACK, 501, "", 0}),
			Totals{Good: 1, Handshake: hs, Answers: 2}},
		{"sent again", false, after(step{3 * ms, true, flagACK, 100, "hello", 0}, step{203 * ms, true, flagACK, 100, "hello", 0}, step{204 * ms, false, flagACK, 500, "hi", 0}),
			Totals{Good: 1, Handshake: hs, Segments: 3, Retransmits: 1, Answers: 1}},
		{"gap filled late", false, after(step{3 * ms, false, flagACK, 505, "world", 0}, step{30 * ms, false, flagACK, 500, "hello", 0}),
			Totals{Good: 1, Handshake: hs, Segments: 2, Answers: 2, Retransmits: 1}},
		{"reordered", false, after(step{3 * ms, false, flagACK, 500, "a", 0}, step{4 * ms, false, flagACK, 502, "c", 0}, step{5 * ms, false, flagACK, 501, "b", 0}),
			Totals{Good: 1, Handshake: hs, Segments: 3, Answers: 3}},
		{"keepalive probe", false, after(step{3 * ms, true, flagACK, 100, "hello", 0}, step{9000 * ms, true, flagACK, 104, "o", 0}),
			Totals{Handshake: hs, Segments: 1}},
		{"closed window", false, after(step{3 * ms, false, flagACK, 500, "", 1}, step{4 * ms, false, flagACK, 500, "", 0}),
			Totals{Handshake: hs, Answers: 2, ZeroWindows: 1}},
		{"sequence numbers wrap", false, []step{{0, true, flagSYN, 1<<32 - 3, "", 0}, {1 * ms, false, flagSYN | flagACK, 499, "", 0},
			{2 * ms, true, flagACK, 1<<32 - 2, "hello", 0}, {3 * ms, true, flagACK, 3, "again", 0}},
			Totals{Handshake: hs, Segments: 2}},
		{"HTTP, two on one connection", true, after(step{3 * ms, true, flagACK, 100, get, 0}, step{13 * ms, false, flagACK, 500, ok, 0}, step{14 * ms, false, flagACK, 517, "body", 0},
			step{20 * ms, true, flagACK, 116, get, 0}, step{50 * ms, false, flagACK, 521, bad, 0}),
			Totals{Good: 1, Handshake: hs, Segments: 5, Answers: 3, Status: [6]uint64{2: 1, 5: 1}, FirstByte: Delay{2, 40 * ms}}},
		{"HTTP, interim answer first", true, after(step{3 * ms, true, flagACK, 100, get, 0}, step{4 * ms, false, flagACK, 500, "HTTP/1.1 100 Continue\r\n", 0}, step{13 * ms, false, flagACK, 523, ok, 0}),
			Totals{Good: 1, Handshake: hs, Segments: 3, Answers: 2, Status: [6]uint64{2: 1}, FirstByte: Delay{1, 10 * ms}}},
		{"HTTP, ended in the place of an answer", true, after(step{3 * ms, true, flagACK, 100, get, 0}, step{4 * ms, false, flagFIN | flagACK, 500, "", 0}),
			Totals{Good: 1, Handshake: hs, Segments: 1, Answers: 1, NoAnswer: 1}},
		{"HTTP, joined in the middle", true, []step{{0, true, flagACK, 100, get, 0}, {9 * ms, false, flagACK, 500, ok, 0}},
			Totals{Segments: 2, Answers: 1, Status: [6]uint64{2: 1}, FirstByte: Delay{1, 9 * ms}}},
		{"HTTP, reset in the middle", true, []step{{0, true, flagACK, 100, get, 0}, {9 * ms, false, flagRST, 500, "", 0}},
			Totals{Segments: 1, NoAnswer: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, play(tt.http, tt.steps)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// However many clients there are, the memory is bounded, and those that are
// left out are counted. What is silent is forgotten.
func TestTrackerIsBounded(t *testing.T) {
	tr := newTracker(serverAddr, false)
	now := time.Unix(1000, 0)
	for i := range maxFlows + 50 {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 8, byte(i >> 8), byte(i)}), 1000)
		tr.packet(&segment{src: client, dst: serverAddr, flags: flagSYN}, now)
	}
	if len(tr.flows) != maxFlows || tr.totals.Skipped != 50 {
		t.Errorf("%d are followed, %d left out", len(tr.flows), tr.totals.Skipped)
	}
	tr.expire(now.Add(idleSYN))
	if len(tr.flows) != 0 || tr.totals.Unanswered != maxFlows {
		t.Errorf("%d are left, %d unanswered", len(tr.flows), tr.totals.Unanswered)
	}
}

func TestPacer(t *testing.T) {
	now := time.Unix(1000, 0)
	p := pacer{limit: 100, floor: 2, since: now}
	sample := 2
	second := func(packets int) {
		now = now.Add(time.Second)
		p.packets = packets
		sample = p.next(sample, now)
	}
	expect := func(want int) {
		t.Helper()
		if sample != want {
			t.Fatalf("one in %d, want %d", sample, want)
		}
	}
	second(100)
	expect(2)
	for _, want := range []int{4, 8, 16, 32, 64, 128, 256, 512, 1024, 0} {
		second(101)
		expect(want)
	}
	second(0)
	expect(MaxSample) // it rested for a second
	for range calmPeriods {
		second(24)
	}
	expect(512)
	for range calmPeriods * 12 {
		second(0)
	}
	expect(2)
}

// packet4 makes an IPv4 packet with a TCP segment.
func packet4(data string, options int) []byte {
	b := make([]byte, ipv4Header+tcpHeader+options, ipv4Header+tcpHeader+options+len(data))
	b = append(b, data...)
	b[0], b[9] = 0x45, 6
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	copy(b[12:], []byte{10, 9, 0, 1})
	copy(b[16:], []byte{10, 9, 1, 1})
	tcp := b[ipv4Header:]
	binary.BigEndian.PutUint16(tcp, 40000)
	binary.BigEndian.PutUint16(tcp[2:], 80)
	binary.BigEndian.PutUint32(tcp[4:], 7)
	tcp[12], tcp[13] = byte((tcpHeader+options)/4)<<4, flagACK
	binary.BigEndian.PutUint16(tcp[14:], 512)
	return b
}

func packet6(data string) []byte {
	four := packet4(data, 0)
	b := make([]byte, ipv6Header, ipv6Header+len(four))
	b = append(b, four[ipv4Header:]...)
	b[0], b[6] = 0x60, 6
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ipv6Header))
	b[8], b[23], b[24], b[39] = 0xfd, 1, 0xfd, 2
	return b
}

func TestParse(t *testing.T) {
	got, ok := parse(packet4("GET /", 12)[:ipv4Header+tcpHeader+12+3]) // as it was cut
	want := segment{src: clientAddr, dst: serverAddr, seq: 7, flags: flagACK, window: 512, length: 5, data: []byte("GET")}
	same := cmp.Options{cmp.AllowUnexported(segment{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })}
	if d := cmp.Diff(want, got, same); !ok || d != "" {
		t.Errorf("IPv4: %t (-want +got):\n%s", ok, d)
	}
	got, ok = parse(packet6("x"))
	want = segment{src: netip.MustParseAddrPort("[fd00::1]:40000"), dst: netip.MustParseAddrPort("[fd00::2]:80"), seq: 7, flags: flagACK, window: 512, length: 1, data: []byte("x")}
	if d := cmp.Diff(want, got, same); !ok || d != "" {
		t.Errorf("IPv6: %t (-want +got):\n%s", ok, d)
	}
	broken := map[string]func(b []byte){
		"fragment":              func(b []byte) { b[7] = 1 },
		"UDP":                   func(b []byte) { b[9] = 17 },
		"IP version 5":          func(b []byte) { b[0] = 0x55 },
		"IP header too short":   func(b []byte) { b[0] = 0x44 },
		"IP header too long":    func(b []byte) { b[0] = 0x4f },
		"TCP header too short":  func(b []byte) { b[ipv4Header+12] = 0x40 },
		"TCP header beyond end": func(b []byte) { b[ipv4Header+12] = 0xf0 },
	}
	for name, spoil := range broken {
		b := packet4("hello", 0)
		spoil(b)
		if s, ok := parse(b); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestStatusOf(t *testing.T) {
	for text, want := range map[string]int{"HTTP/1.1 200 OK": 200, "HTTP/1.0 503": 503, "HTTP/1.1 20": 0, "HTTP/2.0 200": 0, "HTTP/1.1 2x0 OK": 0, "": 0} {
		if got := statusOf([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]bool{"GET / HTTP/1.1": true, "PROPFIND /x": true, "GET": false, "A /": false, "get / HTTP": false, "HTTP/1.1 200": false, "": false} {
		if got := isRequest([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// FuzzPackets follows whatever comes: 1 byte for the time that passes, 1 for
// the length, then a packet, and so on.
func FuzzPackets(f *testing.F) {
	seed := func(packets ...[]byte) {
		var b []byte
		for _, p := range packets {
			b = append(append(b, 10, byte(len(p))), p...)
		}
		f.Add(b)
	}
	syn := packet4("", 0)
	syn[ipv4Header+13] = flagSYN
	seed(syn, packet4("GET / HTTP/1.1\r\n", 12), packet4("HTTP/1.1 200 OK\r\n", 0))
	seed(packet6("x"), packet6(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr := newTracker(serverAddr, true)
		now := time.Unix(1000, 0)
		packets := uint64(0)
		for len(b) > 2 {
			now = now.Add(time.Duration(b[0]) * 100 * ms)
			n := min(int(b[1]), len(b)-2)
			if s, ok := parse(b[2 : 2+n]); ok {
				packets++
				if s.src != serverAddr {
					s.dst = serverAddr
				}
				tr.packet(&s, now)
			}
			tr.expire(now)
			b = b[2+n:]
		}
		if tr.totals.Judged() > packets || len(tr.flows) > maxFlows {
			t.Errorf("%+v of %d packets", tr.totals, packets)
		}
	})
}
