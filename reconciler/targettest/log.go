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

// Kind is the kind of an operation of a [Fake].
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

// Operation is an entry in the log of a [Fake]: a call of one of its methods.
type Operation struct {
	Kind Kind
	Key  string // of Update, Delete and Diff
	Spec string // the spec of the row
	// Nth numbers the operations of a kind on a key, from 1.
	Nth int
	// Began and Ended are the times of the call; Ended is zero while it is running.
	Began, Ended time.Time
	// Outcome is empty while the operation is running. Then it is done, changed, the
	// text of the error, the panic value, goexit, or dead if [Fake.Crash] came first.
	Outcome string
}

// String returns the operation without times and outcome, such as "update a=1".
func (o Operation) String() string {
	switch o.Kind {
	case Update, Diff:
		return fmt.Sprintf("%s %s=%s", o.Kind, o.Key, o.Spec)
	case Delete:
		return fmt.Sprintf("%s %s", o.Kind, o.Key)
	}
	return string(o.Kind)
}

// writes reports whether the operation may change the world.
func (o Operation) writes() bool { return o.Kind == Update || o.Kind == Delete || o.Kind == Prune }

// excludes reports whether two operations must not run at the same time.
func (o Operation) excludes(other Operation) bool {
	return o.writes() && other.writes() && (o.Kind == Prune || other.Kind == Prune || o.Key == other.Key)
}

// call is a running operation.
type call struct {
	Operation // guarded by the mutex of the fake
	fault     Fault
	reached   bool // it was not interrupted before its effect
	dead      bool // guarded by the mutex of the fake
	// gone is closed when the process of the caller dies by [Fake.Crash], and released
	// when a stuck operation may go on.
	gone, released chan struct{}
}

var (
	errDead    = errors.New("the process of this operation has died")
	errHalf    = errors.New("failed halfway")
	errForeign = errors.New("a foreign object has this key")
)

// wait waits for a duration, or until the context ends unless the fault of the call ignores that.
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

// sleep waits for a duration, even if the context ends.
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

// stay blocks a stuck operation until it is released.
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

// sorted sorts operations by time and then by key, because in virtual time many
// operations begin at the same instant, in no defined order.
func sorted(log []Operation) []Operation {
	slices.SortStableFunc(log, func(a, b Operation) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Key, b.Key))
	})
	return log
}
