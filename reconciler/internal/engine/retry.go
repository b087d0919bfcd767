package engine

import (
	"errors"
	"time"

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

// nextTry is asked when an outcome has been written (settle). The queue keeps the
// item until the time that it answers (queue.wait), and then makes it ready in the
// lane of retries (queue.wake).
//
// It returns when the operation is to be repeated after so many failures;
// due is zero when only a new spec can help. Not again means that the row is done
// with. The answer is always the same, although there is chance in it.
func (l *loop) nextTry(out *outcome, attempts int, now time.Time) (due time.Time, again bool) {
	if out.err == nil {
		return now.Add(out.result.Again), out.result.Again > 0
	}
	delay, given := retryDelay(out.err)
	switch {
	case isTerminal(out.err):
		return time.Time{}, true
	case given && delay > 0:
	case out.delay > 0:
		delay = out.delay
	default:
		delay = l.r.p.Config.backoff(attempts, l.r.random)
		out.delay = delay
	}
	return now.Add(delay), true
}

// random returns numbers in [0,1): math/rand's, unless a test wants the same again.
type random func() float64

// backoff returns how long to wait after a number of failed attempts.
func (c Config) backoff(attempts int, random random) time.Duration {
	return backoff.Backoff{Min: c.MinBackoff, Max: c.MaxBackoff}.After(attempts, random)
}

// Attempt is an operation that failed.
type Attempt struct {
	At        time.Time     `json:"at"`
	Took      time.Duration `json:"took"` // in nanoseconds
	Operation string        `json:"operation"`
	Reasons   string        `json:"reasons"` // why it ran
	Error     string        `json:"error"`
}

// keptAttempts is how many are kept of a row that is not done.
const keptAttempts = 5

func (it *item) remember(a Attempt) {
	if len(it.tries) == keptAttempts {
		it.tries = it.tries[1:]
	}
	it.tries = append(it.tries, a)
}
