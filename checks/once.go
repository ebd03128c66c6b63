package checks

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// ProbeOnce makes one probe outside of a Runner, for people who want to know
// what a check says now. It returns at the timeout even when the probe does
// not, and a panic in the probe is a failed result.
func ProbeOnce(ctx context.Context, p Prober, timeout time.Duration) Result {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	start := time.Now()
	done := make(chan Result, 1)
	go func() {
		defer cancel()
		if h, ok := p.(Holder); ok {
			defer h.Release()
		}
		defer func() {
			if v := recover(); v != nil {
				done <- Result{Cause: CauseInternal, Detail: fmt.Sprintf("the probe failed by a fault in rhid: %v\n%s", v, debug.Stack())}
			}
		}()
		done <- p.Probe(ctx)
	}()
	late := time.NewTimer(timeout + grace(timeout))
	defer late.Stop()
	var res Result
	select {
	case res = <-done:
	case <-late.C:
		res = Result{Cause: CauseTimeout, Detail: fmt.Sprintf("no result within %s", timeout)}
	}
	if res.Start.IsZero() {
		res.Start, res.Took = start, time.Since(start)
	}
	return res
}
