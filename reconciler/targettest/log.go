package targettest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// Kind is what an operation of a [Fake] is.
type Kind string

// The operations of a target.
const (
	Init    Kind = "init"
	Update  Kind = "update"
	Delete  Kind = "delete"
	Prune   Kind = "prune"
	Observe Kind = "observe"
	Diff    Kind = "diff"
)

// Operation is a call of a [Fake], as its log has it.
type Operation struct {
	Kind Kind
	Key  string // of Update, Delete and Diff
	Spec string // what the row said
	// Nth tells the operations of a kind on a key apart, from 1.
	Nth int
	// Began and Ended are the times of the call; Ended is zero while it is in hand.
	Began, Ended time.Time
	// Outcome is empty while in hand, then done, changed, the error, what it
	// panicked with, goexit, or dead if [Fake.Crash] came first.
	Outcome string
}

// String returns the operation without times and outcome, as "update a=1".
func (o Operation) String() string {
	switch o.Kind {
	case Update, Diff:
		return fmt.Sprintf("%s %s=%s", o.Kind, o.Key, o.Spec)
	case Delete:
		return fmt.Sprintf("%s %s", o.Kind, o.Key)
	}
	return string(o.Kind)
}

// writes says whether the operation may change the world.
func (o Operation) writes() bool { return o.Kind == Update || o.Kind == Delete || o.Kind == Prune }

// excludes says whether two operations must not run at one time.
func (o Operation) excludes(other Operation) bool {
	return o.writes() && other.writes() && (o.Kind == Prune || other.Kind == Prune || o.Key == other.Key)
}

// call is an operation in hand.
type call struct {
	Operation // guarded by the mutex of the fake
	fault     Fault
	reached   bool // it was not interrupted before its effect
	dead      bool // guarded like Operation
	// gone is closed when the process of the caller is taken to have died, released
	// when a stuck operation may go on.
	gone, released chan struct{}
}

var (
	errDead    = errors.New("the process of this operation is dead")
	errHalf    = errors.New("it failed halfway")
	errForeign = errors.New("others made what has this key")
)

// wait lets time go by, and ends early as the fault of the call allows.
func (c *call) wait(ctx context.Context, d time.Duration) error {
	if c.fault.Deaf || c.fault.Stuck {
		return c.sleep(d)
	}
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.gone:
			return errDead
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		return nil
	}
	if err := c.sleep(c.fault.Late); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// sleep lets time go by whatever happens to the context.
func (c *call) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.gone:
		return errDead
	}
}

// stay keeps a stuck operation.
func (c *call) stay() error {
	if !c.fault.Stuck {
		return nil
	}
	select {
	case <-c.released:
		return nil
	case <-c.gone:
		return errDead
	}
}

func outcomeOf(result reconciler.Result, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case result.Changed:
		return "changed"
	}
	return "done"
}

// sorted returns what happened in order of time, then of keys: in virtual time
// many things happen at one instant, in an order that nobody decides about.
func sorted(log []Operation) []Operation {
	slices.SortStableFunc(log, func(a, b Operation) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Key, b.Key))
	})
	return log
}
