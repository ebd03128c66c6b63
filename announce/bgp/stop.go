package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
	"unicode/utf8"

	api "github.com/osrg/gobgp/v3/api"
)

// maxCommunication is the length in bytes of an RFC 8203 text; RFC 9003 allows
// more, which older routers take for an error.
const maxCommunication = 128

// defaultStopWait is how long Stop waits for withdraws when ctx has no end.
const defaultStopWait = 10 * time.Second

// Stop ends the speaker: it withdraws what is still in the table, waits until
// each neighbour was sent its withdraws, ends each session with cease 6/2 and
// the text communication (RFC 8203), and then stops GoBGP. It returns when ctx
// ends, whatever a router does; the error names the neighbours that may not
// have got the withdraw. Three quarters of the time until then are for the
// withdraws.
func (s *Speaker) Stop(ctx context.Context, communication string) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return errStopped
	}
	s.stopping = true
	var left []netip.Prefix
	for p := range s.table {
		left = append(left, p)
	}
	neighbours := s.neighbours
	s.mu.Unlock()
	s.wakeUp()

	var errs []error
	for _, p := range left {
		if err := s.remove(ctx, p); err != nil {
			errs = append(errs, err)
			break // the next would wait for this one
		}
	}
	wait := defaultStopWait
	if end, ok := ctx.Deadline(); ok {
		wait = time.Until(end) * 3 / 4
	}
	writeCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	results := make([]error, len(neighbours))
	var wg sync.WaitGroup
	for i, n := range neighbours {
		wg.Go(func() { results[i] = s.part(ctx, writeCtx, n, shorten(communication)) })
	}
	wg.Wait()
	errs = append(errs, results...)
	errs = append(errs, s.call(ctx, s.peerOps, "stopping", func() error {
		return s.bgp.StopBgp(context.Background(), &api.StopBgpRequest{})
	}))
	return errors.Join(errs...)
}

// part takes leave of one neighbour.
func (s *Speaker) part(ctx, writeCtx context.Context, n *neighbour, text string) error {
	var unwritten int
	written := s.await(writeCtx, func() bool {
		unwritten = len(n.sent)
		return unwritten == 0 // a session that ends clears it
	})
	var errs []error
	if !written {
		errs = append(errs, fmt.Errorf("bgp: neighbour %s: %d withdraws were not written: it takes no data", n.place, unwritten))
	}
	disabled := func() error {
		return s.bgp.DisablePeer(context.Background(), &api.DisablePeerRequest{Address: n.key, Communication: text})
	}
	if err := s.call(ctx, s.peerOps, "disabling neighbour "+n.place, disabled); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if written && !s.await(ctx, func() bool { return !n.established() }) {
		errs = append(errs, fmt.Errorf("bgp: neighbour %s: the end of the session was not written", n.place))
	}
	return errors.Join(errs...)
}

// shorten cuts a text to what fits into a NOTIFICATION, at a character.
func shorten(text string) string {
	if len(text) <= maxCommunication {
		return text
	}
	cut := maxCommunication
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
