package derive

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/statehive/statehive/internal/backoff"
	"github.com/statehive/statehive/internal/duetime"
	"github.com/statehive/statehive/statedb"
)

// failure is a row of the output that could not be computed or written.
type failure[Out, Key any] struct {
	encoded  string
	subject  subject[Out, Key]
	err      error
	attempts int // since an input last affected the key
	due      time.Time
	position int // in the heap
}

// failures are the rows that have to be retried.
type failures[Out, Key any] struct {
	byKey map[string]*failure[Out, Key]
	byDue duetime.Heap[*failure[Out, Key]]
	shown *failure[Out, Key] // the failure whose error first returns
	pause backoff.Backoff
}

func newFailures[Out, Key any](pause backoff.Backoff) failures[Out, Key] {
	return failures[Out, Key]{
		byKey: map[string]*failure[Out, Key]{},
		byDue: duetime.New(
			func(f *failure[Out, Key]) time.Time { return f.due },
			func(f *failure[Out, Key]) *int { return &f.position }),
		pause: pause,
	}
}

// add records a failed attempt.
func (f *failures[Out, Key]) add(encoded string, s subject[Out, Key], err error, now time.Time) {
	failed := f.byKey[encoded]
	if failed == nil {
		failed = &failure[Out, Key]{encoded: encoded}
		f.byKey[encoded] = failed
	} else {
		f.byDue.Remove(failed)
	}
	failed.subject, failed.err = s, err
	failed.attempts++
	failed.due = now.Add(f.pause.After(failed.attempts, rand.Float64))
	f.byDue.Add(failed)
}

func (f *failures[Out, Key]) remove(encoded string) {
	if failed := f.byKey[encoded]; failed != nil {
		f.byDue.Remove(failed)
		delete(f.byKey, encoded)
	}
}

// affected restarts the backoff of a key.
func (f *failures[Out, Key]) affected(encoded string) {
	if failed := f.byKey[encoded]; failed != nil {
		failed.attempts = 0
	}
}

// addDue adds the rows that are due for a retry, unless they have been added already. Rows
// that share unique keys are retried together, since a swap of keys works only as a whole.
func (f *failures[Out, Key]) addDue(to map[string]subject[Out, Key], now time.Time) {
	add := func(failed *failure[Out, Key]) {
		if _, there := to[failed.encoded]; !there {
			to[failed.encoded] = failed.subject
		}
	}
	clash := false
	for failed, waits := f.byDue.First(); waits && !failed.due.After(now); failed, waits = f.byDue.First() {
		add(failed)
		clash = clash || errors.Is(failed.err, statedb.ErrNotUnique)
		failed.due = now.Add(f.pause.Max) // the attempt will set it
		f.byDue.Fix(failed)
	}
	if !clash {
		return
	}
	for _, failed := range f.byKey {
		if errors.Is(failed.err, statedb.ErrNotUnique) {
			add(failed)
		}
	}
}

// first returns one of the errors, or nil. It returns the error of the same row for as long
// as that row fails.
func (f *failures[Out, Key]) first() error {
	if f.shown == nil || f.byKey[f.shown.encoded] != f.shown {
		f.shown, _ = f.byDue.First()
	}
	if f.shown == nil {
		return nil
	}
	return f.shown.err
}

func (f *failures[Out, Key]) next() (due time.Time, waiting bool) {
	failed, waiting := f.byDue.First()
	if !waiting {
		return time.Time{}, false
	}
	return failed.due, true
}
