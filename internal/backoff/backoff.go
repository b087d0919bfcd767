// Package backoff computes how long to wait before something that failed is retried.
package backoff

import (
	"math"
	"time"
)

// spread is the fraction by which a pause varies.
const spread = 0.2

// Backoff is a pause that starts with Min, doubles with each failed attempt up to Max,
// and varies by a fifth.
type Backoff struct{ Min, Max time.Duration }

// After returns how long to wait after a number of failed attempts. random returns numbers
// in [0,1), as [math/rand/v2.Float64] does.
func (b Backoff) After(attempts int, random func() float64) time.Duration {
	d := b.Min
	for range attempts - 1 {
		if d >= b.Max/2 {
			d = b.Max
			break
		}
		d *= 2
	}
	return Jitter(min(d, b.Max), spread, random)
}

// Jitter returns a duration that is evenly distributed over d ± part·d, up to the longest
// duration.
func Jitter(d time.Duration, part float64, random func() float64) time.Duration {
	by := time.Duration((2*random() - 1) * part * float64(d))
	if by > math.MaxInt64-d {
		return math.MaxInt64
	}
	return d + by
}
