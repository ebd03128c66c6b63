package checks

import "time"

// Rules are the rules of health besides Timing.Rise and Timing.Fall. Each that
// is zero is off.
//
// A check is Down as soon as one of its rules says so. It is Up when rise and
// fall, or the window in their place, say Up and the rate does not object; a
// rate with too few samples abstains, which is no objection.
type Rules struct {
	Window  Window  // in place of Rise and Fall
	Link    Link    // in place of both, for a path that is probed
	Rate    Rate    // of success; the only rule of a passive check
	Latency Latency // makes Degraded, never Down
}

// Window is N of M: Down when Fail of the last Size results failed, Up again
// when Recover of them succeeded.
type Window struct {
	Size    int // at most MaxWindow; 0 is no window
	Fail    int // failures that make it Down
	Recover int // successes that make it Up, more than Size-Fail; 0 is Size
}

// MaxWindow is how many results a Window can look at.
const MaxWindow = 64

// Rate is the share of results that succeeded, of the Last ones that are not
// older than Over. Where counts come in batches, a batch that is partly among
// the last counts whole.
type Rate struct {
	Over       time.Duration // 0 is no rate rule, but for a passive check DefaultRate
	Last       int           // 0 is all within Over
	Min        float64       // percent: Down below
	Recover    float64       // percent: Up again from here on; 0 is half way between Min and 100
	MinSamples int           // with fewer it abstains; 0 is 20
}

// DefaultRate is the rule of a passive check that has none.
func DefaultRate() Rate { return Rate{Over: time.Minute, Min: 90} }

const defaultMinSamples = 20

// resolved fills in the defaults.
func (r Rate) resolved() Rate {
	if r.Recover == 0 {
		r.Recover = (r.Min + 100) / 2
	}
	if r.MinSamples == 0 {
		r.MinSamples = defaultMinSamples
	}
	return r
}

// Latency is a limit of the 95th percentile of the time that successes took.
// The check is degraded when it was exceeded for the time For, and no longer
// degraded when it was kept for as long.
type Latency struct {
	P95        time.Duration // the limit; 0 is no limit
	Over       time.Duration // of which results; 0 is a minute
	For        time.Duration
	MinSamples int // with fewer nothing changes; 0 is 20
}

// Counts are results that somebody else had and counted.
type Counts struct {
	OK, Fail uint64
	Latency  time.Duration // of each of the OK ones, where known; their mean will do
	Detail   string        // one sentence on the failures, or on why there is nothing to count
}

// RateStatus is how a rate rule stands.
type RateStatus struct {
	OK      uint64  `json:"ok"`
	Fail    uint64  `json:"fail"`
	Percent float64 `json:"percent"` // of success, 0 without samples
	Min     float64 `json:"min"`
	Needed  int     `json:"min_samples"`
}
