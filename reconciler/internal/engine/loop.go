package engine

import (
	"context"
	"errors"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// loop is a running reconciler: one goroutine that decides what runs, and workers that run it.
// All fields belong to that goroutine.
type loop struct {
	r *Engine
	feed
	queue   *workqueue.Queue
	pool    *pool.Pool
	notDone *notDoneWriter
	commit  statusCommit
	waiters waiters
	health  healthState
	metrics metrics
	stopBy  time.Time // when a stop gives up
	passes
	policies
	sourceState
}

// sourceState is the state of the sources of the table.
type sourceState struct {
	ready     bool      // the table is initialized
	dropped   bool      // the table was dropped: the run ends
	held      bool      // a source is incomplete: no orphans are removed
	recheckAt time.Time // when to give up waiting for a source; zero: never
}

// passes are the current full pass and the schedule of the next one.
type passes struct {
	full      fullPass
	plan      fullPlan
	exclusive bool // the target is being pruned: nothing else may run
}

func (r *Engine) newLoop(ctx context.Context) *loop {
	l := &loop{
		r:       r,
		feed:    feed{cursor: r.p.Table.Changes(0)},
		queue:   workqueue.New(),
		notDone: newNotDoneWriter(&r.p),
		passes:  passes{plan: fullPlan{searchPending: true}},
	}
	l.policies = l.newPolicies(time.Now())
	l.commit.lock.table = r.p.Table
	l.pool = l.newPool(ctx)
	l.queue.OnMove = r.onMove
	l.plan.due = l.nextFull(time.Now())
	return l
}

// close ends the workers, except for stuck ones.
func (l *loop) close() {
	l.commit.lock.end()
	l.notDone.lock.end()
	l.pool.Close()
	l.retract()
	l.cursor.Close()
	l.limits.StopLookingAhead()
}

func (l *loop) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		// Watch before reading anything, so that no change is missed.
		changes := l.watch()
		if l.checkSources(now); l.dropped {
			break
		}
		l.watchOver(now)
		l.watchLocks(now)
		if l.ready {
			l.decide(now)
		}
		if l.commit.due(now, l.pool.Busy()-len(l.pool.Stuck())) || l.notDoneDue(now) {
			l.flush(now)
			continue
		}
		l.answerWaiters()
		l.report(now)
		l.publish()
		if l.ready && !l.wantsChanges() {
			changes = nil // there is enough to do
		}
		setTimer(timer, now, l.nextDue(now))
		select {
		case <-ctx.Done():
		case w := <-l.pool.Returns:
			l.returned(w, time.Now())
		case <-l.pool.Progress:
			l.collectAll(time.Now())
		case g := <-l.commit.lock.granted:
			l.statusesGranted(g, time.Now())
		case g := <-l.notDone.lock.granted:
			l.notDoneGranted(g, time.Now())
		case <-changes:
		case <-l.r.inbox.signal:
			l.takeCalls()
		case <-l.r.fullWanted:
			l.plan.due = now
		case <-timer.C:
			l.collectAll(time.Now())
		}
	}
	if l.dropped {
		return errors.Join(l.r.errDropped(), l.finish())
	}
	return l.finish()
}

// watch returns a channel that is closed when the table or the state of its sources changes.
func (l *loop) watch() <-chan struct{} {
	if !l.ready {
		return l.r.tableChanged()
	}
	return l.cursor.Watch()
}

// checkSources updates the state of the sources.
func (l *loop) checkSources(now time.Time) {
	all, until := l.r.updateSources(now)
	l.ready, l.held, l.recheckAt = all.ready(), len(all.incomplete) > 0, until
	l.dropped = all.dropped
	l.health.sources = all
	l.r.member.SetIncomplete(l.held)
	l.r.member.SetActive(l.ready)
}

