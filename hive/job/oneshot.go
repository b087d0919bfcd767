package job

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// OneShotOption changes how a one-shot job runs.
type OneShotOption func(*oneShot)

// Retry has a failing job run again, up to times more (for ever if negative), after a delay that doubles from first to last.
// Delays that are not positive become 100 ms.
func Retry(times int, first, last time.Duration) OneShotOption {
	return func(o *oneShot) {
		if first <= 0 {
			first = 100 * time.Millisecond
		}
		o.retries, o.first, o.last = times, first, max(first, last)
	}
}

// OnFailure has fn called when the job has failed for good, such as Shutdown of a hive.Shutdowner.
func OnFailure(fn func(error)) OneShotOption {
	return func(o *oneShot) { o.failed = fn }
}

type oneShot struct {
	name        string
	fn          Func
	retries     int
	first, last time.Duration
	failed      func(error)
}

// OneShot is a job that runs fn once. Its health is OK, or what fn reports, while it runs; then stopped or, after an error,
// degraded. With Retry it stays degraded while fn runs again, until fn reports that it is well, or returns: only fn knows when it
// is past what made it fail.
func OneShot(name string, fn Func, opts ...OneShotOption) Job {
	o := &oneShot{name: name, fn: fn, failed: func(error) {}}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

func (o *oneShot) jobName() string { return o.name }

func (o *oneShot) kind() string { return kindOneShot }

func (o *oneShot) run(ctx context.Context, w *work) error {
	w.health.OK("running")
	delay := o.first
	for attempt := 1; ; attempt++ {
		err := w.call(ctx, o.fn)
		switch {
		case ctx.Err() != nil:
			return w.stopped(ctx, err)
		case err == nil:
			w.health.Stopped("completed")
			return nil
		case o.retries >= 0 && attempt > o.retries:
			w.logger.Error("Job failed", "attempts", attempt, "error", err)
			w.health.Degraded("failed", err)
			o.failed(err)
			return err
		}
		w.logger.Warn("Job failed, will be tried again", "attempts", attempt, "after", delay, "error", err)
		w.health.Degraded(fmt.Sprintf("failed %d times, next attempt after %v", attempt, delay), err)
		w.record.due(time.Now().Add(delay))
		if !sleep(ctx, delay) {
			return w.stopped(ctx, nil)
		}
		delay = doubled(delay, o.last)
	}
}

// doubled is twice d, up to limit; it cannot overflow.
func doubled(d, limit time.Duration) time.Duration {
	if d > limit/2 {
		return limit
	}
	return 2 * d
}

// stopped ends the health of a job whose context is done, which is no failure: it returns nil. An err that says more than that
// is logged.
func (w *work) stopped(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		w.logger.Warn("Job failed while it was being stopped", "error", err)
	}
	w.health.Stopped("stopped")
	return nil
}
