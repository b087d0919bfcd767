package reconciler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/statehive/statehive/statedb"
)

// loop is a running reconciler: one goroutine that decides, and workers that
// carry out. All fields belong to the deciding goroutine.
type loop[Obj Reconcilable[Obj]] struct {
	r      *Reconciler[Obj]
	cursor *statedb.Cursor[Obj]
	queue  *queue[Obj]
	ledger *ledger[Obj]
	commit statusCommit[Obj]
	full   fullPass[Obj]
	plan   fullPlan

	operations chan operation[Obj]
	outcomes   chan outcome[Obj]
	abort      context.CancelCauseFunc // ends the contexts of running operations
	workers    sync.WaitGroup

	ready     bool // the table is initialized
	held      bool // a source is incomplete: nothing surplus is removed
	exclusive bool // nothing else may run
	inFlight  int
	health    healthState
}

// errStopped is why the context of an operation ended when the reconciler did
// not wait any longer.
var errStopped = errors.New("reconciler stops")

func (r *Reconciler[Obj]) newLoop(ctx context.Context) *loop[Obj] {
	n := r.p.Config.Workers
	opCtx, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &loop[Obj]{
		r:          r,
		cursor:     r.p.Table.Changes(0),
		queue:      newQueue[Obj](),
		ledger:     newLedger(&r.p),
		operations: make(chan operation[Obj], n),
		outcomes:   make(chan outcome[Obj], n),
		abort:      abort,
		plan:       fullPlan{owed: true},
	}
	l.plan.due = l.nextFull(time.Now())
	for range n {
		l.workers.Go(func() { r.work(opCtx, l.operations, l.outcomes) })
	}
	return l
}

// close ends the workers. Nothing is in flight.
func (l *loop[Obj]) close() {
	close(l.operations)
	l.workers.Wait()
	l.abort(errStopped)
	l.cursor.Close()
}

func (l *loop[Obj]) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		// Before anything is read, so that no change falls in between.
		changes := l.watch()
		l.look()
		if l.ready {
			l.decide(now)
		}
		if l.commit.due(now, l.inFlight) || l.ledgerDue(now) {
			l.flush(now)
			continue
		}
		l.report()
		if l.ready && l.queue.backlog() >= l.r.p.Config.RoundSize {
			changes = nil // there is enough to do
		}
		setTimer(timer, now, l.nextDue())
		select {
		case <-ctx.Done():
		case out := <-l.outcomes:
			l.finished(out, time.Now())
		case <-changes:
		case <-l.r.fullWanted:
			l.plan.due = now
		case <-timer.C:
		}
	}
	l.finish()
	return nil
}

// watch returns a channel that closes when the table, or what is known of its
// sources, is not what it was any more.
func (l *loop[Obj]) watch() <-chan struct{} {
	if !l.ready {
		return l.r.tableChanged()
	}
	return l.cursor.Watch()
}

// look sees whether the sources let operations run.
func (l *loop[Obj]) look() {
	waitingFor, incomplete := sourcesOf(l.r.p.Table, l.r.p.DB.ReadTxn())
	l.ready, l.held = len(waitingFor) == 0, len(incomplete) > 0
	l.health.waitingFor, l.health.incomplete = waitingFor, incomplete
}

// decide makes ready what has to be done now, and hands out what it can.
func (l *loop[Obj]) decide(now time.Time) {
	l.queue.wake(now)
	l.pull()
	for moved := true; moved; {
		l.advanceFull(now)
		moved = l.dispatch()
	}
}

// pull takes changes from the feed until there is a round of work.
func (l *loop[Obj]) pull() {
	if l.queue.backlog() >= l.r.p.Config.RoundSize {
		return
	}
	taken := 0
	for change := range l.cursor.Next(l.r.p.DB.ReadTxn()) {
		l.changed(change)
		if taken++; taken >= l.r.p.Config.RoundSize {
			return
		}
	}
}

// changed queues what a record of the feed makes necessary. A record is only a
// hint: the status on the newest row decides whether there is work.
func (l *loop[Obj]) changed(change statedb.Change[Obj]) {
	if change.Kind == statedb.Reset {
		l.plan.due = time.Now()
		return
	}
	kind, deleted := change.Object.GetStatus().Kind(), change.Kind == statedb.Delete
	if kind == Done && !deleted {
		return
	}
	query := l.r.p.Table.KeyQuery(change.Object)
	if kind == Error && !deleted && l.queue.items[query.Encoded()] != nil {
		return // it waits; one that is not known here was in error before the start
	}
	it := l.queue.get(query)
	it.last = change.Object
	if deleted {
		it.attempts, it.surplus = 0, false
		l.setDeleting(it, true)
	}
	l.queue.enqueue(it, laneChange)
}

func (l *loop[Obj]) setDeleting(it *item[Obj], deleting bool) {
	if it.deleting != deleting {
		it.deleting = deleting
		delta := int64(1)
		if !deleting {
			delta = -1
		}
		l.r.deleting.Add(delta)
	}
}

