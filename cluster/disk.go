package cluster

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Files in the state directory.
const (
	incarnationFile = "incarnation"
	intentsFile     = "intents.json"
	intentsFormat   = 1
	maxStateFile    = 64 << 20
)

// disk is the state directory; "" keeps nothing.
type disk struct{ dir string }

// replaceFile writes a file so that after a power loss either the old or the
// new content is there, whole.
func replaceFile(dir, name string, content []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", filepath.Join(dir, name), errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		// The file is in place; only its survival of a power loss is not known.
		return nil //nolint:nilerr // a directory that may be written but not read
	}
	return errors.Join(d.Sync(), d.Close())
}

// nextLife counts one start of this node, on disk before anybody hears of it.
func (d disk) nextLife() (uint64, error) {
	if d.dir == "" {
		return 1, nil
	}
	if err := os.MkdirAll(d.dir, 0o750); err != nil {
		return 1, fmt.Errorf("make the state directory: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(d.dir, incarnationFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 1, d.saveLife(1)
	}
	if err != nil {
		return 1, fmt.Errorf("read the incarnation: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		// The others know the last one and tell it; see refute.
		return 1, errors.Join(fmt.Errorf("read the incarnation: %w", err), d.saveLife(1))
	}
	return n + 1, d.saveLife(n + 1)
}

func (d disk) saveLife(n uint64) error {
	if d.dir == "" {
		return nil
	}
	return replaceFile(d.dir, incarnationFile, []byte(strconv.FormatUint(n, 10)+"\n"), 0o640)
}

// intentsOnDisk is the file. A body is kept as text, byte for byte: the file
// can be read by people, and what is spread after a restart is what was.
type intentsOnDisk struct {
	Format  int            `json:"format"`
	Saved   time.Time      `json:"saved"` // by the wall clock
	Intents []intentOnDisk `json:"intents"`
}

type intentOnDisk struct {
	Clock  uint64 `json:"clock"`
	Node   string `json:"node"`
	Left   *int64 `json:"left_ms,omitempty"` // when it was saved; none is for ever
	Body   string `json:"body,omitempty"`
	Packed string `json:"packed,omitempty"` // a body that is not plain text
}

func (d disk) saveIntents(list []record, wall time.Time) error {
	if d.dir == "" {
		return nil
	}
	f := intentsOnDisk{Format: intentsFormat, Saved: wall.Round(0), Intents: []intentOnDisk{}}
	for _, r := range list {
		i := intentOnDisk{Clock: r.ver.hi, Node: r.ver.origin}
		if r.life.bounded {
			ms := r.life.left.Milliseconds()
			i.Left = &ms
		}
		if len(r.body) > 0 && r.body[0] == bodyPlain {
			i.Body = string(r.body[1:])
		} else {
			i.Packed = base64.StdEncoding.EncodeToString(r.body)
		}
		f.Intents = append(f.Intents, i)
	}
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("write the intents: %w", err)
	}
	return replaceFile(d.dir, intentsFile, append(text, '\n'), 0o640)
}

// loadIntents reads what was kept. How long the node was off is known from the
// wall clock only, so what is left of an intent is a guess until a node that
// was there tells. A file that cannot be read is set aside.
func (d disk) loadIntents(c *codec, wall time.Time) ([]record, []*intentBody, error) {
	if d.dir == "" {
		return nil, nil, nil
	}
	path := filepath.Join(d.dir, intentsFile)
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil && fi.Size() > maxStateFile {
		err = fmt.Errorf("%d bytes, at most %d", fi.Size(), maxStateFile)
	}
	var records []record
	var bodies []*intentBody
	if err == nil {
		var text []byte
		if text, err = os.ReadFile(path); err == nil {
			records, bodies, err = parseIntents(c, text, wall)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read the intents of %s: %w", path, err), os.Rename(path, path+".unreadable"))
	}
	return records, bodies, nil
}

func parseIntents(c *codec, text []byte, wall time.Time) ([]record, []*intentBody, error) {
	var f intentsOnDisk
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, nil, err
	}
	if f.Format != intentsFormat {
		return nil, nil, fmt.Errorf("format %d, must be %d", f.Format, intentsFormat)
	}
	off := max(0, wall.Sub(f.Saved))
	var records []record
	var bodies []*intentBody
	for n, i := range f.Intents {
		r := record{body: append([]byte{bodyPlain}, i.Body...)}
		if i.Packed != "" {
			var err error
			if r.body, err = base64.StdEncoding.DecodeString(i.Packed); err != nil {
				return nil, nil, fmt.Errorf("intent %d: %w", n, err)
			}
		}
		b := &intentBody{}
		if err := c.unpack(r.body, b); err != nil {
			return nil, nil, fmt.Errorf("intent %d: %w", n, err)
		}
		if err := b.check(); err != nil {
			return nil, nil, fmt.Errorf("intent %d: %w", n, err)
		}
		if i.Clock > maxLamport || i.Node == "" || len(i.Node) > maxName {
			return nil, nil, fmt.Errorf("intent %d: clock %d of node %.40q", n, i.Clock, i.Node)
		}
		r.stamp = stamp{intentKey(b.Kind, b.Subject), version{hi: i.Clock, origin: i.Node}}
		if i.Left != nil {
			left := time.Duration(min(max(0, *i.Left), maxLife.Milliseconds())) * time.Millisecond
			r.life = life{bounded: true, left: max(0, left-off), guessed: true}
		}
		records, bodies = append(records, r), append(bodies, b)
	}
	return records, bodies, nil
}
