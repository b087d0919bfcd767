package job

import (
	"context"
	"errors"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/statedb"
)

type observer struct {
	common

	follow func(ctx context.Context, w *work) error
}

func newObserver(name string, idle bool, opts []Option) *observer {
	o := &observer{common: common{name: name, idle: idle, retries: -1, backoff: Exponential(firstDelay, lastDelay)}}
	o.apply(opts)
	return o
}

// Observer returns a job that calls fn for each event until the channel is closed. An event for which fn fails is repeated only with
// WithRetries. The health of the job is the result of the last call.
func Observer[T any](
	name string, events <-chan T, fn func(ctx context.Context, health health.Health, event T) error, opts ...Option,
) Job {
	o := newObserver(name, fn == nil, opts)
	o.follow = func(ctx context.Context, w *work) error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case e, ok := <-events:
				if !ok {
					return nil
				}
				if err := o.event(ctx, w, func(ctx context.Context, h health.Health) error { return fn(ctx, h, e) }); err != nil {
					return err
				}
			}
		}
	}
	return o
}

// event calls fn for one event and, with WithRetries, retries it. An error means that the job has failed for good.
func (o *observer) event(ctx context.Context, w *work, fn Func) error {
	for failures := 1; ; failures++ {
		err := w.observe(ctx, fn)
		switch {
		case err == nil || !o.limited:
			return nil
		case o.exhausted(failures):
			return err
		case !w.pause(ctx, o.backoff(failures)):
			return ctx.Err()
		}
	}
}

// TableObserver returns a job that calls fn with all changes of a table, as statedb.Follow does, beginning with a listing. If fn
// fails, the job is degraded and, after its backoff, starts over with a listing, so that no change is lost. It ends when the table is
// dropped.
func TableObserver[Obj any](
	name string, table *statedb.Table[Obj], options statedb.FollowOptions,
	fn func(ctx context.Context, health health.Health, batch statedb.Batch[Obj]) error, opts ...Option,
) Job {
	o := newObserver(name, fn == nil, opts)
	o.follow = func(ctx context.Context, w *work) error {
		for failures := 1; ; failures++ {
			var failed error
			err := statedb.Follow(ctx, table, options, func(ctx context.Context, b statedb.Batch[Obj]) error {
				failed = w.observe(ctx, func(ctx context.Context, h health.Health) error { return fn(ctx, h, b) })
				if failed == nil {
					failures = 1
				}
				return failed
			})
			switch {
			case failed == nil || ctx.Err() != nil || o.exhausted(failures):
				return err
			case !w.pause(ctx, o.backoff(failures)):
				return ctx.Err()
			}
			options.After = 0
		}
	}
	return o
}

func (o *observer) kind() string { return kindObserver }

func (o *observer) run(ctx context.Context, w *work) error {
	w.health.OK("observing")
	err := o.follow(ctx, w)
	switch {
	case ctx.Err() != nil:
		return w.stopped(ctx, err)
	case err == nil, errors.Is(err, statedb.ErrDropped):
		w.health.Stopped("what it observed has ended")
		return nil
	}
	return err
}

// observe calls fn as one run.
func (w *work) observe(ctx context.Context, fn Func) error {
	err := w.call(ctx, fn)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.logger().Warn("Observer failed", "error", err)
		w.health.Degraded("the last run failed", err)
	default:
		w.health.OK("observing")
	}
	return err
}
