package cluster

import (
	"bytes"
	"cmp"
	"hash/fnv"
	"strings"
	"time"
)

// recordKind says what a record is about.
type recordKind uint8

// The kinds of records. Numbers are part of the wire format.
const (
	recordState  recordKind = 1 // what a node publishes of itself; named by the node
	recordSight  recordKind = 2 // whom a node sees; named by the node
	recordIntent recordKind = 3 // what an operator asked for; named by kind and subject
)

func (k recordKind) known() bool { return k >= recordState && k <= recordIntent }

// vital says whether such records must be known before a node is settled.
// Whom others see changes all the time while nodes come and go.
func (k recordKind) vital() bool { return k == recordState || k == recordIntent }

// ofNode says whether only the node of that name makes such records.
func (k recordKind) ofNode() bool { return k == recordState || k == recordSight }

// recordKey is what a record replaces: the one before with the same key.
type recordKey struct {
	kind recordKind
	name string
}

func (k recordKey) compare(o recordKey) int {
	return cmp.Or(cmp.Compare(k.kind, o.kind), strings.Compare(k.name, o.name))
}

// version orders the records of one key. For what a node says of itself hi is
// its incarnation and lo its sequence; for an intent hi is the Lamport time.
// origin is the node that made the record.
type version struct {
	hi, lo uint64
	origin string
}

func (v version) compare(o version) int {
	return cmp.Or(cmp.Compare(v.hi, o.hi), cmp.Compare(v.lo, o.lo), strings.Compare(v.origin, o.origin))
}

// stamp is a record without its body.
type stamp struct {
	key recordKey
	ver version
}

// record is the unit that is spread. Its body stays exactly as its origin made
// it, so that what a newer version put into it survives an older relay.
type record struct {
	stamp
	body []byte
	life life
}

// life is how long an intent still holds. It is told along with the record but
// is no part of it: every node counts down by its own monotonic clock.
type life struct {
	bounded bool
	left    time.Duration // meaningful when bounded; 0 is over
	guessed bool          // the wall clock had to be asked how long the node was off
}

// newer says whether r replaces o. Two records with one version differ only
// when something is wrong (a state directory that was copied, a forger); the
// bytes then decide, so that all nodes keep the same one.
func (r record) newer(o record) bool {
	return cmp.Or(r.ver.compare(o.ver), bytes.Compare(r.body, o.body)) > 0
}

// entry is a record in the store, with what was read from it.
type entry struct {
	record
	value   any       // State body, sight or intent body; never changed
	expires time.Time // monotonic; meaningful when life.bounded
}

// store keeps the newest record of each key. Merging is a maximum over a total
// order, and therefore idempotent, commutative and associative: the order in
// which records arrive, and how often, changes nothing.
type store struct {
	entries map[recordKey]*entry
}

func newStore() *store { return &store{entries: map[recordKey]*entry{}} }

// wants says whether a record of that stamp may be news. Equal versions are
// none here: the body would have to be looked at, and it is the same.
func (s *store) wants(st stamp) bool {
	e := s.entries[st.key]
	return e == nil || st.ver.compare(e.ver) > 0
}

// merge takes the record if it is newer than what is there.
func (s *store) merge(r record, value any, now time.Time) bool {
	e := s.entries[r.key]
	if e != nil && !r.newer(e.record) {
		return false
	}
	s.entries[r.key] = &entry{record: r, value: value, expires: now.Add(r.life.left)}
	return true
}

// correct replaces a guess of how long an intent still holds by what a node
// knows that was there all the time. It is no news for others.
func (s *store) correct(r record, now time.Time) bool {
	e := s.entries[r.key]
	if e == nil || e.ver != r.ver || !e.life.bounded || !e.life.guessed || !r.life.bounded || r.life.guessed {
		return false
	}
	e.life = r.life
	e.expires = now.Add(r.life.left)
	return true
}

// get returns the record as it is to be told now: with the time that is left.
func (s *store) get(k recordKey, now time.Time) (record, bool) {
	e := s.entries[k]
	if e == nil {
		return record{}, false
	}
	r := e.record
	if r.life.bounded {
		r.life.left = max(0, e.expires.Sub(now))
	}
	return r, true
}

// stamps returns all keys and versions.
func (s *store) stamps() []stamp {
	list := make([]stamp, 0, len(s.entries))
	for _, e := range s.entries {
		list = append(list, e.stamp)
	}
	return list
}

// sum is a number for all vital keys and versions: two stores with the same sum
// have the same vital records. It saves the list of them where nothing has changed, which
// is nearly always; should two sums once be the same by chance, the next
// change or the next list ends that.
func (s *store) sum() uint64 {
	var sum uint64
	var b [2*maxName + 32]byte
	for _, e := range s.entries {
		if !e.key.kind.vital() {
			continue
		}
		h := fnv.New64a()
		h.Write(e.stamp.encode(b[:0]))
		sum += mix(h.Sum64())
	}
	return sum
}

// mix spreads a hash over all bits, so that sums of hashes do not collide
// where the hashes are close (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// missing returns those of the list that the store does not have, or has only
// in an older version.
func (s *store) missing(list []stamp) []stamp {
	var miss []stamp
	for _, st := range list {
		if st.key.kind.known() && s.wants(st) {
			miss = append(miss, st)
		}
	}
	return miss
}
