package lab

import (
	"errors"
	"strings"
)

// splitWords splits a command line into words by the shell's quoting rules,
// without any expansion. containerlab does the same with exec and cmd: there is
// no shell, so pipes and redirections need `sh -c '…'`.
func splitWords(line string) ([]string, error) {
	var (
		words []string
		word  strings.Builder
		open  bool // a word has begun, be it empty ('')
		quote rune // the quote we are in, or 0
		esc   bool // the rune before was a backslash
	)
	for _, r := range line {
		switch {
		case esc:
			if quote == '"' && !strings.ContainsRune(`"\$`+"`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			esc = false
		case r == '\\' && quote != '\'':
			esc, open = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 || esc {
		return nil, errors.New("unfinished quote")
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}
