package engine

import (
	"time"

	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

const (
	// batchSize is the most operations that a worker is given at a time.
	batchSize = 256
	// batchPatience is how long a batch is left alone although somebody waits for
	// what has not begun of it.
	batchPatience = 100 * time.Microsecond
)

func (l *loop) newWorker() *worker {
	w := &worker{
		r: l.r, stopping: l.stopping, left: l.left, depends: l.r.newCheckers(),
		batches: make(chan *batch, 1), returns: l.returns, progress: l.progress,
		gone: make(chan struct{}), epoch: time.Now().Add(-1), // so that no stamp is 0
	}
	go w.run()
	return w
}

// dispatch hands ready operations to idle workers. It says whether it dropped
// any item, which may let a full pass move on.
func (l *loop) dispatch(now time.Time) (dropped bool) {
	if now.Before(l.tokenAt) {
		return false
	}
	if l.tokenAt = (time.Time{}); l.exclusive {
		return false
	}
	l.takeBackFor(now)
	for _, w := range l.crew {
		for w.batch == nil {
			b, more := l.compose(now)
			dropped = dropped || more
			if b == nil {
				break
			}
			if len(b.tasks) > 0 {
				l.hand(w, b)
			}
		}
	}
	return dropped
}

func (l *loop) hand(w *worker, b *batch) {
	b.limit = len(b.tasks)
	w.batch = b
	l.inFlight++
	w.batches <- b
}

// compose returns the next batch, of one lane, or nil when nothing is ready.
// The batch is empty if what was ready needs nothing.
func (l *loop) compose(now time.Time) (b *batch, dropped bool) {
	turn, n := l.queue.Turn(l.round.more)
	if n == 0 || now.Before(l.tokenAt) {
		return nil, false
	}
	n = max(1, min(n/len(l.crew), batchSize))
	b = &batch{at: now, read: now, class: turn}
	if turn == workqueue.Changes && l.backlog() == 0 {
		b.ofRound, b.txn, b.read = true, l.round.txn, l.round.at
		if n = l.tokens(n, now); n > 0 {
			b.tasks = l.round.take(n)
		}
	} else {
		b.txn = l.r.p.DB.ReadTxn()
		dropped = l.fill(b, n, now)
	}
	b.spent = l.queue.Spend(turn, len(b.tasks))
	return b, dropped
}

// fill adds up to n operations of the batch's lane.
func (l *loop) fill(b *batch, n int, now time.Time) (dropped bool) {
	ready, _ := l.queue.Ready(b.class)
	b.tasks = make([]outcome, 0, min(n, ready))
	for range n {
		it := l.queue.Pop(b.class)
		if it == nil {
			break
		}
		op, needed := l.operationFor(it, b.txn)
		switch {
		case !needed && l.awaitsFeed(it, b.txn):
			l.awaitFeed(it)
			dropped = true
		case !needed:
			l.drop(it)
			dropped = true
		case l.gate(op, b.txn, now):
			l.leaveFull(it)
			dropped = true
		case l.tokens(1, now) == 0:
			l.queue.PutBack(it, b.class)
			return dropped
		default:
			it.Ran, it.Reasons = it.Reasons, 0
			l.queue.Move(it, workqueue.Running)
			b.tasks = append(b.tasks, outcome{operation: op})
		}
	}
	return dropped
}

// tokens asks the rate limiter for up to n operations. When it allows none it
// notes when to ask again.
func (l *loop) tokens(n int, now time.Time) int {
	limiter := l.r.limits.Load().Limiter
	if limiter == nil {
		return n
	}
	for i := range n {
		if !limiter.AllowN(now, 1) {
			if i == 0 {
				l.tokenAt = now.Add(untilToken(limiter, now))
			}
			return i
		}
	}
	return n
}

// takeBackFor takes back what has not begun of batches when someone else could
// do it, or when another lane waits for its share.
func (l *loop) takeBackFor(now time.Time) {
	idle, young := l.idle(), false
	for _, w := range l.crew {
		switch {
		case w.batch == nil || !l.wanted(w.batch, idle):
		case now.Sub(w.batch.at) >= batchPatience:
			l.takeBack(w.batch)
		default:
			young = true
		}
	}
	l.queue.Overtaken = l.queue.Overtaken && young
}

// idle says that a worker has nothing and there is nothing to give it.
func (l *loop) idle() bool {
	if _, n := l.queue.Turn(l.round.more); n > 0 {
		return false
	}
	for _, w := range l.crew {
		if w.batch == nil {
			return true
		}
	}
	return false
}

// wanted says that what has not begun of a batch should be taken back.
func (l *loop) wanted(b *batch, idle bool) bool {
	switch n := b.remaining(); {
	case n == 0 || b.asks():
		return false
	case idle:
		return true
	default:
		return l.queue.Overtaken || n >= b.class.Weight() && l.otherClassReady(b.class)
	}
}

func (l *loop) otherClassReady(than workqueue.Class) bool {
	if than != workqueue.Refreshes && l.full.wantsSurplus() {
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

// takeBack puts what has not begun of a batch at the head of its lane again.
func (l *loop) takeBack(b *batch) {
	if b.asks() {
		return
	}
	taken := b.takeBack()
	unspent := max(0, b.spent-b.limit)
	l.queue.Refund(b.class, unspent)
	b.spent -= unspent
	if b.ofRound {
		l.round.giveBack(taken)
		return
	}
	for i := len(taken) - 1; i >= 0; i-- {
		it := taken[i].item
		it.Reasons |= it.Ran
		l.queue.PutBack(it, b.class)
		if it.Dirty {
			it.Dirty = false
			l.queue.Enqueue(it, workqueue.Changes, workqueue.Change, b.at)
		}
	}
}

// nextTakeBack returns when a batch may be taken back from, if somebody waits for that.
func (l *loop) nextTakeBack(now time.Time) (due time.Time) {
	idle := l.idle()
	for _, w := range l.crew {
		if w.batch != nil && l.wanted(w.batch, idle) {
			if at := w.batch.at.Add(batchPatience); at.After(now) {
				due = earliest(due, at)
			}
		}
	}
	return due
}

// returned takes a worker back that has come to the end of its batch.
func (l *loop) returned(w *worker, now time.Time) {
	l.collect(w, now)
	w.batch = nil
	l.inFlight--
	if w.stuck {
		l.retire(w)
	}
}

func (l *loop) collectAll(now time.Time) {
	for _, w := range l.staff {
		if w.batch != nil {
			l.collect(w, now)
		}
	}
}

// collect takes the outcomes of the operations of a worker that have ended.
func (l *loop) collect(w *worker, now time.Time) {
	b := w.batch
	ended := b.ended()
	if len(ended) > 0 && b.ofRound {
		l.round.last = now
	}
	for i := range ended {
		out := &ended[i]
		if out.givenBack {
			continue
		}
		if out.newer != nil {
			out.operation, out.newer = out.renewed(), nil
			l.startsAfresh(out)
		}
		l.finished(out, w, now)
	}
}

// startsAfresh forgets the failures of an older spec than the one that was worked on.
func (l *loop) startsAfresh(out *outcome) {
	if it := out.item; it != nil && out.was == Pending && !isStatusError(it.Err) {
		it.Attempts = 0
	}
}

// finished takes the outcome of an operation.
func (l *loop) finished(out *outcome, w *worker, now time.Time) {
	if out.err != nil {
		out.err = &TargetError{Operation: out.kind.String(), Err: out.err}
	}
	switch {
	case out.kind == opObserve || out.kind == opPrune:
		l.meters.prune.observe(out.took)
		switch {
		case !w.stuck:
			l.surplusAnswered(out, &w.batch.answer, now)
		case out.kind == opPrune: // what was applied since may be gone
			l.plan.due = now
		}
		return
	case out.skipped:
		l.skipped(out, now)
		return
	}
	l.count(out)
	l.repaired(out, now)
	if it := out.item; it != nil {
		it.Force = false
		l.queue.Move(it, workqueue.Committing)
		it.Since = time.Time{}
		l.leaveFull(it)
	}
	if out.err != nil {
		l.failed(out, now)
	} else {
		l.r.succeeded(now)
		l.full.sawGone(out)
		l.blast.ended(out, now)
		if out.kind == opDelete {
			l.setDeleting(out.item, false)
		}
	}
	l.commit.add(out, now)
}

// skipped has another look at a row that an operation was not right for any more.
func (l *loop) skipped(out *outcome, now time.Time) {
	if out.item == nil {
		l.adopt(out, workqueue.InRound)
	}
	defer l.closeRow(out)
	it := out.item
	it.Dirty = false
	l.requeue(it, workqueue.Changes, it.Ran, now)
}

func (l *loop) failed(out *outcome, now time.Time) {
	if out.item == nil {
		l.adopt(out, workqueue.Committing)
	}
	it := out.item
	it.Remember(Attempt{
		At: now.Add(-out.took), Took: out.took, Operation: out.kind.String(), Reasons: it.Ran.String(), Error: out.err.Error(),
	})
	l.r.p.Logger.Warn(out.kind.String()+" failed", "reconciler", l.r.p.Name,
		"key", l.r.p.Table.KeyText(out.entry), "attempts", it.Attempts+1, "error", out.err)
}
