package reconciler

import (
	"math/rand/v2"
	"time"
)

// backoff returns how long to wait after a number of failed attempts.
func (c Config) backoff(attempts int) time.Duration {
	d := c.MaxBackoff
	if doublings := attempts - 1; doublings < 32 {
		if grown := c.MinBackoff << max(doublings, 0); grown>>max(doublings, 0) == c.MinBackoff {
			d = min(d, grown)
		}
	}
	return jitter(d, 0.2)
}

// jitter spreads d evenly over d ± part·d.
func jitter(d time.Duration, part float64) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*part*float64(d))
}
