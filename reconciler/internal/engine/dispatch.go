package engine

import (
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

const (
	// batchSize is the most operations that a worker is given at a time.
	batchSize = 256
	// batchPatience is the age from which tasks that have not begun may be taken back from
	// a batch.
	batchPatience = 100 * time.Microsecond
)

// dispatch hands ready operations to idle workers. It reports whether it dropped any item,
// which may let a full pass move on.
func (l *loop) dispatch(now time.Time) (dropped bool) {
	if !l.rate.Holds(now) {
		dropped = l.handOut(now)
	}
	return l.compareDelayed(now) || dropped
}

// handOut gives ready operations to idle workers.
func (l *loop) handOut(now time.Time) (dropped bool) {
	if l.rate.Reset(); l.exclusive {
		return false
	}
	l.takeBackFor(now)
	for _, w := range l.pool.Workers() {
		for w.Batch == nil {
			b, more := l.nextBatch(now)
			dropped = dropped || more
			if b == nil {
				break
			}
			if len(b.Tasks) > 0 {
				l.pool.Hand(w, b)
			}
		}
	}
	return dropped
}

// nextBatch returns the next batch, of one class, or nil when nothing is ready.
// The batch is empty if the ready items needed no operation.
func (l *loop) nextBatch(now time.Time) (b *pool.Batch, dropped bool) {
	turn, n := l.queue.Turn(l.round.more)
	if n == 0 || l.rate.Holds(now) {
		return nil, false
	}
	n = max(1, min(n/len(l.pool.Workers()), batchSize))
	b = &pool.Batch{At: now, Read: now, Class: turn}
	if turn == workqueue.Changes && l.backlog() == 0 {
		b.OfRound, b.Txn, b.Read = true, l.round.txn, l.round.at
		if n = l.rate.Take(n, now); n > 0 {
			b.Tasks = l.round.take(n)
		}
	} else {
		b.Txn = l.r.p.DB.ReadTxn()
		dropped = l.fill(b, n, now)
	}
	b.Spent = l.queue.Spend(turn, len(b.Tasks))
	return b, dropped
}

// fill adds up to n operations of the batch's class.
func (l *loop) fill(b *pool.Batch, n int, now time.Time) (dropped bool) {
	ready, _ := l.queue.Ready(b.Class)
	b.Tasks = make([]pool.Task, 0, min(n, ready))
	for range n {
		it := l.queue.Pop(b.Class)
		if it == nil {
			break
		}
		op, needed := l.operationFor(it, b.Txn)
		switch {
		case !needed && l.awaitsFeed(it, b.Txn):
			l.awaitFeed(it)
			dropped = true
		case !needed:
			l.drop(it)
			dropped = true
		case l.gate(&op, b.Txn, now):
			l.leaveFull(it)
			dropped = true
		case l.rate.Take(1, now) == 0:
			l.queue.PutBack(it, b.Class)
			if it.Differs {
				l.repairDelayed(true)
			}
			if l.untried(it) {
				l.limits.HoldBack(it.Key)
			}
			return dropped
		default:
			it.Ran, it.Reasons = it.Reasons, 0
			l.queue.Move(it, workqueue.Running)
			b.Tasks = append(b.Tasks, op)
		}
	}
	return dropped
}

// takeBackFor takes back tasks that have not begun when another worker could run them, or when
// it is another class's turn.
func (l *loop) takeBackFor(now time.Time) {
	idle, young := l.idle(), false
	for _, w := range l.pool.Workers() {
		switch {
		case w.Batch == nil || !l.wanted(w.Batch, idle):
		case now.Sub(w.Batch.At) >= batchPatience:
			l.takeBack(w.Batch)
		default:
			young = true
		}
	}
	l.queue.Overtaken = l.queue.Overtaken && young
}

// idle reports whether a worker is idle and there is nothing to give it.
func (l *loop) idle() bool {
	if _, n := l.queue.Turn(l.round.more); n > 0 {
		return false
	}
	for _, w := range l.pool.Workers() {
		if w.Batch == nil {
			return true
		}
	}
	return false
}

// wanted reports whether the tasks of a batch that have not begun should be taken back.
func (l *loop) wanted(b *pool.Batch, idle bool) bool {
	switch n := len(b.Remaining()); {
	case n == 0 || b.Asks():
		return false
	case idle:
		return true
	default:
		return l.queue.Overtaken || n >= b.Class.Weight() && l.otherClassReady(b.Class)
	}
}

func (l *loop) otherClassReady(than workqueue.Class) bool {
	if than != workqueue.Refreshes && l.full.wantsOrphans() {
		return true
	}
	for other := range workqueue.Classes {
		ready, _ := l.queue.Ready(other)
		if other != than && (ready > 0 || other == workqueue.Changes && l.round.more > 0) {
			return true
		}
	}
	return false
}

// takeBack returns the tasks of a batch that have not begun to the head of their class.
func (l *loop) takeBack(b *pool.Batch) {
	if b.Asks() {
		return
	}
	taken := b.TakeBack()
	unspent := max(0, b.Spent-b.Kept())
	l.queue.Refund(b.Class, unspent)
	b.Spent -= unspent
	if b.OfRound {
		l.round.giveBack(taken)
		return
	}
	for i := len(taken) - 1; i >= 0; i-- {
		it := taken[i].Item
		it.Reasons |= it.Ran
		l.queue.PutBack(it, b.Class)
		if it.Dirty {
			it.Dirty = false
			l.queue.Enqueue(it, workqueue.Changes, workqueue.Change, b.At)
		}
	}
}

// nextTakeBack returns when wanted tasks can be taken back, or zero.
func (l *loop) nextTakeBack(now time.Time) (due time.Time) {
	idle := l.idle()
	for _, w := range l.pool.Workers() {
		if w.Batch != nil && l.wanted(w.Batch, idle) {
			if at := w.Batch.At.Add(batchPatience); at.After(now) {
				due = earliest(due, at)
			}
		}
	}
	return due
}

// returned is called when a worker has finished its batch.
func (l *loop) returned(w *pool.Worker, now time.Time) {
	l.collect(w, now)
	l.pool.Release(w)
}

func (l *loop) collectAll(now time.Time) {
	for _, w := range l.pool.All() {
		if w.Batch != nil {
			l.collect(w, now)
		}
	}
}

// collect handles the outcomes of a worker's operations that have ended.
func (l *loop) collect(w *pool.Worker, now time.Time) {
	b := w.Batch
	ended := b.Ended()
	if len(ended) > 0 && b.OfRound {
		l.round.last = now
	}
	for i := range ended {
		out := &ended[i]
		if out.GivenBack {
			continue
		}
		if out.Newer != nil {
			out.Renew()
			l.startsAfresh(out)
		}
		l.finished(out, w, now)
	}
}

// startsAfresh forgets the failures of older specs.
func (l *loop) startsAfresh(out *pool.Task) {
	if it := out.Item; it != nil && out.Was == Pending && !isStatusError(it.Err) {
		it.Attempts = 0
	}
}

// finished handles the outcome of an operation.
func (l *loop) finished(out *pool.Task, w *pool.Worker, now time.Time) {
	if out.Err != nil {
		out.Err = &TargetError{Operation: out.Kind.String(), Err: out.Err}
	}
	switch {
	case out.Kind == pool.Observe || out.Kind == pool.Prune:
		l.metrics.prune.observe(out.Took)
		switch {
		case !w.Stuck:
			l.orphansAnswered(out, &w.Batch.Answer, now)
		case out.Kind == pool.Prune: // it may have removed what was applied since
			l.plan.due = now
		}
		return
	case out.Skipped:
		l.skipped(out, now)
		return
	}
	l.count(out)
	l.repairs.Ended(out, now)
	if it := out.Item; it != nil {
		it.Force = false
		l.queue.Move(it, workqueue.Committing)
		it.Since = time.Time{}
		l.leaveFull(it)
	}
	if out.Err != nil {
		l.failed(out, now)
	} else {
		l.r.succeeded(now)
		l.full.sawGone(out)
		l.limits.Succeeded(out, now)
		if out.Kind == pool.Delete {
			l.setDeleting(out.Item, false)
		}
	}
	l.commit.add(out, now)
}

// skipped queues a row again whose operation was outdated when it was about to begin.
func (l *loop) skipped(out *pool.Task, now time.Time) {
	if out.Item == nil {
		l.adopt(out, workqueue.InRound)
	}
	defer l.closeRow(out)
	it := out.Item
	it.Dirty = false
	l.requeue(it, workqueue.Changes, it.Ran, now)
}

func (l *loop) failed(out *pool.Task, now time.Time) {
	if out.Item == nil {
		l.adopt(out, workqueue.Committing)
	}
	it := out.Item
	it.Remember(Attempt{
		At: now.Add(-out.Took), Took: out.Took, Operation: out.Kind.String(), Reasons: it.Ran.String(), Error: out.Err.Error(),
	})
	operation, name := out.Kind.String(), l.r.p.Table.KeyText(out.Entry)
	why := reasonOf(operation, name, out.Err)
	l.logFailure(why, name, it.Attempts+1, out.Err, now)
	l.hasFailed(it, name, why, out.Err, now)
}
