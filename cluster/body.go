package cluster

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// How a body is packed: its first byte.
const (
	bodyPlain   = 0 // JSON
	bodyDeflate = 1 // JSON in a DEFLATE stream (RFC 1951)
)

// deflateFrom is the size in bytes from which a body is worth deflating.
const deflateFrom = 400

var errBody = errors.New("a body that is neither plain nor deflated, or too large")

// codec packs and unpacks bodies. It keeps what is dear to make.
type codec struct {
	writers, readers sync.Pool
}

// pack makes the bytes of a body of its JSON.
func (c *codec) pack(text []byte) ([]byte, error) {
	if len(text) > maxBody {
		return nil, errBody
	}
	if len(text) < deflateFrom {
		return append([]byte{bodyPlain}, text...), nil
	}
	w, ok := c.writers.Get().(*flate.Writer)
	buf := bytes.NewBuffer(make([]byte, 0, len(text)/4))
	buf.WriteByte(bodyDeflate)
	if ok {
		w.Reset(buf)
	} else {
		var err error
		if w, err = flate.NewWriter(buf, flate.BestSpeed); err != nil {
			return nil, fmt.Errorf("deflate a body: %w", err)
		}
	}
	defer c.writers.Put(w)
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("deflate a body: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("deflate a body: %w", err)
	}
	if buf.Len() > maxPacked {
		return nil, errBody
	}
	return buf.Bytes(), nil
}

// open returns the JSON in a body.
func (c *codec) open(body []byte) ([]byte, error) {
	if len(body) < 1 || len(body) > maxPacked {
		return nil, errBody
	}
	switch body[0] {
	case bodyPlain:
		return body[1:], nil
	case bodyDeflate:
		return c.inflate(body[1:])
	default:
		return nil, errBody
	}
}

// unpack reads a body into v. Fields that v does not know are passed over;
// the record keeps them.
func (c *codec) unpack(body []byte, v any) error {
	text, err := c.open(body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read a body: %w", err)
	}
	return nil
}

// inflate is bounded: a few hostile bytes must not become gigabytes.
func (c *codec) inflate(b []byte) ([]byte, error) {
	src := bytes.NewReader(b)
	r, ok := c.readers.Get().(io.ReadCloser)
	if ok {
		if err := r.(flate.Resetter).Reset(src, nil); err != nil { //nolint:errcheck // what flate.NewReader returns is a Resetter by its documentation
			return nil, fmt.Errorf("inflate a body: %w", err)
		}
	} else {
		r = flate.NewReader(src)
	}
	defer c.readers.Put(r)
	text, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("inflate a body: %w", err)
	}
	if len(text) > maxBody {
		return nil, errBody
	}
	return text, nil
}

// cut shortens a text to at most n bytes without cutting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
