package graph

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/guard"
)

// calls tracks the calls of a graph's functions.
type calls struct {
	interrupted  atomic.Pointer[error]    // why no further function may be called
	current      atomic.Pointer[function] // being called
	last         *function                // the most recent call
	constructing atomic.Bool              // Construct has not returned
}

// Interrupt stops Construct before its next call, which fails with cause. It is safe for concurrent use.
func (g *Graph) Interrupt(cause error) { g.calls.interrupted.Store(&cause) }

// Calling names the function that is being called; it is empty if there is none. It is safe for concurrent use.
func (g *Graph) Calling() string {
	if f := g.calls.current.Load(); f != nil {
		return f.scope.String() + ": " + f.String()
	}
	return ""
}

// Overdue returns the error for abandoning the function that is being called. It wraps ErrOverdue and cause. It is safe for
// concurrent use.
func (g *Graph) Overdue(cause error) error {
	err := fmt.Errorf("%w: %w", cell.ErrOverdue, cause)
	if f := g.calls.current.Load(); f != nil {
		return f.failed(err)
	}
	return err
}

// enter records the start of a call, or fails if the graph has been interrupted. The caller must call leave when the call ends.
func (f *function) enter() (leave func(), err error) {
	g := f.scope.graph
	if cause := g.calls.interrupted.Load(); cause != nil && g.calls.constructing.Load() {
		return nil, f.failed(fmt.Errorf("not called: %w", *cause))
	}
	g.calls.last = f
	outer := g.calls.current.Swap(f)
	return func() {
		g.calls.current.Store(outer)
		if g.options.Called != nil {
			g.options.Called(f.scope.full)
		}
	}, nil
}

// guarded calls fn on its own goroutine, because constructors may call runtime.Goexit.
func (g *Graph) guarded(fn func() error) error {
	err := <-guard.Go(fn)
	if errors.Is(err, cell.ErrGoexit) && g.calls.last != nil {
		return g.calls.last.failed(err)
	}
	return err
}
