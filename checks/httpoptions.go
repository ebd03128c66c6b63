package checks

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// statusRange is a range of HTTP status codes, both ends included.
type statusRange struct{ from, to int }

// parseStatuses reads ranges such as 200-299 and single codes, and returns
// them with their text for sentences. None means 200-299.
func parseStatuses(list []string) ([]statusRange, string, error) {
	if len(list) == 0 {
		list = []string{"200-299"}
	}
	var out []statusRange
	for _, s := range list {
		lo, hi, isRange := strings.Cut(s, "-")
		if !isRange {
			hi = lo
		}
		from, err1 := strconv.Atoi(strings.TrimSpace(lo))
		to, err2 := strconv.Atoi(strings.TrimSpace(hi))
		if err1 != nil || err2 != nil || from < 100 || to > 599 || from > to {
			return nil, "", fmt.Errorf("expect_status: %q is neither a status code nor a range such as 200-299", s)
		}
		out = append(out, statusRange{from, to})
	}
	return out, strings.Join(list, ", "), nil
}

func included(rs []statusRange, code int) bool {
	return slices.ContainsFunc(rs, func(r statusRange) bool { return r.from <= code && code <= r.to })
}

// Problems implements Options.
func (o *HTTPOptions) Problems() []Problem {
	var ps []Problem
	add := func(key, format string, args ...any) {
		ps = append(ps, Problem{Key: key, Msg: fmt.Sprintf(format, args...)})
	}
	if o.Method != "" && (!isToken(o.Method) || o.Method != strings.ToUpper(o.Method)) {
		add("method", "%q is not a request method in capitals", o.Method)
	}
	if o.Path != "" {
		if _, err := url.ParseRequestURI(o.Path); err != nil || o.Path[0] != '/' || strings.ContainsAny(o.Path, " #") {
			add("path", "%q must begin with / and have neither blank nor fragment", o.Path)
		}
	}
	if o.Host != "" && (!httpguts.ValidHostHeader(o.Host) || strings.ContainsAny(o.Host, "/ @?#")) {
		add("host", "%q is not a host name or host:port", o.Host)
	}
	for _, k := range sortedKeys(o.Headers) {
		if msg := headerProblem(k, o.Headers[k]); msg != "" {
			add("headers", "%q %s", k, msg)
		}
	}
	if _, _, err := parseStatuses(o.ExpectStatus); err != nil {
		add("expect_status", "%s", strings.TrimPrefix(err.Error(), "expect_status: "))
	}
	if _, err := regexp.Compile(o.ExpectBody); err != nil {
		add("expect_body", "is not a regular expression: %v", err)
	}
	if o.ExpectBody != "" && o.Method == "HEAD" {
		add("expect_body", "cannot be met: an answer to HEAD has no body")
	}
	return ps
}

func headerProblem(name, value string) string {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "is not a header name"
	case !httpguts.ValidHeaderFieldValue(value):
		return "has a value with characters that no header may have"
	}
	switch strings.ToLower(name) {
	case "host":
		return "is set with host"
	case "connection", "content-length", "transfer-encoding", "upgrade", "trailer", "te":
		return "is rhid's own to set"
	}
	return ""
}

func isToken(s string) bool { return httpguts.ValidHeaderFieldName(s) }

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
