package lab

import (
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	pauseTick  = 5 * time.Millisecond
	pauseNoted = 20 * time.Millisecond // shorter ones are those of any busy machine
	steadyTry  = 5                     // measurements at most
)

// Pauses notes how late the machine wakes one who sleeps: a virtual machine
// stands still now and then, and every program in it with it.
type Pauses struct {
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	longest time.Duration
	noted   []pause
}

// pause is a time in which the machine stood still.
type pause struct{ from, to time.Time }

// WatchPauses begins to watch.
func WatchPauses() *Pauses {
	p := &Pauses{stop: make(chan struct{})}
	p.done.Go(func() {
		tick := time.NewTimer(pauseTick)
		defer tick.Stop()
		for {
			due := time.Now().Add(pauseTick)
			select {
			case <-p.stop:
				return
			case <-tick.C:
			}
			p.note(due, time.Now())
			tick.Reset(pauseTick)
		}
	})
	return p
}

// note takes in one sleep: when it was to end and when it did.
func (p *Pauses) note(due, woke time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := woke.Sub(due)
	p.longest = max(p.longest, late)
	if late >= pauseNoted {
		p.noted = append(p.noted, pause{due, woke})
	}
}

// Within is how long the machine stood still between two times, all pauses
// together but for very short ones.
func (p *Pauses) Within(from, to time.Time) (still time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, each := range p.noted {
		begin, end := each.from, each.to
		if from.After(begin) {
			begin = from
		}
		if to.Before(end) {
			end = to
		}
		still += max(0, end.Sub(begin))
	}
	return still
}

// Longest is the longest time so far that the machine stood still.
func (p *Pauses) Longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.longest
}

// Stop ends the watch and returns the longest pause.
func (p *Pauses) Stop() time.Duration {
	close(p.stop)
	p.done.Wait()
	return p.Longest()
}

// Steady measures something that has bounds; measure returns those that were
// missed. A miss fails the test when the machine ran: where it stood still for
// longer than still meanwhile, the measurement is made anew, four times at most.
func Steady(tb testing.TB, still time.Duration, measure func() (misses []string)) {
	tb.Helper()
	for try := 1; ; try++ {
		p := WatchPauses()
		misses := measure()
		paused := p.Stop()
		switch {
		case len(misses) == 0:
			return
		case paused <= still || try == steadyTry:
			tb.Errorf("%s\n(measurement %d; the machine stood still for %v at most)", strings.Join(misses, "\n"), try, paused.Round(time.Millisecond))
			return
		}
		tb.Logf("measured again, since the machine stood still for %v: %s", paused.Round(time.Millisecond), strings.Join(misses, "\n"))
	}
}
