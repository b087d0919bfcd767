package targettest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"
)

// tripwire is a context that calls a function when it is checked for the n-th time, by
// Err or Done.
type tripwire struct {
	act  func(*tripwire)
	done chan struct{}

	mu   sync.Mutex
	left int // checks until act is called
	err  error
}

func newTripwire(checks int, act func(*tripwire)) *tripwire {
	return &tripwire{act: act, done: make(chan struct{}), left: checks}
}

// Deadline implements context.Context.
func (w *tripwire) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value implements context.Context.
func (w *tripwire) Value(any) any { return nil }

// Done implements context.Context.
func (w *tripwire) Done() <-chan struct{} {
	w.check()
	return w.done
}

// Err implements context.Context.
func (w *tripwire) Err() error {
	w.check()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *tripwire) check() {
	w.mu.Lock()
	w.left--
	now := w.left == 0
	w.mu.Unlock()
	if now {
		w.act(w)
	}
}

func (w *tripwire) tripped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left <= 0
}

// end ends the context. The check that triggers it already sees the end.
func (w *tripwire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = context.Canceled
	close(w.done)
}

// kill ends the goroutine of the operation: only its deferred functions still run.
// Goroutines that it has started see the end of the context.
func (w *tripwire) kill() {
	w.end()
	if insideOperate() {
		runtime.Goexit()
	}
}

// ending describes how an operation ended.
type ending struct {
	returned bool
	panicked any
	stack    []byte
}

// operate runs an operation on a goroutine of its own.
func operate(op func(), ended chan<- ending) {
	var e ending
	defer func() {
		if !e.returned {
			if e.panicked = recover(); e.panicked != nil {
				e.stack = stack()
			}
		}
		ended <- e
	}()
	op()
	e.returned = true
}

func stack() []byte {
	text := make([]byte, 16<<10)
	return text[:runtime.Stack(text, false)]
}

// insideOperate reports whether the calling goroutine was started by operate.
func insideOperate() bool {
	callers := make([]uintptr, 512)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "targettest.operate") {
			return true
		}
		if !more {
			return false
		}
	}
}
