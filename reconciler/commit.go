package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statehive/statehive/statedb"
)

// commitDelay is how long the first outcome waits for others to be written with it.
const commitDelay = 10 * time.Millisecond

// statusCommit collects outcomes, so that their statuses are written together.
type statusCommit[Obj any] struct {
	outcomes []outcome[Obj]
	deadline time.Time // zero while there is none
}

func (c *statusCommit[Obj]) add(out outcome[Obj], now time.Time) {
	if len(c.outcomes) == 0 {
		c.deadline = now.Add(commitDelay)
	}
	c.outcomes = append(c.outcomes, out)
}

// due says that it is time to write: nothing more is coming, or the first one
// has waited long enough.
func (c *statusCommit[Obj]) due(now time.Time, inFlight int) bool {
	return len(c.outcomes) > 0 && (inFlight == 0 || !now.Before(c.deadline))
}

func (l *loop[Obj]) ledgerDue(now time.Time) bool {
	due := l.ledger.dueAt()
	return !due.IsZero() && !now.Before(due)
}

// flush writes the statuses that were collected, then every item goes on, and
// what is not done is written when its time has come.
func (l *loop[Obj]) flush(now time.Time) {
	outcomes := l.commit.outcomes
	l.commit = statusCommit[Obj]{}
	l.writeStatuses(outcomes, now)
	for _, out := range outcomes {
		l.settle(out, now)
	}
	if l.ledgerDue(now) {
		l.writeLedger(now)
	}
}

// StatusError is an error in writing statuses back: the operations had run, but
// the rows do not show it.
type StatusError struct{ Err error }

// Error implements error.
func (e *StatusError) Error() string { return fmt.Sprintf("write status: %v", e.Err) }

// Unwrap returns what went wrong.
func (e *StatusError) Unwrap() error { return e.Err }

func isStatusError(err error) bool {
	if err == nil {
		return false
	}
	var status *StatusError
	return errors.As(err, &status)
}

// writeStatuses sets the status of each row whose spec is still the one that
// was worked on. The outcomes of the others are outdated: the row has a newer
// spec, or is gone, which the feed says too.
func (l *loop[Obj]) writeStatuses(outcomes []outcome[Obj], now time.Time) {
	isUpdate := func(out outcome[Obj]) bool { return out.kind == opUpdate }
	if !slices.ContainsFunc(outcomes, isUpdate) {
		return
	}
	err := l.r.p.DB.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		for i := range outcomes {
			if isUpdate(outcomes[i]) {
				l.writeStatus(txn, &outcomes[i], now)
			}
		}
		return nil
	}, l.r.p.Table)
	if err == nil {
		return
	}
	for i := range outcomes {
		if isUpdate(outcomes[i]) {
			l.statusFailed(&outcomes[i], err)
		}
	}
}

func (l *loop[Obj]) writeStatus(txn *statedb.WriteTxn, out *outcome[Obj], now time.Time) {
	result := out.err
	amended, err := l.r.p.Table.Amend(txn, out.obj, out.rev, func(current Obj) Obj {
		return current.WithStatus(current.GetStatus().outcome(result, now))
	})
	if err != nil {
		l.statusFailed(out, err)
		return
	}
	out.outdated = !amended
}

func (l *loop[Obj]) statusFailed(out *outcome[Obj], err error) {
	out.err = &StatusError{err}
	l.r.p.Logger.Error("status could not be written", "reconciler", l.r.p.Name,
		"key", l.r.p.Table.Key(out.obj), "error", err)
}

// settle decides how an item goes on after its outcome has been written.
func (l *loop[Obj]) settle(out outcome[Obj], now time.Time) {
	it := out.item
	it.state = waiting
	// That an update was outdated is known for sure; otherwise a change that came
	// meanwhile is one more reason to run.
	again := it.dirty && (out.kind == opDelete || isStatusError(out.err))
	it.dirty = false
	if out.outdated {
		l.queue.enqueue(it, laneChange)
		return
	}
	if it.err = out.err; out.err == nil {
		it.attempts = 0
	} else {
		it.attempts++
	}
	due, later := l.nextTry(out, now)
	switch {
	case again:
		l.queue.enqueue(it, laneChange)
	case later:
		l.queue.wait(it, due)
	default:
		l.drop(it)
		return
	}
	l.health.failing(it.key, failure{steady: steady(it, now), err: it.err})
	l.ledger.note(it)
}

// nextTry returns when the operation is to be repeated; due is zero when only a
// new spec can help. Not again means that the row is done with.
func (l *loop[Obj]) nextTry(out outcome[Obj], now time.Time) (due time.Time, again bool) {
	if out.err == nil {
		return now.Add(out.result.Again), out.result.Again > 0
	}
	delay, given := retryDelay(out.err)
	switch {
	case isTerminal(out.err):
		return time.Time{}, true
	case !given || delay <= 0:
		delay = l.r.p.Config.backoff(out.item.attempts, l.r.random)
	}
	return now.Add(delay), true
}

func (l *loop[Obj]) writeLedger(now time.Time) {
	err := l.r.p.DB.Update(context.Background(), l.ledger.write, l.r.p.NotDone)
	if err != nil {
		l.r.p.Logger.Error("the not-done table could not be written", "reconciler", l.r.p.Name, "error", err)
	}
	l.ledger.attempted(now, err)
}
