//go:build race

package bgp

// raceFactor is how much slower timings may be under the race detector.
const raceFactor = 10
