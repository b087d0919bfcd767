package hold

import (
	"time"

	"golang.org/x/time/rate"
)

// Rate holds all operations while a rate limiter allows none. Make it with [NewRate].
type Rate struct {
	limiter func() *rate.Limiter
	until   time.Time // when to ask the limiter next; zero: at any time
}

// NewRate returns a Rate that asks the current limiter; nil means no bound.
func NewRate(limiter func() *rate.Limiter) *Rate { return &Rate{limiter: limiter} }

// maxRateDelay is the longest time between two requests to a limiter, because it may have been changed.
const maxRateDelay = time.Second

// Take asks the limiter for up to n operations, and returns how many may run.
func (r *Rate) Take(n int, now time.Time) int {
	limiter := r.limiter()
	if limiter == nil {
		return n
	}
	for i := range n {
		if !limiter.AllowN(now, 1) {
			if i == 0 {
				r.until = now.Add(delay(limiter, now))
			}
			return i
		}
	}
	return n
}

// delay returns how long it takes a limiter to allow an operation.
func delay(limiter *rate.Limiter, now time.Time) time.Duration {
	reservation := limiter.ReserveN(now, 1)
	if !reservation.OK() {
		return maxRateDelay
	}
	defer reservation.CancelAt(now)
	return min(max(reservation.DelayFrom(now), time.Microsecond), maxRateDelay)
}

// Holds reports whether all operations are held.
func (r *Rate) Holds(now time.Time) bool { return now.Before(r.until) }

// Until returns when to ask the limiter again, or zero.
func (r *Rate) Until() time.Time { return r.until }

// Reset makes the next call ask the limiter, which may be another one.
func (r *Rate) Reset() { r.until = time.Time{} }
