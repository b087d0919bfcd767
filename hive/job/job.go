package job

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/internal/lifecycle"
)

// Func is the work of a job. It must return soon after its context is done. The health scope is the job's own. A panic is an error, a
// *cell.PanicError. So is runtime.Goexit, cell.ErrGoexit, after which the job has failed for good, whatever its options.
type Func func(ctx context.Context, health health.Health) error

// Job is background work that a Group runs. Create it with OneShot, Timer, Observer or TableObserver. Add it only once.
type Job interface {
	kind() string
	options() *common
	// run returns why the job has failed for good; nil if it has completed or was stopped.
	run(ctx context.Context, w *work) error
}

// Kinds of jobs, as shown in Status.
const (
	kindOneShot  = "one-shot"
	kindTimer    = "timer"
	kindObserver = "observer"
)

// work is the state of a running job.
type work struct {
	health *jobHealth
	logger func() *slog.Logger
	record *record
	cancel context.CancelFunc // ends the job
}

// call performs one run. A panic is an error; so is runtime.Goexit, which is recorded, but from which call does not return. After a run
// that fails because the hive is stopping, the job is being stopped: ctx is done.
func (w *work) call(ctx context.Context, fn Func) (err error) {
	w.record.begin()
	err = cell.ErrGoexit
	defer func() {
		if p := recover(); p != nil {
			err = &cell.PanicError{Value: p, Stack: debug.Stack()}
		}
		if errors.Is(err, lifecycle.ErrStopping) && w.record.registry.stopping.Load() {
			w.cancel()
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

// stopped sets the health of a job whose context is done. It returns nil, because that is no failure, and logs err unless it is only
// the end of the context.
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
