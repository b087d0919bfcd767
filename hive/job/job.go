package job

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
)

// Func is the work of a job. It must return soon after its context is done. The health scope is the job's own. A panic is an error, a
// *cell.PanicError. So is the end of the goroutine, cell.ErrGoexit: such a job has failed for good, whatever its options.
type Func func(ctx context.Context, health health.Health) error

// Job is background work that a Group runs. Make one with OneShot, Timer, Observer or TableObserver. A Job is for one Add.
type Job interface {
	kind() string
	options() *common
	// run returns why the job has failed for good; nil if it has completed or was stopped.
	run(ctx context.Context, w *work) error
}

// Kinds of jobs, as people see them.
const (
	kindOneShot  = "one-shot"
	kindTimer    = "timer"
	kindObserver = "observer"
)

// work is what a job has while it runs.
type work struct {
	health *jobHealth
	logger func() *slog.Logger
	record *record
}

// call is one run. A panic is an error; so is the end of the goroutine, which is noted, but from which call does not return.
func (w *work) call(ctx context.Context, fn Func) (err error) {
	w.record.begin()
	err = cell.ErrGoexit
	defer func() {
		if p := recover(); p != nil {
			err = &cell.PanicError{Value: p, Stack: debug.Stack()}
		}
		if ctx.Err() != nil {
			w.record.end(nil) // it was stopped
			return
		}
		w.record.end(err)
	}()
	return fn(ctx, w.health)
}

// pause waits for d, after which the next run is due, and reports whether ctx is still alive then.
func (w *work) pause(ctx context.Context, d time.Duration) bool {
	w.record.due(d)
	return sleep(ctx, d)
}

// stopped ends the health of a job whose context is done, which is no failure: it returns nil. An err that says more than that
// is logged.
func (w *work) stopped(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		w.logger().Warn("Job failed while it was being stopped", "error", err)
	}
	w.health.Stopped("stopped")
	return nil
}

// sleep waits for d and reports whether ctx is still alive then.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
