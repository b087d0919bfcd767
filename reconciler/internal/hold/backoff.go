package hold

import (
	"errors"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"

	"github.com/statehive/statehive/internal/backoff"
)

// Terminal marks an error as permanent: the row is not retried until its spec changes or a full
// pass reaches it. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// RetryAfter sets the time after which a failed operation is retried, replacing the backoff if d is
// positive. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{d, err}
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

type retryAfterError struct {
	after time.Duration
	err   error
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// IsTerminal reports whether err is marked by [Terminal].
func IsTerminal(err error) bool {
	var terminal *terminalError
	return errors.As(err, &terminal)
}

// RetryDelay returns the time that [RetryAfter] set.
func RetryDelay(err error) (time.Duration, bool) {
	var retry *retryAfterError
	if !errors.As(err, &retry) {
		return 0, false
	}
	return retry.after, true
}

// Next returns the stage of a row after an outcome, and when it ends: Rest if nothing follows, or
// Terminal after a terminal error. Attempts is the number of consecutive failures. The delay is
// kept in the outcome, so that another call returns the same.
func (b Backoff) Next(out *pool.Task, attempts int, now time.Time) (stage workqueue.Stage, due time.Time) {
	switch {
	case out.Err == nil && out.Result.Again > 0:
		return workqueue.Again, now.Add(out.Result.Again)
	case out.Err == nil:
		return workqueue.Rest, time.Time{}
	}
	delay, given := RetryDelay(out.Err)
	switch {
	case IsTerminal(out.Err):
		return workqueue.Terminal, time.Time{}
	case given && delay > 0:
	case out.Delay > 0:
		delay = out.Delay
	default:
		delay = b.After(attempts)
		out.Delay = delay
	}
	return workqueue.Backoff, now.Add(delay)
}

// Backoff decides when a failed operation is retried.
type Backoff struct {
	Min, Max time.Duration
	Random   func() float64 // in [0,1)
	// Replaced, if set, returns the delay instead, unless it panics or its result is not positive.
	Replaced func(attempts int) time.Duration
}

// After returns how long to wait after a number of failed attempts.
func (b Backoff) After(attempts int) (delay time.Duration) {
	if b.Replaced != nil && pool.Guard(func() { delay = b.Replaced(attempts) }) == nil && delay > 0 {
		return delay
	}
	return backoff.Backoff{Min: b.Min, Max: b.Max}.After(attempts, b.Random)
}
