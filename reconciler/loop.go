package reconciler

import (
	"context"
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
	abort      context.CancelFunc // ends the contexts of running operations
	workers    sync.WaitGroup

	ready     bool // the table is initialized
	held      bool // a source is incomplete: nothing surplus is removed
	drained   bool // the feed has nothing more
	exclusive bool // nothing else may run
	inFlight  int
	health    healthState
}

func (r *Reconciler[Obj]) newLoop(ctx context.Context) *loop[Obj] {
	n := r.p.Config.Workers
	opCtx, abort := context.WithCancel(context.WithoutCancel(ctx))
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
	l.abort()
	l.cursor.Close()
	if l.full.phase != fullIdle {
		l.full.stop()
	}
}

func (l *loop[Obj]) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		l.look()
		if l.ready {
			l.queue.wake(now)
			l.pull()
			for moved := true; moved; {
				l.advanceFull(now)
				moved = l.dispatch()
			}
		}
		if l.commit.due(now, l.inFlight) || l.ledgerDue(now) {
			l.flush(now)
			continue
		}
		l.report()
		setTimer(timer, now, l.nextDue())
		select {
		case <-ctx.Done():
			return l.finish()
		case out := <-l.outcomes:
			l.finished(out, time.Now())
		case <-l.changes():
		case <-l.r.fullWanted:
			l.plan.due = time.Time{}
		case <-timer.C:
		}
	}
}

// look sees whether the sources let operations run.
func (l *loop[Obj]) look() {
	waitingFor, incomplete := sourcesOf(l.r.p.Table, l.r.p.DB.ReadTxn())
	l.ready, l.held = len(waitingFor) == 0, len(incomplete) > 0
	l.health.waitingFor, l.health.incomplete = waitingFor, incomplete
}

// changes is the feed's watch, or nil while there is enough to do.
func (l *loop[Obj]) changes() <-chan struct{} {
	if !l.ready {
		_, ready := l.r.p.Table.Initialized(l.r.p.DB.ReadTxn())
		return ready
	}
	if l.queue.len() >= l.r.p.Config.RoundSize {
		return nil
	}
	return l.cursor.Watch()
}

// pull takes changes from the feed until there is a round of work.
func (l *loop[Obj]) pull() {
	l.drained = false
	if l.queue.len() >= l.r.p.Config.RoundSize {
		return
	}
	taken := 0
	for change := range l.cursor.Next(l.r.p.DB.ReadTxn()) {
		l.changed(change)
		if taken++; taken >= l.r.p.Config.RoundSize {
			return
		}
	}
	l.drained = true
}

// changed queues what a record of the feed makes necessary. A record is only a
// hint: the status on the newest row decides whether there is work.
func (l *loop[Obj]) changed(change statedb.Change[Obj]) {
	if change.Kind == statedb.Reset {
		l.plan.due = time.Time{}
		return
	}
	query := l.r.p.Table.KeyQuery(change.Object)
	if change.Kind == statedb.Delete {
		it := l.queue.get(query)
		it.last, it.attempts, it.surplus = change.Object, 0, false
		l.setDeleting(it, true)
		l.queue.enqueue(it, laneChange)
		return
	}
	known := l.queue.items[query.Encoded()]
	switch kind := change.Object.GetStatus().Kind(); {
	case kind == Pending, kind == Error && known == nil: // in error since before the start
		it := l.queue.get(query)
		it.last, it.attempts, it.force = change.Object, 0, it.force || kind == Error
		l.queue.enqueue(it, laneChange)
	}
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
			it.state, it.dirty = running, false
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
	op := operation[Obj]{item: it, obj: obj, rev: rev, txn: txn, full: it.full}
	if !found {
		op.kind, op.obj, op.full = opDelete, it.last, it.surplus
		return op, it.deleting
	}
	// The row is there again: a delete of what it was before must not run.
	l.setDeleting(it, false)
	it.last, it.surplus = obj, false
	op.was = obj.GetStatus().Kind()
	op.full = it.full && op.was != Pending
	return op, it.force || op.was == Pending
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
	it.state, it.force, it.err = committing, false, out.err
	l.leaveFull(it)
	if out.err == nil {
		it.attempts = 0
		l.r.succeeded(now)
		if out.kind == opDelete {
			l.setDeleting(it, false)
		}
	} else {
		it.attempts++
		l.logFailure(out)
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
		"key", l.r.p.Table.Key(out.obj), "attempts", out.item.attempts, "error", out.err)
}

// finish lets running operations end and writes what came of them.
func (l *loop[Obj]) finish() error {
	stop := time.AfterFunc(l.r.p.Config.StopTimeout, l.abort)
	defer stop.Stop()
	for l.inFlight > 0 {
		l.finished(<-l.outcomes, time.Now())
	}
	l.flush(time.Now())
	return nil
}

// nextDue returns when the loop has to look again by itself, or zero.
func (l *loop[Obj]) nextDue() time.Time {
	due := earliest(l.commit.deadline, l.ledger.dueAt())
	if !l.ready {
		return due
	}
	due = earliest(due, l.queue.nextDue())
	if l.full.phase != fullIdle {
		return due
	}
	due = earliest(due, l.plan.due)
	if l.plan.owed && !l.held {
		due = earliest(due, l.plan.after)
	}
	return due
}

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
