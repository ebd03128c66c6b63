package checks

import (
	"fmt"
	"slices"
	"strings"
)

// wordProblems are those of a key that takes one of a few words; without a
// value it has its default.
func wordProblems(key, value string, words ...string) []Problem {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return []Problem{{key, fmt.Sprintf("%q is none of %s", value, strings.Join(words, ", "))}}
}
