package reconciler

import (
	"math"
	"time"
)

// random returns numbers in [0,1): math/rand's, unless a test wants the same again.
type random func() float64

// backoff returns how long to wait after a number of failed attempts.
func (c Config) backoff(attempts int, random random) time.Duration {
	d := c.MinBackoff
	for range attempts - 1 {
		if d >= c.MaxBackoff/2 {
			d = c.MaxBackoff
			break
		}
		d *= 2
	}
	return jitter(min(d, c.MaxBackoff), 0.2, random)
}

// jitter spreads d evenly over d ± part·d, or less where that is more than a
// duration can be.
func jitter(d time.Duration, part float64, random random) time.Duration {
	spread := time.Duration((2*random() - 1) * part * float64(d))
	if spread > math.MaxInt64-d {
		return math.MaxInt64
	}
	return d + spread
}
