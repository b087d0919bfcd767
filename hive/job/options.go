package job

import "time"

const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = time.Minute
)

// Option changes how a job of any kind runs.
type Option func(*common)

// common is what jobs of all kinds have.
type common struct {
	name    string
	retries int  // after as many failures in a row, and one more, the job has failed for good; negative: never
	limited bool // retries is from WithRetries
	backoff Backoff
	failed  func(error) // may be nil
}

// WithRetries has a job fail for good after times+1 failures in a row, and never if times is negative. Without this option a
// one-shot runs once, and timers and observers go on whatever fails. An observer of a channel gets the event that it
// refused again; without this option it does not.
func WithRetries(times int) Option {
	return func(c *common) { c.retries, c.limited = times, true }
}

// WithBackoff sets how long it takes after a failure until the job runs again. Without this option it is Exponential from 100 ms
// to a minute, and for a timer its interval.
func WithBackoff(b Backoff) Option {
	return func(c *common) { c.backoff = b }
}

// WithOnFailure has fn called when the job has failed for good, such as Shutdown of a hive.Shutdowner. That a job is stopped is no
// failure.
func WithOnFailure(fn func(error)) Option {
	return func(c *common) { c.failed = fn }
}

func (c *common) options() *common { return c }

func (c *common) apply(opts []Option) {
	for _, opt := range opts {
		opt(c)
	}
}

// exhausted reports whether a job has failed for good after so many failures in a row.
func (c *common) exhausted(failures int) bool { return c.retries >= 0 && failures > c.retries }

// Backoff is how long a job waits after so many failures in a row; the first is 1. It is called by one goroutine at a time.
type Backoff func(failures int) time.Duration

// Exponential is a Backoff that doubles from first to last. A first that is not positive is 100 ms.
func Exponential(first, last time.Duration) Backoff {
	if first <= 0 {
		first = firstDelay
	}
	last = max(first, last)
	return func(failures int) time.Duration {
		d := first
		for i := 1; i < failures && d < last; i++ {
			d = doubled(d, last)
		}
		return d
	}
}

// doubled is twice d, up to limit; it cannot overflow.
func doubled(d, limit time.Duration) time.Duration {
	if d > limit/2 {
		return limit
	}
	return 2 * d
}
