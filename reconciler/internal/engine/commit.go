package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// commitDelay is how long the first outcome waits for others to be written with it.
const commitDelay = 10 * time.Millisecond

// statusTrouble is what health shows while statuses cannot be written.
const statusTrouble = "statuses cannot be written"

// statusCommit collects outcomes, so that their statuses are written together.
type statusCommit struct {
	outcomes []*pool.Task
	deadline time.Time // zero while there is none
	lock     lockRequest
	marks    []statusMark
}

// statusMark is a status that no operation has led to: a row that was done was seen to differ,
// or agrees again before it was repaired.
type statusMark struct {
	entry *store.Entry
	kind  StatusKind
}

func (c *statusCommit) mark(e *store.Entry, kind StatusKind) {
	c.marks = append(c.marks, statusMark{e, kind})
}

// set returns the status of the row after the mark. It changes nothing else than it is to.
func (m statusMark) set(s Status, now time.Time) Status {
	switch {
	case m.kind == Pending && s.Kind() == Done:
		return Status{}
	case m.kind == Done && s.Kind() == Pending:
		return s.After(nil, now)
	default:
		return s
	}
}

func (c *statusCommit) add(out *pool.Task, now time.Time) {
	if len(c.outcomes) == 0 {
		c.deadline = now.Add(commitDelay)
	}
	c.outcomes = append(c.outcomes, out)
}

// due reports whether it is time to write: nothing more is coming, or the first one
// has waited long enough. While the table is locked by others it is not.
func (c *statusCommit) due(now time.Time, inFlight int) bool {
	return !c.lock.waiting() && (len(c.marks) > 0 || len(c.outcomes) > 0 && (inFlight == 0 || !now.Before(c.deadline)))
}

// dueAt returns when due may report true by itself, or zero.
func (c *statusCommit) dueAt() time.Time {
	if c.lock.waiting() {
		return time.Time{}
	}
	return c.deadline
}

// take returns the outcomes that were collected.
func (c *statusCommit) take() []*pool.Task {
	outcomes := c.outcomes
	c.outcomes, c.deadline = nil, time.Time{}
	return outcomes
}

func (l *loop) ledgerDue(now time.Time) bool {
	due := l.ledger.dueAt()
	return !due.IsZero() && !now.Before(due)
}

