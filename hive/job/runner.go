package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/statehive/statehive/hive/health"
)

// slow is how often a job that does not end is named in the log.
const slow = 5 * time.Second

// runner is a job with the goroutine that runs it.
type runner struct {
	job    Job
	name   string // with the module
	health health.Health
	logger *slog.Logger
	record *record
	placed bool // it is stopped by a hook of its own

	cancel context.CancelFunc
	start  chan struct{} // closed by the start
	done   chan struct{} // closed when the job has ended
}

func newRunner(j Job, p *Params, h health.Health) *runner {
	return &runner{
		job: j, name: fmt.Sprintf("%q of module %q", j.jobName(), p.ID), health: h, logger: p.Logger.With("job", j.jobName()),
		record: newRecord(p.Registry, p.ID, j),
		cancel: func() {}, start: make(chan struct{}), done: make(chan struct{}),
	}
}

// startAll is called once for a job, and before stopAll.
func startAll(rs []*runner) {
	for _, r := range rs {
		ctx, cancel := context.WithCancel(context.Background())
		r.cancel = cancel
		close(r.start)
		go func() {
			defer close(r.done)
			defer cancel()
			r.run(ctx)
		}()
	}
}

// run survives what the job's function does not do: a panic of what is called in its place, such as that of OnFailure, and
// the end of the goroutine (runtime.Goexit).
func (r *runner) run(ctx context.Context) {
	returned := false
	defer func() {
		if returned {
			return
		}
		err := errors.New("it ended its goroutine instead of returning")
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		r.logger.Error("Job failed", "error", err)
		r.health.Degraded("failed", err)
		r.record.close(false, err)
	}()
	err := r.job.run(ctx, &work{health: r.health, logger: r.logger, record: r.record})
	r.record.close(ctx.Err() != nil, err)
	returned = true
}

func (r *runner) started() bool { return isClosed(r.start) }

func (r *runner) ended() bool { return isClosed(r.done) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stopAll ends the jobs and waits for them, at most until ctx is done. Its errors are *OverdueError. It may be called again.
func stopAll(ctx context.Context, rs []*runner) error {
	for _, r := range rs {
		if r.started() {
			r.cancel()
		}
	}
	var errs []error
	for _, r := range rs {
		if r.started() {
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
			r.logger.Warn("Still waiting for a job to end", "since", time.Since(began))
		case <-ctx.Done():
			return &OverdueError{Job: r.name, Err: context.Cause(ctx)}
		}
	}
}