// decide makes items ready that are due, and hands out operations.
func (l *loop) decide(now time.Time) {
	l.queue.Wake(now)
	if l.r.pauses.Over(now) {
		l.endPauses(func() { l.r.pauses.Expire(now) }, now)
	}
	l.repairs.Expire(now)
	l.limits.Expire(now)
	l.endRound(now)
	for moved := true; moved; {
		if l.round.open == 0 { // otherwise an item could duplicate a row of the round
			l.takeTriggers(now)
			l.advanceFull(now)
			l.pull(now)
		}
		l.askForOrphans(now)
		if l.limits.Relieve(now) {
			l.health.version++
			l.release(workqueue.Limit, now)
		}
		if l.order.Relieve() {
			l.release(workqueue.Order, now)
		}
		moved = l.dispatch(now)
	}
}

// endRound ends a round that takes too long.
func (l *loop) endRound(now time.Time) {
	if l.round.open > 0 && !now.Before(l.round.givenUpAt()) {
		l.giveUpRound(now)
	}
}

// backlog returns how many changed items are ready.
func (l *loop) backlog() int {
	n, _ := l.queue.Ready(workqueue.Changes)
	return n
}

// nextWake returns when the next waiting item is due, or zero.
func (l *loop) nextWake() time.Time {
	if it := l.queue.NextDue(); it != nil {
		return it.Due()
	}
	return time.Time{}
}

// enqueue makes an item ready.
func (l *loop) enqueue(it *workqueue.Item, class workqueue.Class, why workqueue.Reason, now time.Time) {
	l.queue.Enqueue(it, class, why, now)
}

// requeue makes an item ready that has come back from a worker.
func (l *loop) requeue(it *workqueue.Item, class workqueue.Class, why workqueue.Reason, now time.Time) {
	if it.Since.IsZero() {
		it.Since = now
	}
	it.Reasons |= why
	l.queue.Requeue(it, class)
}

func (l *loop) setDeleting(it *workqueue.Item, deleting bool) {
	if it.Deleting != deleting {
		it.Deleting, it.AtOnce = deleting, false
		delta := int64(1)
		if deleting {
			it.DeletedAt = time.Now()
			it.Refresh = time.Time{}
			l.refreshFails(it.Key, nil)
			l.limits.CountDelete(it)
		} else {
			l.limits.Discount(it)
			delta = -1
		}
		l.r.deleting.Add(delta)
		l.order.Note(it)
	}
}

// operationFor derives the operation to run from the newest row, if one is needed.
func (l *loop) operationFor(it *workqueue.Item, txn store.ReadTxn) (op pool.Task, needed bool) {
	e := l.r.find(txn, it.Key)
	op = pool.Task{Item: it, Entry: e}
	if e == nil {
		op.Kind, op.Entry, op.Full = pool.Delete, it.Entry, it.Orphan
		held := it.Orphan && l.holdOrphan(it, txn)
		return op, it.Deleting && !held
	}
	// The row is back: a delete of its older version must not run.
	l.setDeleting(it, false)
	if it.Differs && it.Entry.Spec() != e.Spec() {
		l.agrees(it) // the drift was that of an older spec
	}
	it.Entry = e
	it.Orphan = false
	op.Was = l.r.status(e).Kind()
	if op.Was == Pending && it.Differs {
		op.Was, it.Force = Done, true // it is pending only because of drift
	}
	op.Full = it.FullPass && op.Was != Pending
	if op.Was == Pending && !isStatusError(it.Err) {
		it.Attempts = 0 // the failures were of an older spec
	}
	return op, it.Force || op.Was != Done
}

// holdOrphan cancels the removal of an orphan if a source has become incomplete since it was
// found. A later search finds it again.
func (l *loop) holdOrphan(it *workqueue.Item, txn store.ReadTxn) bool {
	if !l.r.sources(txn).removalHeld() {
		return false
	}
	l.r.member.SetUnsearched(l.limits.Postponed())
	l.setDeleting(it, false)
	l.plan.searchPending = true
	return true
}