// dispatch hands ready items to free workers. It says whether it dropped any,
// which may let a full pass move on.
func (l *loop[Obj]) dispatch() (dropped bool) {
	for l.inFlight < l.r.p.Config.Workers && !l.exclusive {
		it := l.queue.pop()
		if it == nil {
			break
		}
		if op, needed := l.operationFor(it); needed {
			it.state = running
			l.hand(op)
		} else {
			l.drop(it)
			dropped = true
		}
	}
	return dropped
}

func (l *loop[Obj]) hand(op operation[Obj]) {
	l.inFlight++
	l.operations <- op
}

// operationFor decides by the newest row what is to be done now, if anything.
func (l *loop[Obj]) operationFor(it *item[Obj]) (operation[Obj], bool) {
	txn := l.r.p.DB.ReadTxn()
	obj, rev, found := l.r.p.Table.Get(txn, it.query)
	op := operation[Obj]{item: it, obj: obj, rev: rev, txn: txn}
	if !found {
		op.kind, op.obj, op.full = opDelete, it.last, it.surplus
		held := it.surplus && l.hold(it, txn)
		return op, it.deleting && !held
	}
	// The row is there again: a delete of what it was before must not run.
	l.setDeleting(it, false)
	it.last, it.surplus = obj, false
	op.was = obj.GetStatus().Kind()
	op.full = it.full && op.was != Pending
	if op.was == Pending && !isStatusError(it.err) {
		it.attempts = 0 // what failed was an older spec
	}
	return op, it.force || op.was != Done
}

// hold takes back the removal of something surplus when a source has become
// incomplete since it was found. It is looked for again later.
func (l *loop[Obj]) hold(it *item[Obj], txn statedb.ReadTxn) bool {
	if !l.removalHeld(txn) {
		return false
	}
	l.setDeleting(it, false)
	l.plan.owed = true
	return true
}

// removalHeld says whether a row that is missing from a snapshot may be wanted.
func (l *loop[Obj]) removalHeld(txn statedb.ReadTxn) bool {
	waitingFor, incomplete := sourcesOf(l.r.p.Table, txn)
	return len(waitingFor)+len(incomplete) > 0
}

// drop forgets an item that needs nothing.
func (l *loop[Obj]) drop(it *item[Obj]) {
	l.leaveFull(it)
	it.err = nil
	it.due = time.Time{}
	l.ledger.note(it)
	l.health.fine(it.key)
	l.queue.forget(it)
}

// finished takes the outcome of an operation.
func (l *loop[Obj]) finished(out outcome[Obj], now time.Time) {
	l.inFlight--
	if out.kind == opObserve || out.kind == opPrune {
		l.surplusAnswered(out, now)
		return
	}
	l.count(out)
	it := out.item
	it.state, it.force = committing, false
	l.leaveFull(it)
	if out.err != nil {
		l.logFailure(out)
	} else {
		l.r.succeeded(now)
		l.full.sawGone(out)
	}
	if out.kind == opDelete && out.err == nil {
		l.setDeleting(it, false)
	}
	l.commit.add(out, now)
}

func (l *loop[Obj]) count(out outcome[Obj]) {
	m := l.r.p.Metrics
	switch {
	case !out.full:
		m.Incremental(out.took, out.err)
	case out.err != nil:
		m.FullError()
	case out.kind == opDelete, out.result.Changed && out.was == Done:
		m.OutOfSync()
	}
}

func (l *loop[Obj]) logFailure(out outcome[Obj]) {
	operation := "update"
	if out.kind == opDelete {
		operation = "delete"
	}
	l.r.p.Logger.Warn(operation+" failed", "reconciler", l.r.p.Name,
		"key", l.r.p.Table.Key(out.obj), "attempts", out.item.attempts+1, "error", out.err)
}

// finish lets running operations end and writes what came of them.
func (l *loop[Obj]) finish() {
	stop := time.AfterFunc(l.r.p.Config.StopTimeout, func() { l.abort(errStopped) })
	defer stop.Stop()
	l.flush(time.Now())
	for l.inFlight > 0 {
		l.finished(<-l.outcomes, time.Now())
		l.flush(time.Now())
	}
	if l.ledger.pending() {
		l.writeLedger(time.Now())
	}
}

// nextDue returns when the loop has to look again by itself, or zero.
func (l *loop[Obj]) nextDue() time.Time {
	due := earliest(l.commit.deadline, l.ledger.dueAt())
	if !l.ready {
		return due
	}
	due = earliest(due, l.queue.nextDue())
	if l.full.phase != fullIdle {
		return earliest(due, l.full.drainUntil)
	}
	due = earliest(due, l.plan.due)
	if l.plan.owed && !l.held {
		due = earliest(due, l.plan.after)
	}
	return due
}

// earliest returns the earlier of two times; zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func setTimer(timer *time.Timer, now, due time.Time) {
	if due.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(due.Sub(now))
}

func (r *Reconciler[Obj]) succeeded(now time.Time) { r.lastSuccess.Store(now.UnixNano()) }

// tableChanged returns a channel that closes at the next commit that changes the
// table or what is known of its sources.
func (r *Reconciler[Obj]) tableChanged() <-chan struct{} {
	txn := r.p.DB.ReadTxn()
	cursor := r.p.Table.Changes(r.p.Table.Revision(txn))
	defer cursor.Close()
	for range cursor.Next(txn) { // nothing, but of an empty table it is the listing
	}
	return cursor.Watch()
}
