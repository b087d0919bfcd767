// Package lifecycle starts hooks in the order in which they were appended and stops them in reverse.
//
// Hooks run one at a time, each on a goroutine of its own, so that one that ignores its deadline can be named and left
// behind. A Lifecycle can be started once. It is safe for concurrent use.
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
)

const (
	// slow is how often a hook that is still running is named in the log.
	slow = 5 * time.Second
	// grace is how long a hook may take to return once its context is done.
	grace = time.Second
)

var (
	// ErrStarted is returned by a start that is not the first.
	ErrStarted = errors.New("has been started already")
	// ErrNotStarted is returned by a stop that has nothing to stop.
	ErrNotStarted = errors.New("has not been started, or has been stopped already")
)

// HookError is a hook that has failed.
type HookError struct {
	Hook   string // name, module and place
	Action string // "start" or "stop"
	Err    error
}

func (e *HookError) Error() string { return fmt.Sprintf("%s hook %s: %v", e.Action, e.Hook, e.Err) }

// Unwrap returns what the hook returned.
func (e *HookError) Unwrap() error { return e.Err }

// ErrOverdue is wrapped by the HookError of a hook that did not return after its deadline, and may still be running.
var ErrOverdue = errors.New("overdue: it has not returned after its deadline")

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
	logger *slog.Logger

	mu    sync.Mutex
	state state
	hooks []*hook
	late  []error // hooks that came too late to be started
}

// New returns an empty lifecycle that logs to logger.
func New(logger *slog.Logger) *Lifecycle { return &Lifecycle{logger: logger} }

// For returns the lifecycle as a module sees it.
func (l *Lifecycle) For(owner cell.FullModuleID) cell.Lifecycle {
	return &owned{lifecycle: l, owner: owner}
}

type owned struct {
	lifecycle *Lifecycle
	owner     cell.FullModuleID
}

// Append implements cell.Lifecycle.
func (o *owned) Append(h cell.Hook) { o.lifecycle.append(newHook(o.owner, h)) }

func (l *Lifecycle) append(h *hook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state > starting {
		err := &HookError{Hook: h.name, Action: "start", Err: errors.New("appended after the start: it was never run")}
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

// Start runs the start hooks until one fails. What has been started then is to be stopped by Stop. Its errors are ErrStarted
// and *HookError.
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

// next returns the hook to start, or nil, and ends the start, if there is none.
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
		return &HookError{Hook: h.name, Action: "start", Err: fmt.Errorf("not reached: %w", context.Cause(ctx))}
	}
	err := l.run(ctx, h, "start", h.OnStart)
	if errors.Is(err, ErrOverdue) {
		return err
	}
	h.entered = true
	return err
}

// Stop runs the stop hooks of what has been started, in reverse, all of them even if some fail or the deadline is over. It
// returns all errors: ErrNotStarted or *HookError.
func (l *Lifecycle) Stop(ctx context.Context) error {
	if !l.enter(stopping) {
		return ErrNotStarted
	}
	var errs []error
	for _, h := range slices.Backward(l.hooks) {
		if h.entered {
			errs = append(errs, l.run(ctx, h, "stop", h.OnStop))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = stopped
	return errors.Join(append(errs, l.late...)...)
}

// run calls a function of a hook and waits for it. The error of a hook that is left behind wraps ErrOverdue.
func (l *Lifecycle) run(ctx context.Context, h *hook, action string, fn func(context.Context) error) error {
	if fn == nil {
		return nil
	}
	began := time.Now()
	during, cancel := h.during(ctx, action)
	defer cancel()
	l.note(h, action, Running, 0, nil)
	err := l.await(during, h, action, call(during, fn))
	took := time.Since(began)
	l.note(h, action, Ran, took, err)
	l.logger.Debug("Ran hook", "hook", h.name, "action", action, "duration", took, "error", err)
	if err == nil {
		return nil
	}
	return &HookError{Hook: h.name, Action: action, Err: err}
}

func (l *Lifecycle) await(ctx context.Context, h *hook, action string, done <-chan error) error {
	ticker := time.NewTicker(slow)
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			l.logger.Warn("Still waiting for a hook", "hook", h.name, "action", action, "since", time.Since(began))
		case <-ctx.Done():
			return l.awaitOverdue(ctx, h, action, done)
		}
	}
}

// awaitOverdue lets a hook return after its context is done, but not for long.
func (l *Lifecycle) awaitOverdue(ctx context.Context, h *hook, action string, done <-chan error) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		l.logger.Error("A hook is overdue and is left behind", "hook", h.name, "action", action)
		return fmt.Errorf("%w: %w", ErrOverdue, context.Cause(ctx))
	}
}