// drop forgets an item that needs nothing, unless it has a refresh interval.
func (l *loop) drop(it *workqueue.Item) {
	l.leaveFull(it)
	l.limits.Tried(it.Key)
	l.limits.Discount(it)
	l.order.Applied(it.Key)
	it.Err = nil
	l.agrees(it)
	if it.Refresh.IsZero() {
		l.queue.Forget(it)
	} else {
		it.Force, it.Reasons, it.Since = false, 0, time.Time{}
		it.Unblock()
		l.queue.Wait(it, workqueue.Refresh, it.Refresh, "")
	}
	l.notDone.note(it)
	l.fine(it.Key)
	l.notifyWaiters(it)
}

// nextDue returns when the loop has to run again by itself, or zero.
func (l *loop) nextDue(now time.Time) time.Time {
	due := earliest(earliest(l.commit.dueAt(), l.notDone.dueAt()), l.recheckAt)
	due = earliest(due, earliest(l.commit.lock.overdueAt(), l.notDone.lock.overdueAt()))
	due = earliest(due, l.healthDue(now))
	due = earliest(earliest(due, l.pool.NextOverdue()), l.pool.NextPeek(now))
	if !l.ready {
		return due
	}
	due = earliest(due, l.nextTakeBack(now))
	due = earliest(due, l.rate.Until())
	due = earliest(due, l.r.pauses.NextEnd())
	due = earliest(earliest(due, l.repairs.Expires()), l.limits.NextTry())
	due = earliest(due, l.nextWake())
	if l.round.open > 0 { // the full pass waits for its end
		return earliest(due, l.round.givenUpAt())
	}
	if l.full.moving() {
		return now
	}
	if l.full.phase != fullIdle {
		return earliest(due, l.full.drainUntil)
	}
	due = earliest(due, l.plan.due)
	if l.plan.searchPending && !l.held {
		due = earliest(due, l.plan.after)
	}
	return due
}

// finish lets running operations end and writes their outcomes. Its error names the operations
// that do not return although their contexts have ended, and the tables that others have locked.
func (l *loop) finish() error {
	l.r.inbox.setOpen(false)
	l.takeCalls()
	l.endWaiters()
	limit := l.r.p.Config.StopTimeout
	stop := time.AfterFunc(limit, l.pool.Abort)
	defer stop.Stop()
	l.stopBy = time.Now().Add(longer(limit, l.r.p.Config.stuckAfter()))
	giveUp := time.NewTimer(time.Until(l.stopBy))
	defer giveUp.Stop()
	overdue := time.NewTimer(0)
	defer overdue.Stop()
	for _, w := range l.pool.All() {
		if w.Batch != nil {
			w.Batch.TakeBack()
		}
	}
	l.collectAll(time.Now())
	for {
		l.flush(time.Now())
		if l.pool.Busy() == 0 && len(l.commit.outcomes)+len(l.commit.marks) == 0 {
			l.notDone.hurry()
			if !l.notDone.lock.waiting() {
				l.commitNotDone(time.Now())
			}
			if !l.notDone.lock.waiting() {
				return nil
			}
		}
		l.publish()
		select {
		case w := <-l.pool.Returns:
			l.returned(w, time.Now())
		case <-l.pool.Progress:
			l.collectAll(time.Now())
		case g := <-l.commit.lock.granted:
			l.statusesGranted(g, time.Now())
		case g := <-l.notDone.lock.granted:
			l.notDoneGranted(g, time.Now())
		case now := <-overdue.C:
			l.pool.EndOverdue(now)
			setTimer(overdue, now, l.pool.NextEnd(now))
		case now := <-giveUp.C:
			return l.abandoned(now)
		}
	}
}

// earliest returns the earlier of two times, where zero means never.
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

func (r *Engine) succeeded(now time.Time) { r.lastSuccess.Store(now.UnixNano()) }
