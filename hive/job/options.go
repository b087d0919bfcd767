package job

import "time"

const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = time.Minute
)

// Option changes how a job of any kind runs.
type Option func(*common)

// common holds the options of all kinds of jobs.
type common struct {
	name    string
	idle    bool // it has no function
	retries int  // the job fails for good after retries+1 failures in a row; never if negative
	limited bool // retries is from WithRetries
	backoff Backoff
	failed  func(error) // may be nil
}

// WithRetries makes a job fail for good after times+1 failures in a row, or never if times is negative. Without this option, a
// one-shot runs once, and timers and observers continue after any failure. With it, an observer of a channel receives an event again
// after a failure.
func WithRetries(times int) Option {
	return func(c *common) { c.retries, c.limited = times, true }
}

// WithBackoff sets the delay between a failure and the next run. The default is Exponential from 100 ms to a minute and, for a
// timer, its interval.
func WithBackoff(b Backoff) Option {
	return func(c *common) { c.backoff = b }
}

// WithOnFailure sets a function to call when the job has failed for good, such as Shutdown of a hive.Shutdowner. Stopping a job is no
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

// Backoff returns the delay after the given number of failures in a row, at least 1. It is called by one goroutine at a time.
type Backoff func(failures int) time.Duration

// Exponential returns a Backoff that doubles from first up to last. If first is not positive, it is 100 ms.
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

// doubled returns twice d, at most limit, without overflow.
func doubled(d, limit time.Duration) time.Duration {
	if d > limit/2 {
		return limit
	}
	return 2 * d
}
