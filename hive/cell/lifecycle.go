package cell

import (
	"context"
	"fmt"
	"time"
)

// Lifecycle collects what has to be started and stopped with the application. It is injectable and safe for concurrent use.
type Lifecycle interface {
	// Append adds a hook after those already there. A hook appended by a running OnStart runs in the same start, after those
	// appended before it. A hook appended once the start is over is never run: that is logged, and an error of the stop.
	Append(Hook)
}

// Hook is a pair of functions, each of which may be nil. Both must return soon after their context, which ends with the
// deadline, is done.
//
// OnStop is called if OnStart was called (or is nil and its turn came) and has returned, also when OnStart failed: it has to
// cope with a start that was done by half. The context ends with the call; what goes on in the background needs one of its own,
// or is better a job. Panics are errors.
type Hook struct {
	// Name says in logs and errors which hook it is. Empty: the name of its functions.
	Name string
	// Timeout is how long each of the functions may take, besides the deadline of the whole start or stop. Not positive: as
	// long as that.
	Timeout time.Duration
	OnStart func(context.Context) error
	OnStop  func(context.Context) error
}

// HookError is a hook that has failed or is overdue. It is in the errors of the start and the stop of a hive.
type HookError struct {
	Hook   string // name, module and place
	Action string // "start" or "stop"
	Err    error  // what it returned, a *PanicError, ErrGoexit, or an error that wraps ErrOverdue
}

func (e *HookError) Error() string { return fmt.Sprintf("%s hook %s: %v", e.Action, e.Hook, e.Err) }

// Unwrap returns what the hook returned.
func (e *HookError) Unwrap() error { return e.Err }
