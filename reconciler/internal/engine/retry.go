package engine

import (
	"errors"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"

	"github.com/statehive/statehive/internal/backoff"
)

// Terminal marks an error that repeating does not mend: the row is not tried
// again until its spec changes or a full pass comes to it. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// RetryAfter sets the time after which a failed operation is tried again, in
// place of the backoff, which stays if d is not positive. RetryAfter(d, nil) is nil.
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

// isTerminal says whether err is not to be retried.
func isTerminal(err error) bool {
	var terminal *terminalError
	return errors.As(err, &terminal)
}

// retryDelay returns the time that [RetryAfter] set.
func retryDelay(err error) (time.Duration, bool) {
	var retry *retryAfterError
	if !errors.As(err, &retry) {
		return 0, false
	}
	return retry.after, true
}

// nextTry returns the stage that follows an outcome after so many failures in a row, and
// when it ends: at rest the row is done with, and after a terminal error only something else
// helps. The answer is always the same, although there is chance in it.
func (l *loop) nextTry(out *pool.Task, attempts int, now time.Time) (stage workqueue.Stage, due time.Time) {
	switch {
	case out.Err == nil && out.Result.Again > 0:
		return workqueue.Again, now.Add(out.Result.Again)
	case out.Err == nil:
		return workqueue.Rest, time.Time{}
	}
	delay, given := retryDelay(out.Err)
	switch {
	case isTerminal(out.Err):
		return workqueue.Terminal, time.Time{}
	case given && delay > 0:
	case out.Delay > 0:
		delay = out.Delay
	default:
		delay = l.r.p.Config.backoff(attempts, l.r.random)
		out.Delay = delay
	}
	return workqueue.Backoff, now.Add(delay)
}

// random returns numbers in [0,1): math/rand's, unless a test wants the same again.
type random func() float64

// backoff returns how long to wait after a number of failed attempts.
func (c Config) backoff(attempts int, random random) (delay time.Duration) {
	if c.Backoff != nil && pool.Guard(func() { delay = c.Backoff(attempts) }) == nil && delay > 0 {
		return delay
	}
	return backoff.Backoff{Min: c.MinBackoff, Max: c.MaxBackoff}.After(attempts, random)
}

// Attempt is an operation that failed.
type Attempt = workqueue.Attempt
