package job

import (
	"context"
	"errors"
	"time"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/statedb"
)

const (
	observerFirst = 100 * time.Millisecond
	observerLast  = time.Minute
)

// Observer is a job that calls fn for each event until the channel is closed. An event that fn refuses does not come again;
// the health of the job is how the last call of fn ended.
func Observer[T any](name string, events <-chan T, fn func(ctx context.Context, health health.Health, event T) error) Job {
	return &observer{name: name, follow: func(ctx context.Context, w *work) error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case e, ok := <-events:
				if !ok {
					return nil
				}
				_ = w.observe(ctx, func(ctx context.Context, h health.Health) error { return fn(ctx, h, e) }) // it was reported
			}
		}
	}}
}

// TableObserver is a job that calls fn with everything that happens to a table, as statedb.Follow does: first with a listing.
// When fn returns an error the job is degraded and, after a delay that doubles from 100 ms to a minute, starts over with a
// listing: so nothing is lost. It ends when the table is dropped.
func TableObserver[Obj any](
	name string, table *statedb.Table[Obj], options statedb.FollowOptions,
	fn func(ctx context.Context, health health.Health, batch statedb.Batch[Obj]) error,
) Job {
	o := &observer{name: name}
	o.follow = func(ctx context.Context, w *work) error {
		for delay := observerFirst; ; delay = doubled(delay, observerLast) {
			var failed error
			err := statedb.Follow(ctx, table, options, func(ctx context.Context, b statedb.Batch[Obj]) error {
				failed = w.observe(ctx, func(ctx context.Context, h health.Health) error { return fn(ctx, h, b) })
				if failed == nil {
					delay = observerFirst
				}
				return failed
			})
			if failed == nil || ctx.Err() != nil {
				return err
			}
			options.After = 0
			w.record.due(time.Now().Add(delay))
			if !sleep(ctx, delay) {
				return ctx.Err()
			}
		}
	}
	return o
}

type observer struct {
	name   string
	follow func(ctx context.Context, w *work) error
}

func (o *observer) jobName() string { return o.name }

func (o *observer) kind() string { return kindObserver }

func (o *observer) run(ctx context.Context, w *work) error {
	w.health.OK("observing")
	err := o.follow(ctx, w)
	switch {
	case ctx.Err() != nil:
		return w.stopped(ctx, err)
	case err == nil, errors.Is(err, statedb.ErrDropped):
		return w.ended("what it observed has ended")
	}
	w.logger.Error("Job failed", "error", err)
	w.health.Degraded("failed", err)
	return err
}

// ended ends the health of a job that has nothing more to do.
func (w *work) ended(why string) error {
	w.health.Stopped(why)
	return nil
}

// observe calls fn as one run.
func (w *work) observe(ctx context.Context, fn Func) error {
	err := w.call(ctx, fn)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.logger.Warn("Observer failed", "error", err)
		w.health.Degraded("the last run failed", err)
	default:
		w.health.OK("observing")
	}
	return err
}
