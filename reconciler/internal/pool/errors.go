package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// PanicError is the error of an operation that panicked.
type PanicError struct {
	Value any    // the value passed to panic
	Stack []byte // the stack of the panic, as runtime/debug.Stack formats it
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// StuckError is the error of an operation that has not returned long after its
// context has ended. Until it does, no other operation runs on its row.
type StuckError struct {
	After time.Duration // since the operation began
	Stack []byte        // the stack of the operation, as runtime.Stack formats it
}

// Error implements error.
func (e *StuckError) Error() string {
	return fmt.Sprintf("stuck: has not returned after %v, although its context has ended", e.After.Round(time.Millisecond))
}

var (
	// ErrOverdue is the cause of the end of an operation's context at its deadline.
	ErrOverdue = fmt.Errorf("operation is overdue: %w", context.DeadlineExceeded)
	// ErrStopped is the cause of the end of contexts when the reconciler stops and no longer waits.
	ErrStopped = errors.New("reconciler stops")
	// ErrApplied is matched by the error of an update that has applied its row, although the result does not work.
	ErrApplied = errors.New("it was applied")
	// ErrGoexit is the error of an operation that ended its goroutine.
	ErrGoexit = errors.New("runtime.Goexit was called")
)

// Guard calls fn, and returns a panic as an error.
func Guard(fn func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	fn()
	return nil
}

// operationContext is a context whose error is context.DeadlineExceeded when its operation is
// overdue.
type operationContext struct{ context.Context } //nolint:containedctx // it is one

// Err implements context.Context.
func (c operationContext) Err() error {
	if errors.Is(context.Cause(c.Context), ErrOverdue) {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}
