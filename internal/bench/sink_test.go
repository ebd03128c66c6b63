//go:build bench

package bench

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// sink is a BGP neighbour that only listens: it opens the session, keeps it
// alive, and notes when each UPDATE came off the socket. What it reads is IPv4
// unicast without add-path (RFC 4271).
type sink struct {
	l net.Listener

	mu     sync.Mutex
	up     time.Time
	routes map[netip.Prefix]bool
	news   []news
	grown  chan struct{}
}

// news is one prefix announced or withdrawn, and when.
type news struct {
	prefix    netip.Prefix
	announced bool
	at        time.Time
}

const (
	msgOpen      = 1
	msgUpdate    = 2
	msgKeepalive = 4
	headerLen    = 19
)

func newSink(addr string, asn uint16) (*sink, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &sink{l: l, routes: map[netip.Prefix]bool{}, grown: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.session(c, asn)
		}
	}()
	return s, nil
}

func message(kind byte, body []byte) []byte {
	m := make([]byte, headerLen, headerLen+len(body))
	for i := range 16 {
		m[i] = 0xff
	}
	binary.BigEndian.PutUint16(m[16:], uint16(headerLen+len(body)))
	m[18] = kind
	return append(m, body...)
}

func openMessage(asn uint16) []byte {
	caps := []byte{1, 4, 0, 1, 0, 1, 65, 4, 0, 0, byte(asn >> 8), byte(asn)} // IPv4 unicast, four-octet ASN
	body := []byte{4, byte(asn >> 8), byte(asn), 0, 90, 10, 9, 9, 9, byte(len(caps) + 2), 2, byte(len(caps))}
	return message(msgOpen, append(body, caps...))
}

func (s *sink) session(c net.Conn, asn uint16) {
	defer c.Close()
	_, err := c.Write(openMessage(asn))
	for err == nil {
		var kind byte
		var body []byte
		if kind, body, err = read(c); err != nil {
			return
		}
		at := time.Now()
		switch kind {
		case msgOpen:
			_, err = c.Write(message(msgKeepalive, nil))
		case msgKeepalive:
			s.mu.Lock()
			if s.up.IsZero() {
				s.up = at
			}
			s.mu.Unlock()
			_, err = c.Write(message(msgKeepalive, nil))
		case msgUpdate:
			err = s.update(body, at)
		}
	}
}

func read(r io.Reader) (byte, []byte, error) {
	var h [headerLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint16(h[16:]))
	if n < headerLen {
		return 0, nil, fmt.Errorf("message of %d bytes", n)
	}
	body := make([]byte, n-headerLen)
	_, err := io.ReadFull(r, body)
	return h[18], body, err
}

func (s *sink) update(b []byte, at time.Time) error {
	if len(b) < 2 {
		return io.ErrUnexpectedEOF
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 4+n {
		return io.ErrUnexpectedEOF
	}
	gone, b := b[2:2+n], b[2+n:]
	n = int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return io.ErrUnexpectedEOF
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(gone, false, at)
	s.note(b[2+n:], true, at)
	close(s.grown)
	s.grown = make(chan struct{})
	return nil
}

func (s *sink) note(b []byte, announced bool, at time.Time) {
	for len(b) > 0 {
		bits := int(b[0])
		n := (bits + 7) / 8
		var a [4]byte
		copy(a[:], b[1:1+n])
		p := netip.PrefixFrom(netip.AddrFrom4(a), bits)
		b = b[1+n:]
		s.routes[p] = announced
		s.news = append(s.news, news{p, announced, at})
	}
}

// wait returns when n prefixes are announced, or an error after limit.
func (s *sink) wait(n int, limit time.Duration) (time.Time, error) {
	stop := time.After(limit)
	for {
		s.mu.Lock()
		have, grown := 0, s.grown
		for _, ok := range s.routes {
			if ok {
				have++
			}
		}
		at := time.Time{}
		if len(s.news) > 0 {
			at = s.news[len(s.news)-1].at
		}
		s.mu.Unlock()
		if have == n {
			return at, nil
		}
		select {
		case <-grown:
		case <-stop:
			return at, fmt.Errorf("%d routes after %s, want %d", have, limit, n)
		}
	}
}

// since returns what came after the first n pieces of news.
func (s *sink) since(n int) []news {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]news(nil), s.news[n:]...)
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.news)
}
