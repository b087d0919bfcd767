package engine

import (
	"context"
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

// statusProblem is what health reports while statuses cannot be written.
const statusProblem = "statuses cannot be written"

// statusCommit collects outcomes, so that their statuses are written together.
type statusCommit struct {
	outcomes []*pool.Task
	deadline time.Time // zero while there is none
	lock     lockRequest
	marks    []statusMark
}

// statusMark is a status change without an operation: a row that was done has drifted, or
// agrees again before it was repaired.
type statusMark struct {
	entry *store.Entry
	kind  StatusKind
}

func (c *statusCommit) mark(e *store.Entry, kind StatusKind) {
	c.marks = append(c.marks, statusMark{e, kind})
}

// set returns the status of the row after the mark.
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

// due reports whether it is time to write: no operation is running any more, or the first
// outcome has waited long enough. It reports false while others have locked the table.
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

// flush writes the collected statuses, unless others have locked the table, and the rows of
// the not-done table that are due.
func (l *loop) flush(now time.Time) {
	if len(l.commit.outcomes)+len(l.commit.marks) > 0 && !l.commit.lock.waiting() {
		l.commitStatuses(now)
	}
	if l.notDoneDue(now) {
		l.notDone.sweep(now)
		l.commitNotDone(now)
	}
}

// StatusError is an error in writing statuses: the operations have run, but the rows do not
// show it.
type StatusError struct{ Err error }

// Error implements error.
func (e *StatusError) Error() string { return fmt.Sprintf("write status: %v", e.Err) }

// Unwrap returns the underlying error.
func (e *StatusError) Unwrap() error { return e.Err }

func isStatusError(err error) bool {
	if err == nil {
		return false
	}
	var status *StatusError
	return errors.As(err, &status)
}

// commitStatuses writes the collected statuses, together with the not-done table if that is not
// locked. If the reconciled table is locked, it requests the lock.
func (l *loop) commitStatuses(now time.Time) {
	outcomes, db := l.commit.outcomes, l.r.p.DB
	if len(l.commit.marks) == 0 && !slices.ContainsFunc(outcomes, isUpdate) {
		l.completeAll(l.commit.take(), now)
		return
	}
	if l.r.p.NotDone != nil && !now.Before(l.notDone.notNow) && slices.ContainsFunc(outcomes, notable) {
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

// statusesGranted is called when the reconciled table's lock was granted.
func (l *loop) statusesGranted(g grant, now time.Time) {
	l.commit.lock.end()
	l.writeStatuses(g.txn, g.err, false, now)
}

func isUpdate(out *pool.Task) bool { return out.Kind == pool.Update }

// writeStatuses sets the status of each row whose spec is still the one that was worked on, and
// ends the transaction. The outcomes of the others are outdated: the row has a newer spec, or
// is gone, and the feed has that change too. Then the items proceed.
func (l *loop) writeStatuses(txn *store.WriteTxn, err error, withNotDone bool, now time.Time) {
	outcomes := l.commit.take()
	if err == nil {
		err = l.setStatuses(txn, outcomes, withNotDone, now)
	}
	if err != nil && withNotDone && l.notDone.failedIn(err) {
		l.notDoneFailed(now, err)
		l.commit.outcomes = outcomes
		l.commitStatuses(now) // without that table
		return
	}
	l.unlocked(&l.commit.lock, statusProblem)
	if err != nil {
		l.commit.marks = nil // as of a table that was dropped
	}
	for _, out := range outcomes {
		if err != nil && isUpdate(out) {
			l.statusFailed(out, err)
		}
	}
	l.completeAll(outcomes, now)
}

// completeAll completes all outcomes, which have been written.
func (l *loop) completeAll(outcomes []*pool.Task, now time.Time) {
	l.noteUpdates(outcomes)
	for _, out := range outcomes {
		l.complete(out, now)
	}
	clear(outcomes)
	if l.commit.outcomes == nil {
		l.commit.outcomes = outcomes[:0]
	}
}

// setStatuses writes statuses, and the not-done table if it is part of the transaction, and
// commits.
func (l *loop) setStatuses(txn *store.WriteTxn, outcomes []*pool.Task, withNotDone bool, now time.Time) error {
	defer txn.Abort()
	set := l.r.p.Target.SetStatus(txn)
	for _, m := range l.commit.marks {
		if _, err := set(m.entry, func(s Status) Status { return m.set(s, now) }); err != nil {
			l.r.p.Logger.Error("status could not be written", "reconciler", l.r.p.Name,
				"key", l.r.p.Table.KeyText(m.entry), "error", err)
		}
	}
	var ended *pool.Task
	after := func(s Status) Status { return s.After(ended.Err, ended.Ended) }
	for _, out := range outcomes {
		if isUpdate(out) {
			ended = out
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
		l.notDone.wrote(row, now)
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

// complete decides what happens to a row whose outcome has been written.
func (l *loop) complete(out *pool.Task, now time.Time) {
	if out.Stuck {
		return // a worker still has it
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
	// Whether an update was outdated is known exactly, so a change in the meantime alone is no
	// reason to run it again. In all other cases it is.
	again := it.Dirty && (out.Kind == pool.Delete || isStatusError(out.Err) || it.Reasons&^workqueue.Change != 0)
	it.Dirty, it.Refresh = false, refresh
	if out.Outdated {
		l.neverFailed(it)
		l.requeue(it, workqueue.Changes, workqueue.Change, now)
		return
	}
	if out.Kind == pool.Update && !isStatusError(out.Err) {
		l.setDeleting(it, false) // the status was written, so the row exists
	}
	if !again {
		l.limits.Tried(it.Key)
	}
	mustSettle := l.mustSettle(out)
	if out.Kind == pool.Update && (out.Err == nil || errors.Is(out.Err, pool.ErrApplied)) {
		l.order.Applied(it.Key)
	}
	if it.Err = out.Err; out.Err == nil {
		if out.Kind == pool.Update {
			l.agrees(it)
		}
		it.Applied = out.Ended
		it.Attempts, it.Tries = 0, nil
		if out.Kind != pool.Delete || !again {
			it.Unblock()
		}
	} else {
		it.Attempts++
		l.waiters.pendingNow(it)
		l.order.Failed(out.Err)
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
	l.notDone.note(it)
	l.notifyWaiters(it)
}

// lockPatience is how long others may lock a table before health reports it.
const lockPatience = time.Second

// lockRequest waits for the lock of a table in a goroutine of its own, so that the loop never
// does. It hands over an open transaction.
type lockRequest struct {
	table    store.TableMeta
	granted  chan grant // nil if nothing was requested
	gone     chan struct{}
	cancel   context.CancelFunc
	since    time.Time
	reported bool // to health
}

type grant struct {
	txn *store.WriteTxn
	err error
}

func (q *lockRequest) waiting() bool { return q.granted != nil }

func (q *lockRequest) ask(db *store.DB, now time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	granted, gone := make(chan grant), make(chan struct{})
	q.granted, q.gone, q.cancel, q.since = granted, gone, cancel, now
	go func() {
		defer close(gone)
		txn, err := db.WriteTxn(ctx, q.table)
		select {
		case granted <- grant{txn, err}:
		case <-ctx.Done():
			if txn != nil {
				txn.Abort()
			}
		}
	}()
}

// end ends the request, which was granted or is no longer needed.
func (q *lockRequest) end() {
	if q.waiting() {
		q.cancel()
		<-q.gone
		q.granted = nil
	}
}

// overdueAt returns when to report to health that the table is locked, or zero.
func (q *lockRequest) overdueAt() time.Time {
	if !q.waiting() || q.reported {
		return time.Time{}
	}
	return q.since.Add(lockPatience)
}

// errLocked returns an error that names the holder of the lock.
func (q *lockRequest) errLocked() error {
	holder := q.table.Untyped().Holder()
	if holder == "" {
		holder = "held by one writer after another"
	}
	return &store.TableError{Table: q.table.Name(), Err: fmt.Errorf("%w: %s", errTableLocked, holder)}
}

var errTableLocked = errors.New("its lock")

// watchLocks reports tables that others have locked for long to health.
func (l *loop) watchLocks(now time.Time) {
	l.watchLock(&l.commit.lock, statusProblem, now)
	l.watchLock(&l.notDone.lock, notDoneProblem, now)
}

func (l *loop) watchLock(q *lockRequest, about string, now time.Time) {
	due := q.overdueAt()
	if due.IsZero() || now.Before(due) {
		return
	}
	q.reported = true
	err := q.errLocked()
	l.health.concern(about, err)
	l.r.p.Logger.Warn(about+": a table is locked", "reconciler", l.r.p.Name, "error", err)
}

// unlocked is called once the table could be written.
func (l *loop) unlocked(q *lockRequest, about string) {
	if q.reported {
		q.reported = false
		l.health.concern(about, nil)
	}
}
