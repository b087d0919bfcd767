package engine

import (
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// suspect has a row compared with what is observed, unless it is run anyway.
func (l *loop) suspect(key string, now time.Time) {
	it, why := l.queue.Get(key), workqueue.Drifted
	switch s := it.Stage(); {
	case s.InHand():
	case s == workqueue.Queued:
		it.Force = true
	default:
		if it.Err != nil || s == workqueue.Settle || it.Deleting {
			return
		}
		if !it.Due().IsZero() && !s.Held() {
			why |= workqueue.Repeat // what it waits for is not to be lost
		}
		it.Force = true
	}
	l.enqueue(it, workqueue.Retries, why, now)
}

// compared compares the row of an operation with what is observed, if that is why it is to
// run, and reports whether it is not to run for that reason. A row that is found to differ is
// pending from then on, whatever delays its repair.
func (l *loop) compared(op *pool.Task, txn store.ReadTxn, now time.Time) bool {
	if !l.repairs.IsRepair(op) {
		return false
	}
	it, of := op.Item, l.r.p.Observed
	settled := l.repairs.SettledAt(op, now)
	changes, err := of.Differs(txn, op.Entry)
	switch {
	case l.repairs.Unknown(op, txn):
		if it.Differs {
			return false // the policy decides
		}
		l.drop(it) // all rows are compared when it is known
	case err != nil, len(changes) == 0:
		if it.Differs {
			l.commit.mark(op.Entry, Done) // as it was before
		}
		l.drop(it)
	case now.Before(settled):
		l.settleUntil(it, settled)
	default:
		l.differs(op, changes)
		return false
	}
	return true
}

// mustSettle says that a row is to be compared once it can be seen what an update
// has done: it had drifted, or was suspected to have, or it was done and something
// was to be changed anyway.
func (l *loop) mustSettle(out *pool.Task) bool {
	return l.r.p.Observed != nil && out.Kind == pool.Update && out.Err == nil &&
		(out.Item.Differs || out.Item.Ran&workqueue.Drifted != 0 || out.Was == Done && out.Result.Changed)
}

func (l *loop) settleUntil(it *workqueue.Item, due time.Time) {
	l.queue.Wait(it, workqueue.Settle, due, "")
	it.Reasons = 0
	l.ledger.note(it)
}

// differs notes that the row of an operation differs from what is observed: it is not done.
func (l *loop) differs(op *pool.Task, changes []Change) {
	it := op.Item
	if it.Differs {
		return
	}
	it.Differs = true
	l.r.drifted.set(it.Key, true)
	l.commit.mark(op.Entry, Pending)
	l.waits.oweNow(it)
	l.r.p.Logger.Warn("row has drifted", "reconciler", l.r.p.Name,
		"key", l.r.p.Table.KeyText(it.Entry), "differences", hold.Differences(changes))
}

// agrees notes that nothing is known any more that an item differs from.
func (l *loop) agrees(it *workqueue.Item) {
	if !it.Differs {
		return
	}
	it.Differs = false
	l.r.drifted.set(it.Key, false)
	l.repairs.Agrees(it.Key)
}

// driftHealth tells health of rows that drift again and again, and of those that
// nobody repairs.
func (l *loop) driftHealth() {
	if flapping, held, changed := l.repairs.Concerns(); changed {
		l.health.concern("rows that drift again and again", flapping)
		l.health.concern("rows that differ from what is observed", held)
	}
}

// newRepairs returns the policy of repairs.
func (l *loop) newRepairs() *hold.Repairs {
	r := l.r
	return hold.NewRepairs(hold.RepairParams{
		Owner: r.owner(), Observed: r.p.Observed, Listings: &r.listings, Drift: r.p.Config.Drift, Status: r.p.Target.Status,
		Backoff: func(attempts int) time.Duration { return r.backoff().After(attempts) },
		Recheck: func(key string) {
			_ = r.inbox.trigger([]string{key}, workqueue.Retries, workqueue.Drifted) // refused only when Run ends
		},
		Count: func() { l.meters.drift++ },
	})
}