// flush writes the statuses that were collected, unless the table is locked by others, and
// what is not done when its time has come.
func (l *loop) flush(now time.Time) {
	if len(l.commit.outcomes)+len(l.commit.marks) > 0 && !l.commit.lock.waiting() {
		l.commitStatuses(now)
	}
	if l.ledgerDue(now) {
		l.ledger.sweep(now)
		l.commitLedger(now)
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

// commitStatuses writes the statuses that were collected, and what is not done with them, if
// the tables are not locked. It asks for the lock if the table of the rows is.
func (l *loop) commitStatuses(now time.Time) {
	outcomes, db := l.commit.outcomes, l.r.p.DB
	if len(l.commit.marks) == 0 && !slices.ContainsFunc(outcomes, isUpdate) {
		l.settleAll(l.commit.take(), now)
		return
	}
	if l.r.p.NotDone != nil && !now.Before(l.ledger.notNow) && slices.ContainsFunc(outcomes, notable) {
		txn, err := db.TryWriteTxn(l.r.p.Table, l.r.p.NotDone)
		if txn != nil && err == nil {
			l.writeStatuses(txn, nil, true, now)
			return
		}
	}
	txn, err := db.TryWriteTxn(l.r.p.Table)
	if txn == nil && err == nil {
		l.commit.lock.ask(db, now)
		return
	}
	l.writeStatuses(txn, err, false, now)
}

// statusesGranted is called when the table of the rows has been locked for the statuses.
func (l *loop) statusesGranted(g grant, now time.Time) {
	l.commit.lock.end()
	l.writeStatuses(g.txn, g.err, false, now)
}

func isUpdate(out *pool.Task) bool { return out.Kind == pool.Update }

// writeStatuses sets the status of each row whose spec is still the one that was worked on, and
// ends the transaction. The outcomes of the others are outdated: the row has a newer spec, or
// is gone, which the feed says too. Then every item goes on.
func (l *loop) writeStatuses(txn *store.WriteTxn, err error, withNotDone bool, now time.Time) {
	outcomes := l.commit.take()
	if err == nil {
		err = l.setStatuses(txn, outcomes, withNotDone, now)
	}
	if err != nil && withNotDone && l.ledger.failedIn(err) {
		l.ledgerFailed(now, err)
		l.commit.outcomes = outcomes
		l.commitStatuses(now) // without that table
		return
	}
	l.unlocked(&l.commit.lock, statusTrouble)
	if err != nil {
		l.commit.marks = nil // as of a table that was dropped
	}
	for _, out := range outcomes {
		if err != nil && isUpdate(out) {
			l.statusFailed(out, err)
		}
	}
	l.settleAll(outcomes, now)
}

// settleAll decides how rows go on whose outcomes have been written.
func (l *loop) settleAll(outcomes []*pool.Task, now time.Time) {
	for _, out := range outcomes {
		l.settle(out, now)
	}
	clear(outcomes)
	if l.commit.outcomes == nil {
		l.commit.outcomes = outcomes[:0]
	}
}

// setStatuses writes statuses, and what is not done into the other table of the transaction if
// there is one, and commits.
func (l *loop) setStatuses(txn *store.WriteTxn, outcomes []*pool.Task, withNotDone bool, now time.Time) error {
	defer txn.Abort()
	set := l.r.p.Target.SetStatus(txn)
	for _, m := range l.commit.marks {
		if _, err := set(m.entry, func(s Status) Status { return m.set(s, now) }); err != nil {
			l.r.p.Logger.Error("status could not be written", "reconciler", l.r.p.Name,
				"key", l.r.p.Table.KeyText(m.entry), "error", err)
		}
	}
	var failure error
	after := func(s Status) Status { return s.After(failure, now) }
	for _, out := range outcomes {
		if isUpdate(out) {
			failure = out.Err
			l.writeStatus(out, set, after)
		}
	}
	var noted []NotDone
	if withNotDone {
		noted = l.writeForecast(txn, outcomes, now)
	}
	if _, err := txn.Commit(); err != nil {
		return err
	}
	l.commit.marks = nil
	for _, row := range noted {
		l.ledger.wrote(row, now)
	}
	return nil
}

func (l *loop) writeStatus(out *pool.Task, set SetStatus, after func(Status) Status) {
	amended, err := set(out.Entry, after)
	if err != nil {
		l.statusFailed(out, err)
		return
	}
	out.Outdated = !amended
}

func (l *loop) statusFailed(out *pool.Task, err error) {
	out.Err = &StatusError{err}
	l.r.p.Logger.Error("status could not be written", "reconciler", l.r.p.Name,
		"key", l.r.p.Table.KeyText(out.Entry), "error", err)
}

// settle decides how a row goes on after its outcome has been written.
func (l *loop) settle(out *pool.Task, now time.Time) {
	if out.Stuck {
		return // it is in hand still
	}
	defer l.closeRow(out)
	refresh := l.refreshAfter(out, now)
	if out.Item == nil {
		if out.Err == nil && out.Result.Again <= 0 && !out.Outdated && refresh.IsZero() {
			l.queue.Pass(workqueue.InRound, workqueue.Rest)
			return
		}
		l.adopt(out, workqueue.Committing)
	}
	it := out.Item
	// That an update was outdated is known for sure; otherwise a change that came
	// meanwhile is one more reason to run.
	again := it.Dirty && (out.Kind == pool.Delete || isStatusError(out.Err) || it.Reasons&^workqueue.Change != 0)
	it.Dirty, it.Refresh = false, refresh
	if out.Outdated {
		l.neverFailed(it)
		l.requeue(it, workqueue.Changes, workqueue.Change, now)
		return
	}
	if out.Kind == pool.Update && !isStatusError(out.Err) {
		l.setDeleting(it, false) // the row has the status: it is there
	}
	mustSettle := l.mustSettle(out)
	if it.Err = out.Err; out.Err == nil {
		if out.Kind == pool.Update {
			l.agrees(it)
		}
		it.Applied = now
		it.Attempts, it.Tries = 0, nil
		if out.Kind != pool.Delete || !again {
			it.Unblock()
		}
	} else {
		it.Attempts++
		l.waits.oweNow(it)
	}
	stage, due := l.r.backoff().Next(out, it.Attempts, now)
	if !again {
		it.Reasons = 0
	}
	switch {
	case !again && forgotten(out):
		l.drop(it)
		return
	case again:
		it.Force = it.Force || it.Reasons&^workqueue.Change != 0
		l.requeue(it, workqueue.Changes, 0, now)
	case stage != workqueue.Rest:
		l.queue.Wait(it, stage, due, "")
	case mustSettle:
		l.settleUntil(it, now.Add(l.r.p.Config.Drift.Settle))
	default:
		l.drop(it)
		return
	}
	l.failing(it, now)
	l.ledger.note(it)
	l.rested(it)
}

// commitLedger writes what is not done, or asks for the lock of the table if others have it.
func (l *loop) commitLedger(now time.Time) {
	if len(l.ledger.touched) == 0 {
		return
	}
	txn, err := l.r.p.DB.TryWriteTxn(l.r.p.NotDone)
	if txn == nil && err == nil {
		l.ledger.lock.ask(l.r.p.DB, now)
		return
	}
	l.writeLedger(txn, err, now)
}

// ledgerGranted is called when the table of what is not done has been locked.
func (l *loop) ledgerGranted(g grant, now time.Time) {
	l.ledger.lock.end()
	l.writeLedger(g.txn, g.err, now)
}

func (l *loop) writeLedger(txn *store.WriteTxn, err error, now time.Time) {
	if err == nil {
		defer txn.Abort()
		if err = l.ledger.write(txn); err == nil {
			_, err = txn.Commit()
		}
	}
	l.unlocked(&l.ledger.lock, ledgerTrouble)
	if err != nil {
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
