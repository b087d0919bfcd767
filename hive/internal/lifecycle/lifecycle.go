// Package lifecycle starts hooks in the order in which they were appended and stops them in reverse.
//
// Hooks run one at a time, each on its own goroutine, so that one that ignores its deadline can be named and abandoned. A Lifecycle
// can be started once. It is safe for concurrent use.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
	"github.com/statehive/statehive/hive/internal/guard"
)

// slow is the interval at which a hook that is still running is logged.
const slow = 5 * time.Second

var (
	// ErrStarted is returned by a start that is not the first.
	ErrStarted = errors.New("has been started already")
	// ErrNotStarted is returned by a stop that has nothing to stop.
	ErrNotStarted = errors.New("has not been started, or has been stopped already")
	// ErrStopping is hive.ErrStopping.
	ErrStopping = errors.New("the hive is stopping")
)

type state int

const (
	idle state = iota
	starting
	up // started, or failed to: there is something to stop
	stopping
	stopped
)

// Lifecycle is a list of hooks. Use New.
type Lifecycle struct {
	// OnClose, if not nil, is called when the stop begins, after the closing functions and before the stop hooks. Set it before the
	// start.
	OnClose func()

	logger *slog.Logger

	mu    sync.Mutex
	state state
	hooks []*hook
	ends  map[cell.FullModuleID]int // number of hooks when the last function of a module returned
	late  []error                   // hooks that came too late to be started
}

// New returns an empty lifecycle that logs to logger.
func New(logger *slog.Logger) *Lifecycle {
	return &Lifecycle{logger: logger, ends: make(map[cell.FullModuleID]int)}
}

// For returns the lifecycle as a module sees it.
func (l *Lifecycle) For(owner cell.FullModuleID) Dynamic {
	return &owned{lifecycle: l, owner: owner}
}

type owned struct {
	lifecycle *Lifecycle
	owner     cell.FullModuleID
}

// Append implements cell.Lifecycle.
func (o *owned) Append(h cell.Hook) { o.lifecycle.append(newHook(o.owner, h, description.Caller())) }

func (l *Lifecycle) append(h *hook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state > starting {
		err := &cell.HookError{Hook: h.name, Action: "start", Err: errors.New("appended after the start: it was never run")}
		l.late = append(l.late, err)
		l.logger.Error("A hook was appended too late and does not run", "hook", h.name)
		return
	}
	l.hooks = append(l.hooks, h)
}

// enter goes to a state, if the lifecycle is in the one before.
func (l *Lifecycle) enter(next state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != next-1 {
		return false
	}
	l.state = next
	return true
}

// Start runs the start hooks until one fails; the caller must then call Stop. It returns ErrStarted or a *cell.HookError.
func (l *Lifecycle) Start(ctx context.Context) error {
	if !l.enter(starting) {
		return ErrStarted
	}
	for i := 0; ; i++ {
		h := l.next(i)
		if h == nil {
			return nil
		}
		if err := l.start(ctx, h); err != nil {
			l.enter(up)
			return err
		}
	}
}

// next returns the next hook to start. If there is none, it returns nil and ends the start.
func (l *Lifecycle) next(i int) *hook {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < len(l.hooks) {
		return l.hooks[i]
	}
	l.state = up
	return nil
}

func (l *Lifecycle) start(ctx context.Context, h *hook) error {
	if ctx.Err() != nil {
		return &cell.HookError{Hook: h.name, Action: "start", Err: fmt.Errorf("not reached: %w", context.Cause(ctx))}
	}
	before := l.len()
	err := l.run(h, "start", h.OnStart, newPatience(ctx))
	if l.len() > before {
		l.Reached(h.report.Module)
	}
	if errors.Is(err, cell.ErrOverdue) {
		return err
	}
	h.entered = true
	return err
}

// adopt starts a hook that was appended after the start. Stop returns its error.
func (l *Lifecycle) adopt(h *hook) {
	if err := l.run(h, "start", h.OnStart, newPatience(context.Background())); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.late = append(l.late, err)
	}
}

// Stop runs the stop hooks of all started hooks in reverse order, even if some fail or the deadline has passed. It returns
// ErrNotStarted, or all errors of hooks, joined, each a *cell.HookError.
func (l *Lifecycle) Stop(ctx context.Context) error {
	if !l.enter(stopping) {
		return ErrNotStarted
	}
	order := l.close()
	var errs []error
	p := newPatience(ctx)
	for _, h := range order {
		if h.entered {
			errs = append(errs, l.run(h, "stop", h.OnStop, p))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = stopped
	return errors.Join(append(errs, l.late...)...)
}

// Abandon closes what is dynamic in a lifecycle that was not started and is not going to be.
func (l *Lifecycle) Abandon() {
	if l.enter(starting) && l.enter(up) && l.enter(stopping) {
		l.close()
	}
}

// close closes what is dynamic and returns all hooks in stop order.
func (l *Lifecycle) close() []*hook {
	order := l.stopOrder()
	for _, h := range slices.Backward(order) { // jobs, on which sub-lifecycles depend, before these
		if h.closing != nil {
			h.closing()
		}
	}
	if l.OnClose != nil {
		l.OnClose()
	}
	return order
}

// run calls a function of a hook and waits for it. If the hook is abandoned, the error wraps cell.ErrOverdue.
func (l *Lifecycle) run(h *hook, action string, fn func(context.Context) error, p *patience) error {
	if fn == nil {
		return nil
	}
	began := time.Now()
	during, cancel := h.during(p.context(), action)
	defer cancel()
	l.note(h, action, Running, 0, nil)
	overdue, err := Await(during, guard.Go(func() error { return fn(during) }), func(since time.Duration) {
		l.logger.Warn("Still waiting for a hook", "hook", h.name, "action", action, "since", since)
	}, p.left)
	switch cause := context.Cause(during); {
	case overdue:
		l.logger.Error("Abandoned an overdue hook", "hook", h.name, "action", action)
		err = fmt.Errorf("%w: %w", cell.ErrOverdue, err)
	case p.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && cause != nil && !errors.Is(err, cause):
		err = fmt.Errorf("%w (hook timeout of %v)", err, h.Timeout)
	}
	took := time.Since(began)
	l.note(h, action, Ran, took, err)
	l.logger.Debug("Ran hook", "hook", h.name, "action", action, "duration", took, "error", err)
	if err == nil {
		return nil
	}
	return &cell.HookError{Hook: h.name, Action: action, Err: err}
}

// Await waits for the result of a call, and periodically calls still. Once ctx is done, it waits for another left(), or a grace period
// if left is nil; after that the call is overdue, and the error is the cause of ctx.
func Await(
	ctx context.Context, done <-chan error, still func(since time.Duration), left func() time.Duration,
) (overdue bool, err error) {
	ticker := time.NewTicker(slow)
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case err := <-done:
			return false, err
		case <-ticker.C:
			still(time.Since(began))
		case <-ctx.Done():
			more := grace
			if left != nil {
				more = left()
			}
			return awaitOverdue(ctx, done, more)
		}
	}
}

// awaitOverdue waits for a call whose context is done.
func awaitOverdue(ctx context.Context, done <-chan error, more time.Duration) (overdue bool, err error) {
	timer := time.NewTimer(more)
	defer timer.Stop()
	select {
	case err := <-done:
		return false, err
	case <-timer.C:
		return true, context.Cause(ctx)
	}
}
