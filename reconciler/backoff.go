package reconciler

import (
	"math"
	"math/rand/v2"
	"time"
)

// backoff returns how long to wait after a number of failed attempts.
func (c Config) backoff(attempts int) time.Duration {
	d := c.MinBackoff
	for range attempts - 1 {
		if d >= c.MaxBackoff/2 {
			d = c.MaxBackoff
			break
		}
		d *= 2
	}
	return jitter(min(d, c.MaxBackoff), 0.2)
}

// jitter spreads d evenly over d ± part·d, or less where that is more than a
// duration can be.
func jitter(d time.Duration, part float64) time.Duration {
	spread := time.Duration((2*rand.Float64() - 1) * part * float64(d))
	if spread > math.MaxInt64-d {
		return math.MaxInt64
	}
	return d + spread
}
