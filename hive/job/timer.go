package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// TimerOption changes how a timer job runs.
type TimerOption func(*timer)

// WithTrigger has the timer also run when t is triggered. A trigger is for one timer.
func WithTrigger(t *Trigger) TimerOption {
	return func(j *timer) { j.triggered = t.pending }
}

// Debounce has a triggered run wait for d, so that the triggers of that time make one run.
func Debounce(d time.Duration) TimerOption {
	return func(j *timer) { j.debounce = d }
}

// Jitter makes each interval longer or shorter by a random time of up to d, so that many machines do not act at once.
func Jitter(d time.Duration) TimerOption {
	return func(j *timer) { j.jitter = d }
}

// Immediately has the first run begin when the job starts, not an interval later.
func Immediately() TimerOption {
	return func(j *timer) { j.immediately = true }
}

// Trigger asks a timer to run now. Use NewTrigger. It is safe for concurrent use.
type Trigger struct{ pending chan struct{} }

// NewTrigger returns a trigger for WithTrigger.
func NewTrigger() *Trigger { return &Trigger{pending: make(chan struct{}, 1)} }

// Trigger asks for a run that begins after this call. Calls before that run begins are one; none is lost, also those made
// before the timer starts. It does not block.
func (t *Trigger) Trigger() {
	select {
	case t.pending <- struct{}{}:
	default:
	}
}

type timer struct {
	name        string
	fn          Func
	interval    time.Duration
	jitter      time.Duration
	debounce    time.Duration
	immediately bool
	triggered   <-chan struct{} // nil without a trigger
}

// Timer is a job that runs fn again and again, interval after its last run ended; with an interval that is not positive only
// when triggered. The health of the job is how its last run ended: what else fn has to report belongs in a scope of its own
// below.
func Timer(name string, fn Func, interval time.Duration, opts ...TimerOption) Job {
	t := &timer{name: name, fn: fn, interval: interval}
	for _, opt := range opts {
		opt(t)
	}
	return t
}

func (t *timer) jobName() string { return t.name }

func (t *timer) kind() string { return kindTimer }

func (t *timer) run(ctx context.Context, w *work) error {
	w.health.OK("waiting for its first run")
	if t.immediately {
		t.once(ctx, w)
	}
	for t.wait(ctx, w) {
		t.once(ctx, w)
	}
	w.health.Stopped("stopped")
	return nil
}

// wait returns true when a run is due, false when ctx is done.
func (t *timer) wait(ctx context.Context, w *work) bool {
	var tick <-chan time.Time
	if t.interval > 0 {
		d := t.nextInterval()
		w.record.due(time.Now().Add(d))
		timer := time.NewTimer(d)
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-ctx.Done():
	case <-tick:
	case <-t.triggered:
		if t.debounce > 0 && sleep(ctx, t.debounce) {
			t.drain()
		}
	}
	return ctx.Err() == nil
}

// nextInterval is the interval, more or less.
func (t *timer) nextInterval() time.Duration {
	if t.jitter <= 0 {
		return t.interval
	}
	spread := min(t.jitter, t.interval)
	return t.interval - spread + rand.N(2*spread+1)
}

// drain takes a trigger that the run which is about to begin will serve.
func (t *timer) drain() {
	select {
	case <-t.triggered:
	default:
	}
}

func (t *timer) once(ctx context.Context, w *work) {
	switch err := w.call(ctx, t.fn); {
	case ctx.Err() != nil:
		_ = w.stopped(ctx, err) // always nil
	case err != nil:
		w.logger.Warn("Run of a timer failed", "error", err)
		w.health.Degraded("the last run failed", err)
	default:
		w.health.OK(fmt.Sprintf("ran, %s", t.rhythm()))
	}
}

// rhythm is the same after each run, so that it writes no health.
func (t *timer) rhythm() string {
	if t.interval > 0 {
		return fmt.Sprintf("every %v", t.interval)
	}
	return "when triggered"
}
