package cell

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var (
	// ErrPanic matches a *PanicError.
	ErrPanic = errors.New("panic")
	// ErrGoexit is the error of a function that called runtime.Goexit, as the FailNow of a test does.
	ErrGoexit = errors.New("it ended its goroutine instead of returning (runtime.Goexit)")
	// ErrOverdue is the error of a function that did not return after its deadline, and may still be running.
	ErrOverdue = errors.New("overdue: it has not returned after its deadline")
)

// PanicError is a panic of a function of a cell: a constructor, an invoked function, a hook, a command and so on.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the goroutine, as text
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Is reports whether target is ErrPanic.
func (e *PanicError) Is(target error) bool { return target == ErrPanic }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Guard calls fn on a goroutine of its own and sends what it returns: a *PanicError if it panics, ErrGoexit if it ends its
// goroutine. The channel has room for that, so it need not be received.
func Guard(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() {
			if p := recover(); p != nil {
				err = &PanicError{Value: p, Stack: debug.Stack()}
			}
			done <- err
		}()
		err = fn()
	}()
	return done
}
