package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// TimerOption changes how a timer runs. An Option is one, too.
type TimerOption interface{ applyTimer(t *timer) }

func (o Option) applyTimer(t *timer) { o(&t.common) }

type timerOption func(*timer)

func (o timerOption) applyTimer(t *timer) { o(t) }

// WithTrigger has the timer also run when t is triggered. A trigger is for one timer.
func WithTrigger(t *Trigger) TimerOption {
	return timerOption(func(j *timer) { j.triggered = t.pending })
}

// WithDebounce has a triggered run wait for d, so that the triggers of that time make one run.
func WithDebounce(d time.Duration) TimerOption {
	return timerOption(func(j *timer) { j.debounce = d })
}

// WithJitter makes each interval longer or shorter by a random time of up to d, so that many machines do not act at once.
func WithJitter(d time.Duration) TimerOption {
	return timerOption(func(j *timer) { j.jitter = d })
}

// WithImmediateRun has the first run begin when the job starts, not an interval later.
func WithImmediateRun() TimerOption {
	return timerOption(func(j *timer) { j.immediately = true })
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
	common

	fn          Func
	interval    time.Duration
	jitter      time.Duration
	debounce    time.Duration
	immediately bool
	triggered   <-chan struct{} // nil without a trigger
	rhythm      string          // what its health says; the same after each run, so that it writes no health

	failures int         // in a row
	clock    *time.Timer // nil before it is first used
}

// Timer is a job that runs fn again and again, interval after its last run ended; with an interval that is not positive only
// when triggered. The health of the job is how its last run ended: what else fn has to report belongs in a scope of its own
// below. With WithBackoff the run after a failed one is due after the backoff in place of the interval.
func Timer(name string, fn Func, interval time.Duration, opts ...TimerOption) Job {
	t := &timer{common: common{name: name, retries: -1}, fn: fn, interval: interval, rhythm: "ran, when triggered"}
	if interval > 0 {
		t.rhythm = fmt.Sprintf("ran, every %v", interval)
	}
	for _, opt := range opts {
		opt.applyTimer(t)
	}
	return t
}

func (t *timer) kind() string { return kindTimer }

func (t *timer) run(ctx context.Context, w *work) error {
	w.health.OK("waiting for its first run")
	for due := t.immediately; ; due = false {
		if !due && !t.wait(ctx, w) {
			return w.stopped(ctx, nil)
		}
		err := w.call(ctx, t.fn)
		switch {
		case ctx.Err() != nil:
			return w.stopped(ctx, err)
		case err == nil:
			t.failures = 0
			w.health.OK(t.rhythm)
			continue
		}
		if t.failures++; t.exhausted(t.failures) {
			return err
		}
		w.logger().Warn("Run of a timer failed", "error", err)
		w.health.Degraded("the last run failed", err)
	}
}

// wait returns true when a run is due, false when ctx is done.
func (t *timer) wait(ctx context.Context, w *work) bool {
	var tick <-chan time.Time
	if d, due := t.delay(); due {
		w.record.due(d)
		tick = t.after(d)
		defer t.clock.Stop()
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

// delay is how long after the last run the next is due; false: when it is triggered.
func (t *timer) delay() (time.Duration, bool) {
	if t.failures > 0 && t.backoff != nil {
		return t.backoff(t.failures), true
	}
	return t.nextInterval(), t.interval > 0
}

// after uses one clock for all runs.
func (t *timer) after(d time.Duration) <-chan time.Time {
	if t.clock == nil {
		t.clock = time.NewTimer(d)
	} else {
		t.clock.Reset(d)
	}
	return t.clock.C
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
