package reconciler

import (
	"context"
	"fmt"
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

// flush writes the statuses that were collected, and what is not done when its
// time has come, in one transaction; then every item goes on.
func (l *loop[Obj]) flush(now time.Time) {
	outcomes := l.commit.outcomes
	l.commit = statusCommit[Obj]{}
	err := l.writeStatuses(outcomes, now)
	for i := range outcomes {
		if err != nil && outcomes[i].kind == opUpdate {
			outcomes[i].err = err
			outcomes[i].item.err = err
			outcomes[i].item.attempts = max(outcomes[i].item.attempts, 1)
		}
		l.settle(outcomes[i], now)
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

// writeStatuses sets the status of each row whose spec is still the one that
// was worked on. The others have a newer spec, which the feed brings.
func (l *loop[Obj]) writeStatuses(outcomes []outcome[Obj], now time.Time) error {
	if len(outcomes) == 0 {
		return nil
	}
	table := l.r.p.Table
	err := l.r.p.DB.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		for _, out := range outcomes {
			if out.kind != opUpdate {
				continue
			}
			_, err := table.Amend(txn, out.obj, out.rev, func(current Obj) Obj {
				return current.WithStatus(current.GetStatus().outcome(out.err, now))
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		l.r.p.Logger.Error("statuses could not be written", "reconciler", l.r.p.Name, "error", err)
		return &StatusError{err}
	}
	return nil
}

// settle decides how an item goes on after its outcome has been written.
func (l *loop[Obj]) settle(out outcome[Obj], now time.Time) {
	it := out.item
	it.state = waiting
	due, again := l.nextTry(out, now)
	switch {
	case it.dirty:
		it.dirty = false
		l.queue.enqueue(it, laneChange)
	case again:
		l.queue.wait(it, due)
	default:
		l.drop(it)
		return
	}
	l.health.failing(it.key, it.attempts, it.err)
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
	case !given:
		delay = l.r.p.Config.backoff(out.item.attempts)
	}
	return now.Add(delay), true
}

func (l *loop[Obj]) writeLedger(now time.Time) {
	if err := l.r.p.DB.Update(context.Background(), l.ledger.write, l.r.p.NotDone); err != nil {
		l.r.p.Logger.Error("the not-done table could not be written", "reconciler", l.r.p.Name, "error", err)
		return
	}
	l.ledger.written(now)
}
