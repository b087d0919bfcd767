// Package job runs whatever an application does in the background.
package job

import (
	"context"
	"errors"
	"time"

	"github.com/statehive/statehive/hive/health"
)

// ErrStopped is returned by Add once the group has stopped.
var ErrStopped = errors.New("job group has stopped")

// Func is the work of a job. It must return soon after its context is done. The health scope is the job's own, named after it.
type Func func(ctx context.Context, health health.Health) error

// Job is background work that a Group runs. Make one with OneShot or Timer.
type Job interface {
	run(ctx context.Context)
}

// Group runs jobs. It is injectable; each module has its own, named after it. It is safe for concurrent use.
type Group interface {
	// Add runs jobs: from the start of the hive on, or at once if it has started. It fails with ErrStopped after the stop, and
	// with health.ErrDuplicate for a name that another job of the group has.
	Add(jobs ...Job) error
}

// OneShotOption changes how a one-shot job runs.
type OneShotOption func(*oneShot)

// TimerOption changes how a timer job runs.
type TimerOption func(*timer)

type (
	oneShot struct{}
	timer   struct{}
)

func (*oneShot) run(context.Context) {}
func (*timer) run(context.Context)   {}

// OneShot is a job that runs fn once.
func OneShot(name string, fn Func, opts ...OneShotOption) Job { return &oneShot{} }

// Timer is a job that runs fn every interval; with 0 only when triggered.
func Timer(name string, fn Func, interval time.Duration, opts ...TimerOption) Job { return &timer{} }

// Retry has a failing job run again, up to times more (for ever if negative), after a delay that doubles from first to last.
func Retry(times int, first, last time.Duration) OneShotOption { return func(*oneShot) {} }

// WithTrigger has the timer also run when t is triggered.
func WithTrigger(t *Trigger) TimerOption { return func(*timer) {} }

// Debounce has a triggered run wait for d, to collect further triggers.
func Debounce(d time.Duration) TimerOption { return func(*timer) {} }

// Trigger asks a timer to run now. Use NewTrigger. It is safe for concurrent use.
type Trigger struct{ c chan struct{} }

// NewTrigger returns a trigger for WithTrigger.
func NewTrigger() *Trigger { return &Trigger{c: make(chan struct{}, 1)} }

// Trigger asks for a run that begins after this call. Calls before that run begins are one; none is lost.
func (t *Trigger) Trigger() {
	select {
	case t.c <- struct{}{}:
	default:
	}
}
