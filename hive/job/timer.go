package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// TimerOption changes how a timer runs. Every Option is a TimerOption.
type TimerOption interface{ applyTimer(t *timer) }

func (o Option) applyTimer(t *timer) { o(&t.common) }

type timerOption func(*timer)

func (o timerOption) applyTimer(t *timer) { o(t) }

// WithTrigger makes the timer also run when t is triggered. Use a trigger for one timer only.
func WithTrigger(t *Trigger) TimerOption {
	return timerOption(func(j *timer) { j.triggered = t.pending })
}

// WithDebounce delays a triggered run by d, so that the triggers within that time cause only one run.
func WithDebounce(d time.Duration) TimerOption {
	return timerOption(func(j *timer) { j.debounce = d })
}

// WithJitter lengthens or shortens each interval by a random duration of up to d, so that many machines do not act at once.
func WithJitter(d time.Duration) TimerOption {
	return timerOption(func(j *timer) { j.jitter = d })
}

// WithImmediateRun makes the first run begin when the job starts instead of an interval later.
func WithImmediateRun() TimerOption {
	return timerOption(func(j *timer) { j.immediately = true })
}

// Trigger asks a timer to run now. Use NewTrigger. It is safe for concurrent use.
type Trigger struct{ pending chan struct{} }

// NewTrigger returns a trigger for WithTrigger.
func NewTrigger() *Trigger { return &Trigger{pending: make(chan struct{}, 1)} }

// Trigger requests a run that begins after this call. Calls before that run begins are merged; none is lost, even before the timer
// starts. It does not block.
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
	rhythm      string          // health message, the same after each run so that health is not rewritten

	failures int         // in a row
	clock    *time.Timer // nil before it is first used
}

// Timer returns a job that runs fn repeatedly, each time an interval after the end of the last run. If interval is not positive, it
// runs only when triggered. The health of the job is the result of its last run: fn should report anything else in a nested scope.
// With WithBackoff, the backoff replaces the interval after a failed run.
func Timer(name string, fn Func, interval time.Duration, opts ...TimerOption) Job {
	t := &timer{common: common{name: name, idle: fn == nil, retries: -1}, fn: fn, interval: interval, rhythm: "ran, when triggered"}
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

// wait waits until a run is due and returns true, or until ctx is done and returns false.
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

// delay returns the time from the last run to the next; false if only a trigger starts it.
func (t *timer) delay() (time.Duration, bool) {
	if t.failures > 0 && t.backoff != nil {
		return t.backoff(t.failures), true
	}
	return t.nextInterval(), t.interval > 0
}

// after is like time.After, but reuses one timer.
func (t *timer) after(d time.Duration) <-chan time.Time {
	if t.clock == nil {
		t.clock = time.NewTimer(d)
	} else {
		t.clock.Reset(d)
	}
	return t.clock.C
}

// nextInterval returns the interval with jitter.
func (t *timer) nextInterval() time.Duration {
	if t.jitter <= 0 {
		return t.interval
	}
	spread := min(t.jitter, t.interval)
	return t.interval - spread + rand.N(2*spread+1)
}

// drain consumes a pending trigger, which the run about to begin serves.
func (t *timer) drain() {
	select {
	case <-t.triggered:
	default:
	}
}
