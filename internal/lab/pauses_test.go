package lab

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// verdict is a test that notes whether it failed.
type verdict struct {
	testing.TB
	failed []string
}

func (v *verdict) Helper()                   {}
func (v *verdict) Logf(string, ...any)       {}
func (v *verdict) Errorf(f string, a ...any) { v.failed = append(v.failed, fmt.Sprintf(f, a...)) }

func TestSteady(t *testing.T) {
	const ran, stood = time.Second, -time.Second // the pause is 0 in a bubble: shorter, or longer
	for _, c := range []struct {
		name         string
		still        time.Duration
		goodAt       int // the measurement without a miss
		tries, fails int
	}{
		{"no miss", stood, 1, 1, 0},
		{"a miss on a machine that ran", ran, 2, 1, 1},
		{"a miss on a machine that stood still", stood, 2, 2, 0},
		{"missed each time", stood, 9, 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, tries := &verdict{TB: t}, 0
				Steady(v, c.still, func() []string {
					time.Sleep(time.Second)
					if tries++; tries == c.goodAt {
						return nil
					}
					return []string{"too slow"}
				})
				if tries != c.tries || len(v.failed) != c.fails {
					t.Errorf("%d measurements, failed with %q; want %d and %d failures", tries, v.failed, c.tries, c.fails)
				}
			})
		})
	}
}
