package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rhid/checks"
	"rhid/internal/config/strict"
)

// UnmarshalNode decodes a check: the keys that all types share, and beside
// them those of its type.
func (c *Check) UnmarshalNode(d *strict.Decoder, n *strict.Node) {
	typ, known := checkType(n)
	if !known {
		d.DecodeFields(n, true, c)
		if c.Type != "" {
			d.Errorf(n.Get("type"), "%q is not a check type; the types are %s%s",
				c.Type, strings.Join(typeNames(), ", "), strict.DidYouMean(c.Type, typeNames()))
		}
		return
	}
	c.Options = typ.New()
	d.DecodeFields(n, false, c, c.Options)
}

// checkType finds the type that a check's node names.
func checkType(n *strict.Node) (checks.Type, bool) {
	name := n.Get("type")
	if name == nil {
		return checks.Type{}, false
	}
	return typeOf(name.Text)
}

// typeOf finds a check type by its name.
func typeOf(name string) (checks.Type, bool) {
	types := checks.Types()
	i := slices.IndexFunc(types, func(t checks.Type) bool { return t.Name == name })
	if i < 0 {
		return checks.Type{}, false
	}
	return types[i], true
}

func typeNames() []string {
	var names []string
	for _, t := range checks.Types() {
		names = append(names, t.Name)
	}
	return names
}

// UnmarshalNode decodes the name of a check, a check in place, or a
// composition.
func (r *CheckRef) UnmarshalNode(d *strict.Decoder, n *strict.Node) {
	switch {
	case n.Kind != strict.Map:
		d.Decode(n, &r.Name)
	case isGroup(n):
		r.Group = new(Group)
		d.DecodeFields(n, false, r.Group)
	default:
		r.Inline = new(Check)
		r.Inline.UnmarshalNode(d, n)
	}
}

// isGroup says whether a mapping is a composition rather than a check.
func isGroup(n *strict.Node) bool {
	if n.Get("type") != nil {
		return false
	}
	return slices.ContainsFunc([]string{"all", "any", "at_least", "of", "score"}, func(key string) bool { return n.Get(key) != nil })
}

// UnmarshalNode decodes a server's address, or the server as a mapping.
func (s *Server) UnmarshalNode(d *strict.Decoder, n *strict.Node) {
	if n.Kind == strict.Map {
		d.DecodeFields(n, false, s)
		return
	}
	s.Weight = 1
	d.Decode(n, &s.Address)
}

// UnmarshalText reads a number of servers ("2") or a share of them ("50%").
func (q *Quorum) UnmarshalText(text []byte) error {
	number, isPercent := strings.CutSuffix(string(text), "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return fmt.Errorf("%q is neither a number nor a percentage like 50%%", text)
	case isPercent && (n < 1 || n > 100):
		return fmt.Errorf("%s must be between 1%% and 100%%", text)
	case n < 1:
		return errors.New("must be at least 1")
	case isPercent:
		*q = Quorum{Percent: n}
	default:
		*q = Quorum{N: n}
	}
	return nil
}

// UnmarshalText reads a percentage, as in 90% or 99.5%.
func (p *Percent) UnmarshalText(text []byte) error {
	number, isPercent := strings.CutSuffix(string(text), "%")
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !isPercent || !(f > 0 && f <= 100) {
		return fmt.Errorf("%q is not a percentage above 0%% and up to 100%%; write it like 90%% or 99.5%%", text)
	}
	*p = Percent(f)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (p Percent) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(p), 'f', -1, 64) + "%"), nil
}

// MarshalText is the inverse of UnmarshalText.
func (q Quorum) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// String returns the quorum as it is written.
func (q Quorum) String() string {
	if q.Percent > 0 {
		return strconv.Itoa(q.Percent) + "%"
	}
	return strconv.Itoa(q.N)
}

// Of returns how many of n servers must be up; a share is rounded up.
func (q Quorum) Of(n int) int {
	if q.Percent > 0 {
		return (n*q.Percent + 99) / 100
	}
	return q.N
}
