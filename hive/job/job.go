package job

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/statehive/statehive/hive/health"
)

// Func is the work of a job. It must return soon after its context is done. The health scope is the job's own.
type Func func(ctx context.Context, health health.Health) error

// Job is background work that a Group runs. Make one with OneShot, Timer, Observer or TableObserver. A Job is for one Add.
type Job interface {
	jobName() string
	kind() string
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
	health health.Health
	logger *slog.Logger
	record *record
}

// call is one run.
func (w *work) call(ctx context.Context, fn Func) error {
	w.record.begin()
	err := call(ctx, fn, w.health)
	told := err
	if ctx.Err() != nil {
		told = nil // it was stopped
	}
	w.record.end(told)
	return err
}

// PanicError is a panic of a job.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the goroutine, as text
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// call runs fn with panics as errors.
func call(ctx context.Context, fn Func, h health.Health) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return fn(ctx, h)
}

// sleep waits for d and says whether ctx is still alive then.
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
