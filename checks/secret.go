package checks

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

const secretLimit = 4 << 10 // bytes of a secret

// secretProblems are those of the key password, say, and of password_file
// beside it.
func secretProblems(key, inline, file string) []Problem {
	if inline != "" && file != "" {
		return []Problem{{key + "_file", "cannot stand together with " + key + "; use one of them"}}
	}
	return nil
}

// secretOf returns the secret that stands in the configuration, or else the
// first line of the file; it is empty without either. No error has any of it.
func secretOf(inline, file string) (string, error) {
	if file == "" {
		return inline, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, secretLimit)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	line = bytes.TrimRight(line, "\r\n")
	if len(line) == 0 {
		return "", fmt.Errorf("the first line of %s is empty", file)
	}
	return string(line), nil
}
