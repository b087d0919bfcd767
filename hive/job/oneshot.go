package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/statehive/statehive/hive/health"
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

func (o *oneShot) run(ctx context.Context, h health.Health, logger *slog.Logger) {
	h.OK("running")
	delay := o.first
	for attempt := 1; ; attempt++ {
		err := call(ctx, o.fn, h)
		switch {
		case ctx.Err() != nil:
			reportStopped(ctx, h, logger, err)
			return
		case err == nil:
			h.Stopped("completed")
			return
		case o.retries >= 0 && attempt > o.retries:
			logger.Error("Job failed", "attempts", attempt, "error", err)
			h.Degraded("failed", err)
			o.failed(err)
			return
		}
		logger.Warn("Job failed, will be tried again", "attempts", attempt, "after", delay, "error", err)
		h.Degraded(fmt.Sprintf("failed %d times, next attempt after %v", attempt, delay), err)
		if !sleep(ctx, delay) {
			reportStopped(ctx, h, logger, nil)
			return
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

// reportStopped ends the health of a job whose context is done; an error that says just that is none.
func reportStopped(ctx context.Context, h health.Health, logger *slog.Logger, err error) {
	if err != nil && !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		logger.Warn("Job failed while it was being stopped", "error", err)
	}
	h.Stopped("stopped")
}
