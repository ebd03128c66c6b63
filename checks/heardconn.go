package checks

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
)

var (
	errTooMuch = errors.New("the target sends too much")
	errForeign = errors.New("the target speaks another protocol")
)

// heardConn is a connection in the hands of a library. It ends after so many
// bytes, and where the first one cannot be right, so that no library waits for
// the rest of what is none of its protocol. It remembers the error that ended
// it, of which a library only says a part.
type heardConn struct {
	net.Conn
	begins byte // the first byte that must come; 0 is any

	mu    sync.Mutex
	left  int    // bytes that may still come
	first []byte // what came first, for a sentence
	given bool
	ended error
}

// once gives the connection out, one time only.
func (c *heardConn) once(context.Context, string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given {
		return nil, errors.New("a probe has one connection")
	}
	c.given = true
	return c, nil
}

// Read implements net.Conn.
func (c *heardConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	left := c.left
	c.mu.Unlock()
	if left == 0 {
		return 0, c.end(errTooMuch)
	}
	n, err := c.Conn.Read(b[:min(len(b), left)])
	c.mu.Lock()
	c.left -= n
	if c.first == nil && n > 0 {
		c.first = bytes.Clone(b[:min(n, quoteLimit+1)])
		if c.begins != 0 && b[0] != c.begins {
			n, err = 0, errForeign
		}
	}
	c.mu.Unlock()
	if err != nil {
		err = c.end(err)
	}
	return n, err
}

func (c *heardConn) end(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = err
	}
	return err
}

// err is the first error of reading, nil before there is one.
func (c *heardConn) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}
