package announce

import "sync"

// latest hands a value from one goroutine to another. The reader only ever
// wants the newest one, and the writer never waits.
type latest[T any] struct {
	mu    sync.Mutex
	value T
	fresh bool
	ready chan struct{} // capacity 1
}

func newLatest[T any]() *latest[T] {
	return &latest[T]{ready: make(chan struct{}, 1)}
}

// put replaces whatever was not yet taken.
func (l *latest[T]) put(v T) {
	l.mu.Lock()
	l.value, l.fresh = v, true
	l.mu.Unlock()
	signal(l.ready)
}

// take returns the newest value, and whether there is one not taken before.
func (l *latest[T]) take() (T, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, fresh := l.value, l.fresh
	var zero T
	l.value, l.fresh = zero, false
	return v, fresh
}

// signal sends on a channel of capacity 1 without waiting.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
