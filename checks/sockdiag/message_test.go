package sockdiag

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// message makes what the kernel sends for one socket.
func message(remote netip.AddrPort, state byte, cookie uint64, fill func(info []byte)) []byte {
	b := make([]byte, messageSize+unix.SizeofRtAttr+infoSize)
	b[0], b[1], b[2] = family(remote.Addr()), state, timerRetransmit
	binary.NativeEndian.PutUint32(b[52:], 700)
	binary.BigEndian.PutUint16(b[6:], remote.Port())
	copy(b[24:40], remote.Addr().AsSlice())
	binary.NativeEndian.PutUint64(b[44:], cookie)
	binary.NativeEndian.PutUint16(b[messageSize:], unix.SizeofRtAttr+infoSize)
	binary.NativeEndian.PutUint16(b[messageSize+2:], attrInfo)
	if fill != nil {
		fill(b[messageSize+unix.SizeofRtAttr:])
	}
	return b
}

func TestParse(t *testing.T) {
	for _, text := range []string{"10.9.1.1:9100", "[fd00::1]:9100"} {
		remote := netip.MustParseAddrPort(text)
		got, err := parse(message(remote, stateEstablished, 1<<40+7, func(info []byte) {
			for at, v := range map[int]uint32{8: 1_000_000, 68: 1500, 100: 3, 140: 9, 156: 12} {
				binary.NativeEndian.PutUint32(info[at:], v)
			}
			for at, v := range map[int]uint64{120: 102, 128: 400, 200: 130, 208: 30} {
				binary.NativeEndian.PutUint64(info[at:], v)
			}
		}))
		want := Socket{
			Cookie: 1<<40 + 7, Remote: remote, State: stateEstablished, Waits: 300 * time.Millisecond, RTT: 1500 * time.Microsecond,
			Retransmits: 3, SegsIn: 9, DataOut: 12, Acked: 102, Sent: 100, Received: 400,
		}
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, d)
		}
	}
}

// A kernel that says less than is needed is told from a message that is broken.
func TestParseRefuses(t *testing.T) {
	whole := message(netip.MustParseAddrPort("10.9.1.1:9100"), stateEstablished, 1, nil)
	for n := range len(whole) {
		if _, err := parse(whole[:n]); err == nil {
			t.Fatalf("%d bytes of %d were taken", n, len(whole))
		}
	}
	old := append([]byte(nil), whole[:len(whole)-8]...)
	binary.NativeEndian.PutUint16(old[messageSize:], unix.SizeofRtAttr+infoSize-8)
	if _, err := parse(old); err == nil || errors.Is(err, errShort) {
		t.Errorf("an old kernel's message: %v", err)
	}
}

func TestOutcomeOf(t *testing.T) {
	tests := []struct {
		name string
		s    Socket
		want outcome
	}{
		{"nothing came", Socket{}, outcomeUnanswered},
		{"reset of the SYN", Socket{SegsIn: 1}, outcomeRefused},
		{"answered", Socket{Acked: 12, Sent: 10, SegsIn: 5, Received: 100}, outcomeGood},
		{"answered, then reset", Socket{Acked: 11, Sent: 10, SegsIn: 5, Received: 100}, outcomeGood},
		{"one-way, ended in order", Socket{Acked: 12, Sent: 10, SegsIn: 4}, outcomeGood},
		{"closed without a word", Socket{Acked: 2, SegsIn: 3}, outcomeGood},
		{"reset after the request", Socket{Acked: 11, Sent: 10, SegsIn: 3}, outcomeReset},
		{"reset with the request under way", Socket{Acked: 1, Sent: 10, SegsIn: 2}, outcomeReset},
		{"reset at once", Socket{Acked: 1, SegsIn: 2}, outcomeReset},
		{"aborted here", Socket{Acked: 1, SegsIn: 1}, outcomeNone},
	}
	for _, tt := range tests {
		if got := outcomeOf(&tt.s); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A connection is counted once, whatever is seen of it and however often; and
// those of before are not judged.
func TestWatcherCounts(t *testing.T) {
	now := time.Now()
	w := &Watcher{known: map[uint64]known{}}
	w.see(Socket{Cookie: 1, State: stateEstablished, Received: 50, DataOut: 100, Retransmits: 9}, now) // there already
	w.begun, w.totals = true, Totals{}
	w.see(Socket{Cookie: 1, State: stateEstablished, Received: 60, DataOut: 110, Retransmits: 10}, now)
	w.see(Socket{Cookie: 2, State: stateSynSent}, now)
	w.see(Socket{Cookie: 2, State: stateSynSent, Timeouts: 1, Retransmits: 1}, now)
	w.see(Socket{Cookie: 2, State: stateSynSent, Timeouts: 2, Retransmits: 2}, now)
	w.see(Socket{Cookie: 3, State: stateEstablished}, now)
	w.see(Socket{Cookie: 3, State: stateEstablished, Received: 1, DataOut: 1}, now)
	w.end(Socket{Cookie: 3, Acked: 2, Sent: 1, SegsIn: 3, Received: 1, DataOut: 2})
	w.end(Socket{Cookie: 2, Retransmits: 3})
	w.end(Socket{Cookie: 1, Acked: 200, Received: 70, DataOut: 111, Retransmits: 10})
	w.end(Socket{Cookie: 4, SegsIn: 1})
	w.see(Socket{Cookie: 5, State: stateSynSent, Waits: synPatience - 1}, now)
	w.see(Socket{Cookie: 6, State: stateSynSent, Waits: synPatience}, now)
	w.see(Socket{Cookie: 5, State: stateEstablished, Received: 1}, now)
	w.end(Socket{Cookie: 5, Acked: 2, SegsIn: 1, Received: 1})
	w.end(Socket{Cookie: 6})
	want := Totals{Good: 2, Unanswered: 2, Refused: 1, Segments: 13, Retransmits: 4}
	if w.totals != want || len(w.known) != 0 {
		t.Errorf("%+v, %d known; want %+v", w.totals, len(w.known), want)
	}
	w.see(Socket{Cookie: 5, State: stateEstablished}, now)
	w.sweep(now.Add(forgetAfter + 1))
	if len(w.known) != 0 {
		t.Error("a connection that was in no dump for long is remembered")
	}
	for c := range uint64(maxKnown + 10) {
		w.see(Socket{Cookie: c, State: stateEstablished}, now)
	}
	if len(w.known) != maxKnown {
		t.Errorf("%d connections are remembered", len(w.known))
	}
}

func FuzzMessages(f *testing.F) {
	for _, text := range []string{"10.9.1.1:9100", "[fd00::1]:9100"} {
		body := message(netip.MustParseAddrPort(text), stateSynSent, 7, nil)
		head := make([]byte, unix.SizeofNlMsghdr)
		binary.NativeEndian.PutUint32(head, uint32(len(head)+len(body)))
		binary.NativeEndian.PutUint16(head[4:], sockDiagByFamily)
		f.Add(append(head, body...))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &Watcher{known: map[uint64]known{}, begun: true}
		err := eachMessage(b, func(typ uint16, body []byte) error {
			if typ == unix.NLMSG_ERROR {
				return kernelError(body)
			}
			s, err := parse(body)
			if err != nil {
				return err
			}
			w.see(s, time.Unix(1, 0))
			w.end(s)
			return nil
		})
		if err == nil && w.totals.Judged() > uint64(len(b)/messageSize) {
			t.Errorf("%+v of %d bytes", w.totals, len(b))
		}
	})
}
