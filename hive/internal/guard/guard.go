// Package guard calls functions that may panic or end their goroutine.
package guard

import (
	"runtime/debug"

	"github.com/statehive/statehive/hive/cell"
)

// Go calls fn on its own goroutine and sends its error: a *cell.PanicError if it panics, cell.ErrGoexit if it ends its goroutine. The
// channel is buffered, so the error need not be received.
func Go(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := cell.ErrGoexit
		defer func() {
			if p := recover(); p != nil {
				err = &cell.PanicError{Value: p, Stack: debug.Stack()}
			}
			done <- err
		}()
		err = fn()
	}()
	return done
}
