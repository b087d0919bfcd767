package job

import (
	"context"
	"fmt"

	"github.com/statehive/statehive/hive/health"
)

type oneShot struct {
	common

	fn Func
}

// OneShot returns a job that runs fn once. While it runs, its health is OK, or whatever fn reports; then it is stopped or, after an
// error, degraded. During a retry (see WithRetries) it stays degraded until fn reports OK or returns: only fn knows when it has
// recovered.
func OneShot(name string, fn Func, opts ...Option) Job {
	o := &oneShot{common: common{name: name, idle: fn == nil, backoff: Exponential(firstDelay, lastDelay)}, fn: fn}
	o.apply(opts)
	return o
}

func (o *oneShot) kind() string { return kindOneShot }

func (o *oneShot) run(ctx context.Context, w *work) error {
	w.health.say(health.OK, "running")
	for failures := 1; ; failures++ {
		err := w.call(ctx, o.fn)
		switch {
		case ctx.Err() != nil:
			return w.stopped(ctx, err)
		case err == nil:
			w.health.say(health.Stopped, "completed")
			return nil
		case o.exhausted(failures):
			return err
		}
		delay := o.backoff(failures)
		w.logger().Warn("Job failed, will be tried again", "attempts", failures, "after", delay, "error", err)
		w.health.Degraded(fmt.Sprintf("failed %d times, next attempt after %v", failures, delay), err)
		if !w.pause(ctx, delay) {
			return w.stopped(ctx, nil)
		}
	}
}
