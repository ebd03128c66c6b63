package cluster

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/memberlist"
)

// newKeySize is what GenerateKey makes: AES-256.
const newKeySize = 32

// GenerateKey returns a new random key of 32 bytes.
func GenerateKey() ([]byte, error) {
	k := make([]byte, newKeySize)
	if _, err := rand.Read(k); err != nil {
		return nil, fmt.Errorf("make a random key: %w", err)
	}
	return k, nil
}

// KeyID names a key without telling it: the first eight hexadecimal digits of
// its SHA-256.
func KeyID(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:4])
}

// LoadKeys reads a key file: one key a line in base64 (RFC 4648 §4), of 16, 24
// or 32 bytes; the first encrypts. Empty lines and what follows a # are passed
// over. The error names every wrong line.
func LoadKeys(path string) ([][]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	keys, err := parseKeys(path, b)
	if err != nil {
		return nil, err
	}
	return keys, nil
}

func parseKeys(path string, b []byte) ([][]byte, error) {
	var keys [][]byte
	var errs []error
	seen := map[string]int{}
	scan := bufio.NewScanner(bytes.NewReader(b))
	n := 0
	for scan.Scan() {
		n++
		text, _, _ := strings.Cut(scan.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		key, err := parseKey(text)
		switch first := seen[string(key)]; {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s:%d: %w", path, n, err))
		case first > 0:
			errs = append(errs, fmt.Errorf("%s:%d: the same key as in line %d", path, n, first))
		default:
			keys = append(keys, key)
			seen[string(key)] = n
		}
	}
	if err := scan.Err(); err != nil {
		errs = append(errs, fmt.Errorf("%s:%d: %w", path, n+1, err))
	}
	if len(keys) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s: no key in it", path))
	}
	if len(keys) > maxKeys {
		errs = append(errs, fmt.Errorf("%s: %d keys, at most %d", path, len(keys), maxKeys))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return keys, nil
}

// parseKey never repeats the text: it may be a key with a slip of the pen.
func parseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("not base64")
	}
	if err := memberlist.ValidateKey(key); err != nil {
		return nil, fmt.Errorf("a key of %d bytes, must be 16, 24 or 32", len(key))
	}
	return key, nil
}

// WriteKeys writes a key file, whole or not at all, readable by its owner
// only; an existing file keeps its mode. Comments in it are lost.
func WriteKeys(path string, keys [][]byte) error {
	var b bytes.Buffer
	b.WriteString("# gossip keys, the first encrypts\n")
	for _, k := range keys {
		b.WriteString(base64.StdEncoding.EncodeToString(k))
		b.WriteByte('\n')
	}
	mode := os.FileMode(0o600)
	if fi, err := os.Stat(path); err == nil {
		mode = fi.Mode().Perm()
	}
	return replaceFile(filepath.Dir(path), filepath.Base(path), b.Bytes(), mode)
}

// dropKey takes a key off the ring. memberlist's RemoveKey shifts the slice
// that readers of the ring hold at that moment, unless the key is the last
// one: so those behind it come off first and are put back.
func dropKey(r *memberlist.Keyring, key []byte) error {
	keys := bytesOf(r.GetKeys())
	if bytes.Equal(keys[0], key) {
		return errors.New("the key that encrypts cannot be removed")
	}
	at := 0
	for i, k := range keys {
		if bytes.Equal(k, key) {
			at = i
		}
	}
	if at == 0 {
		return nil
	}
	for i := len(keys) - 1; i >= at; i-- {
		if err := r.RemoveKey(keys[i]); err != nil {
			return fmt.Errorf("remove key %s: %w", KeyID(keys[i]), err)
		}
	}
	// A ring of its own again, before anything is appended to it.
	if err := r.UseKey(keys[0]); err != nil {
		return fmt.Errorf("use key %s: %w", KeyID(keys[0]), err)
	}
	for _, k := range keys[at+1:] {
		if err := r.AddKey(k); err != nil {
			return fmt.Errorf("add key %s: %w", KeyID(k), err)
		}
	}
	return nil
}

func bytesOf(keys [][]byte) [][]byte { return append([][]byte(nil), keys...) }
