package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/guard"
)

// slow is the interval at which a job that does not end is logged.
const slow = 5 * time.Second

// runner is a job with the goroutine that runs it.
type runner struct {
	job    Job
	group  *group
	id     string // of its row and of its health
	name   string // the id within the module
	health *jobHealth
	record *record
	placed bool // started and stopped by its own hook

	started atomic.Bool        // cancel is set
	cancel  context.CancelFunc // set by the start
	done    chan struct{}      // closed when the job has ended
	// How it ended is set before done is closed.
	failed  bool // for good
	stopped bool
}

// startAll is called once for a job, and before stopAll.
func startAll(rs []*runner) {
	for _, r := range rs {
		ctx, cancel := context.WithCancel(context.Background())
		r.cancel = cancel
		r.started.Store(true)
		go func() {
			defer r.group.ended(r)
			defer cancel()
			r.run(ctx)
		}()
	}
}

// run runs the job. It survives runtime.Goexit and panics outside the job's function, such as in a Backoff. The goroutine, and those
// that it starts, have labels in profiles.
func (r *runner) run(ctx context.Context) {
	ctx = pprof.WithLabels(ctx, pprof.Labels("module", string(r.group.params.ID), "job", r.name))
	pprof.SetGoroutineLabels(ctx)
	err := cell.ErrGoexit
	defer func() {
		if p := recover(); p != nil {
			err = &cell.PanicError{Value: p, Stack: debug.Stack()}
		}
		r.close(ctx, err)
	}()
	err = r.job.run(ctx, &work{health: r.health, logger: r.logger, record: r.record, cancel: r.cancel})
}

// close records how the job ended.
func (r *runner) close(ctx context.Context, err error) {
	if ctx.Err() != nil {
		if err != nil {
			r.logger().Warn("Job failed while it was being stopped", "error", err)
			r.health.Stopped("stopped")
		}
		r.stopped = true
		r.record.close(true, nil)
		return
	}
	if err != nil {
		r.fail(err)
		if fn := r.job.options().failed; fn != nil {
			r.onFailure(fn, err)
		}
	}
	// onFailure may have begun the stop, but the job has failed nonetheless.
	r.record.close(false, err)
}

func (r *runner) fail(err error) {
	r.failed = true
	r.logger().Error("Job failed", "error", err)
	r.health.Degraded("failed", err)
}

// onFailure calls the function of WithOnFailure, which may panic or end the goroutine.
func (r *runner) onFailure(fn func(error), err error) {
	if ended := <-guard.Go(func() error { fn(err); return nil }); ended != nil {
		r.fail(fmt.Errorf("the function of WithOnFailure: %w; it was called for: %w", ended, err))
	}
}

func (r *runner) logger() *slog.Logger { return r.group.params.Logger.With("job", r.name) }

func (r *runner) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// stopAll stops the jobs and waits for them until ctx is done. It returns an *OverdueError for each job that has not ended, joined. It
// may be called again.
func stopAll(ctx context.Context, rs []*runner) error {
	for _, r := range rs {
		if r.started.Load() {
			r.cancel()
		}
	}
	var errs []error
	for _, r := range rs {
		if r.started.Load() {
			errs = append(errs, r.wait(ctx))
		}
	}
	return errors.Join(errs...)
}

func (r *runner) wait(ctx context.Context) error {
	if r.ended() {
		return nil
	}
	ticker := time.NewTicker(slow)
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case <-r.done:
			return nil
		case <-ticker.C:
			r.logger().Warn("Still waiting for a job to end", "since", time.Since(began))
		case <-ctx.Done():
			name := fmt.Sprintf("%q of module %q", r.name, r.group.params.ID)
			return &OverdueError{Job: name, Err: context.Cause(ctx)}
		}
	}
}
