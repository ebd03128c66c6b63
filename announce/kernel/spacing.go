package kernel

import (
	"net/netip"
	"slices"
	"time"

	"rhid/announce"
)

// arrival is a little more than MinLSArrival (RFC 2328, appendix B): a router
// drops an LSA that follows the last one for the same prefix within a second,
// and is sent it again only after the retransmission interval. It is all that a
// withdraw waits for, because a routing daemon may flush an LSA at any time.
const arrival = 1100 * time.Millisecond

// lastChange is what rhid last did to an announcement, and when. The route is zero
// after a withdraw.
type lastChange struct {
	at  time.Time
	put route
}

// tooSoon refuses a change of an announcement that comes too soon after rhid's
// last one. What is there already is no change, and what others took away is put
// back as soon as routers will look at it.
func (t *routes) tooSoon(c *conf, want route) error {
	last, ok := t.changed[want.dst]
	if !ok || slices.Contains(t.own[want.dst], want) {
		return nil
	}
	spacing := c.Spacing
	if last.put == want {
		spacing = min(spacing, arrival)
	}
	if soonest := last.at.Add(spacing); time.Now().Before(soonest) {
		return &announce.Later{At: soonest}
	}
	return nil
}

// withdrawable says when p may be withdrawn, the zero time for now.
func (t *routes) withdrawable(p netip.Prefix) time.Time {
	last, ok := t.changed[p]
	soonest := last.at.Add(min(t.w.conf.Load().Spacing, arrival))
	if ok && len(t.own[p]) > 0 && time.Now().Before(soonest) {
		return soonest
	}
	return time.Time{}
}

// forgetChanges drops what is too long ago to matter.
func (t *routes) forgetChanges(c *conf) {
	for p, last := range t.changed {
		if time.Since(last.at) > max(c.Spacing, arrival) {
			delete(t.changed, p)
		}
	}
}
