package cell

import (
	"context"
	"fmt"
	"time"
)

// Lifecycle collects hooks that start and stop with the application. It is injectable and safe for concurrent use.
type Lifecycle interface {
	// Append adds a hook after all others. A hook appended by a running OnStart still runs in that start. A hook appended after the
	// start never runs; this is logged, and the stop returns an error.
	Append(Hook)
}

// Hook is a pair of functions, each of which may be nil. Both must return soon after their context, which ends with the
// deadline, is done.
//
// OnStop is called if OnStart has returned (or is nil and was reached), even if OnStart failed: it must cope with a partial start.
// The context is canceled when the call returns; background work needs its own, or better, a job. Panics are returned as errors.
type Hook struct {
	// Name identifies the hook in logs and errors. The default is the name of its first function.
	Name string
	// Timeout limits each of the functions, in addition to the deadline of the whole start or stop. If not positive, only the latter
	// applies.
	Timeout time.Duration
	OnStart func(context.Context) error
	OnStop  func(context.Context) error
}

// HookError is the failure of a hook, or a hook that is overdue. Starts and stops of a hive return it.
type HookError struct {
	Hook   string // name, module and file:line
	Action string // "start" or "stop"
	Err    error  // what it returned, a *PanicError, ErrGoexit, or an error that wraps ErrOverdue
}

func (e *HookError) Error() string { return fmt.Sprintf("%s hook %s: %v", e.Action, e.Hook, e.Err) }

// Unwrap returns what the hook returned.
func (e *HookError) Unwrap() error { return e.Err }
