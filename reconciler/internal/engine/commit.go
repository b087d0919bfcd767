package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// commitDelay is how long the first outcome waits for others to be written with it.
const commitDelay = 10 * time.Millisecond

// lockPatience is how long the deciding goroutine waits for the lock of a table
// before it has somebody look after the deadlines of operations.
const lockPatience = 100 * time.Millisecond

// statusCommit collects outcomes, so that their statuses are written together.
type statusCommit struct {
	outcomes []*outcome
	deadline time.Time // zero while there is none
}

func (c *statusCommit) add(out *outcome, now time.Time) {
	if len(c.outcomes) == 0 {
		c.deadline = now.Add(commitDelay)
	}
	c.outcomes = append(c.outcomes, out)
}

// due says that it is time to write: nothing more is coming, or the first one
// has waited long enough.
func (c *statusCommit) due(now time.Time, inFlight int) bool {
	return len(c.outcomes) > 0 && (inFlight == 0 || !now.Before(c.deadline))
}

func (l *loop) ledgerDue(now time.Time) bool {
	due := l.ledger.dueAt()
	return !due.IsZero() && !now.Before(due)
}

// flush writes the statuses that were collected, then every item goes on, and
// what is not done is written when its time has come.
func (l *loop) flush(now time.Time) {
	outcomes := l.commit.outcomes
	if len(outcomes) > 0 {
		l.commit = statusCommit{}
		l.writeStatuses(outcomes, now)
		for _, out := range outcomes {
			l.settle(out, now)
		}
		clear(outcomes)
		if l.commit.outcomes == nil {
			l.commit.outcomes = outcomes[:0]
		}
	}
	if l.ledgerDue(now) {
		l.ledger.sweep(now)
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
// spec, or is gone, which the feed says too. What is not done is written with them.
func (l *loop) writeStatuses(outcomes []*outcome, now time.Time) {
	isUpdate := func(out *outcome) bool { return out.kind == opUpdate }
	if !slices.ContainsFunc(outcomes, isUpdate) {
		return
	}
	tables := []store.TableMeta{l.r.p.Table}
	if l.r.p.NotDone != nil && !now.Before(l.ledger.notNow) && slices.ContainsFunc(outcomes, (*outcome).notable) {
		tables = append(tables, l.r.p.NotDone)
	}
	err := l.commitStatuses(outcomes, now, tables)
	if err != nil && len(tables) > 1 && l.ledger.failedIn(err) {
		l.ledgerFailed(now, err)
		err = l.commitStatuses(outcomes, now, tables[:1])
	}
	if err == nil {
		return
	}
	for _, out := range outcomes {
		if isUpdate(out) {
			l.statusFailed(out, err)
		}
	}
}

// commitStatuses writes statuses into the first of the tables, and what is not done
// into the second one if there is one.
func (l *loop) commitStatuses(outcomes []*outcome, now time.Time, tables []store.TableMeta) error {
	var noted []NotDone
	err := l.update(func(txn *store.WriteTxn) error {
		set := l.r.p.Target.SetStatus(txn, now)
		for _, out := range outcomes {
			if out.kind == opUpdate {
				l.writeStatus(out, set)
			}
		}
		if len(tables) > 1 {
			noted = l.writeForecast(txn, outcomes, now)
		}
		return nil
	}, tables...)
	if err == nil {
		for _, row := range noted {
			l.ledger.wrote(row, now)
		}
	}
	return err
}

// update is a transaction of the deciding goroutine. While that waits for somebody
// who holds a table, perhaps an operation of its own target, the deadlines of
// operations hold nevertheless.
func (l *loop) update(fn func(*store.WriteTxn) error, tables ...store.TableMeta) error {
	staff, done := l.staff, make(chan struct{})
	defer close(done)
	patience := time.AfterFunc(lockPatience, func() { l.r.endOverdueUntil(done, staff) })
	defer patience.Stop()
	return l.r.p.DB.Update(context.Background(), fn, tables...)
}

func (l *loop) writeStatus(out *outcome, set func(*store.Entry, error) (bool, error)) {
	amended, err := set(out.entry, out.err)
	if err != nil {
		l.statusFailed(out, err)
		return
	}
	out.outdated = !amended
}

func (l *loop) statusFailed(out *outcome, err error) {
	out.err = &StatusError{err}
	l.r.p.Logger.Error("status could not be written", "reconciler", l.r.p.Name,
		"key", l.r.p.Table.KeyText(out.entry), "error", err)
}

// settle decides how a row goes on after its outcome has been written.
func (l *loop) settle(out *outcome, now time.Time) {
	if out.stuck {
		return // it is in hand still
	}
	defer l.closeRow(out)
	if out.item == nil {
		if out.err == nil && out.result.Again <= 0 && !out.outdated {
			l.queue.Pass(workqueue.InRound, workqueue.Rest)
			return
		}
		l.adopt(out, workqueue.Committing)
	}
	it := out.item
	// That an update was outdated is known for sure; otherwise a change that came
	// meanwhile is one more reason to run.
	again := it.Dirty && (out.kind == opDelete || isStatusError(out.err) || it.Reasons&^workqueue.Change != 0)
	it.Dirty = false
	if out.outdated {
		l.requeue(it, workqueue.Changes, workqueue.Change, now)
		return
	}
	if out.kind == opUpdate && !isStatusError(out.err) {
		l.setDeleting(it, false) // the row has the status: it is there
	}
	if it.Err = out.err; out.err == nil {
		it.Applied = now
		it.Attempts, it.Tries = 0, nil
		if out.kind != opDelete || !again {
			it.Unblock()
		}
	} else {
		it.Attempts++
		l.waits.oweNow(it)
	}
	stage, due := l.nextTry(out, it.Attempts, now)
	if !again {
		it.Reasons = 0
	}
	switch {
	case !again && out.forgotten():
		l.drop(it)
		return
	case again:
		it.Force = it.Force || it.Reasons&^workqueue.Change != 0
		l.requeue(it, workqueue.Changes, 0, now)
	case stage != workqueue.Rest:
		l.queue.Wait(it, stage, due, "")
	case l.mustSettle(out):
		l.settleUntil(it, now.Add(l.r.p.Config.Drift.Settle))
	default:
		l.drop(it)
		return
	}
	l.failing(it, now)
	l.ledger.note(it)
	l.rested(it)
}

func (l *loop) writeLedger(now time.Time) {
	if len(l.ledger.touched) == 0 {
		return
	}
	if err := l.update(l.ledger.write, l.r.p.NotDone); err != nil {
		l.ledgerFailed(now, err)
		return
	}
	l.health.concern(ledgerTrouble, nil)
	l.ledger.succeeded(now)
}

func (l *loop) ledgerFailed(now time.Time, err error) {
	l.r.p.Logger.Error("the not-done table could not be written", "reconciler", l.r.p.Name, "error", err)
	l.health.concern(ledgerTrouble, err)
	l.ledger.failed(now)
}
