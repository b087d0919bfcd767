package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// promptRepairs is how often a row is repaired at once before its repairs are slowed.
const promptRepairs = 3

// driftLog is what is known of rows that were repaired because of what was
// observed, and of those that are reported. The zero value is an empty one.
type driftLog struct {
	repairs    map[string]repairs // by encoded key
	flapping   map[string]string  // keys as text of those that are repaired too often
	reported   map[string]string  // and of those that are only reported
	unrepaired map[string]string  // and of those whose repair is held, whatever holds it
	expires    time.Time          // when there is a repair to forget; zero: never
	changed    bool               // since health was told
}

// repairs are those of a row, each within the window of the one before.
type repairs struct {
	n    int
	last time.Time
	next time.Time // not again before
}

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
	if !l.forDrift(op) {
		return false
	}
	it, of := op.Item, l.r.p.Observed
	settled := l.settledAt(op, now)
	changes, err := of.Differs(txn, op.Entry)
	switch {
	case l.unknown(op, txn):
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

// forDrift reports whether an operation is to run for nothing but what was observed.
func (l *loop) forDrift(op *pool.Task) bool {
	return l.r.p.Observed != nil && op.Kind == pool.Update && op.Was == Done && op.Item.Reasons.OnlyDrift()
}

// unknown reports whether nothing can be concluded of a row from what is observed: that is not
// all, or a listing that began before the last operation on the row.
func (l *loop) unknown(op *pool.Task, txn store.ReadTxn) bool {
	return !l.r.p.Observed.Reliable(txn) || l.r.listings.Predate(op.Item.Key, l.lastApplied(op))
}

// delayed puts the repair of a row aside that is not to be made now.
func (l *loop) delayed(op *pool.Task, txn store.ReadTxn, now time.Time) bool {
	if !l.forDrift(op) || !op.Item.Differs {
		return false
	}
	it, of := op.Item, l.r.p.Observed
	changes, _ := of.Differs(txn, op.Entry)
	switch initialized, _ := of.Table.Initialized(txn); {
	case !initialized && len(of.Table.Sources(txn)) == 0: // dropped: nobody will ever know
		return false
	case l.unknown(op, txn):
		l.holdDrift(it, "table "+of.Table.Name()+", which is not complete", time.Time{})
	case l.r.p.Config.Drift.Policy == DriftReport:
		l.reportDrift(it, changes)
	default:
		return l.slowRepair(it, changes, now)
	}
	return true
}

// settledAt is when the observed table has to show what the last update of a row
// has done.
func (l *loop) settledAt(op *pool.Task, now time.Time) time.Time {
	last := l.lastApplied(op)
	if last.After(now) { // the clock was set back
		last = now
	}
	return last.Add(l.r.p.Config.Drift.Settle)
}

// lastApplied returns when the last update of a row ended, as far as that is known.
func (l *loop) lastApplied(op *pool.Task) time.Time {
	last := l.r.status(op.Entry).Since()
	if op.Item.Applied.After(last) {
		last = op.Item.Applied
	}
	return last
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

// holdDrift puts a row aside that is not repaired now.
func (l *loop) holdDrift(it *workqueue.Item, waitsFor string, until time.Time) {
	l.park(it, workqueue.Drift, until, waitsFor)
	// What was observed before it was known that the row differs has not been told.
	txn := l.r.p.DB.ReadTxn()
	if e := l.r.find(txn, it.Key); e != nil {
		if changes, err := l.r.p.Observed.Differs(txn, e); err == nil && len(changes) == 0 && l.r.p.Observed.Reliable(txn) {
			_ = l.r.inbox.trigger([]string{it.Key}, workqueue.Retries, workqueue.Drifted)
		}
	}
}

// reportDrift shows that a row differs. It is counted once, until it agrees.
func (l *loop) reportDrift(it *workqueue.Item, changes []Change) {
	if l.drift.reported[it.Key] == "" {
		l.meters.drift++
		setText(&l.drift.reported, it.Key, l.r.p.Table.KeyText(it.Entry))
	}
	l.holdDrift(it, hold.Differences(changes)+"; that is only reported", time.Time{})
}

// slowRepair puts the repair of a row aside that has drifted too often.
func (l *loop) slowRepair(it *workqueue.Item, changes []Change, now time.Time) bool {
	before := l.drift.repairs[it.Key]
	if !now.Before(before.next) {
		return false
	}
	l.holdDrift(it, fmt.Sprintf("%s; it has drifted %d times, each within %v of the time before: its repair is slowed",
		hold.Differences(changes), before.n+1, l.r.p.Config.Drift.Window), before.next)
	return true
}

// repaired counts an update that ran because of what was observed.
func (l *loop) repaired(out *pool.Task, now time.Time) {
	it, c := out.Item, &l.r.p.Config
	if it == nil || out.Kind != pool.Update || !it.Differs || !it.Ran.OnlyDrift() {
		return
	}
	l.meters.drift++
	repair := repairs{n: l.drift.repairs[it.Key].n + 1, last: now}
	if repair.n >= promptRepairs {
		repair.next = now.Add(c.backoff(repair.n-promptRepairs+1, l.r.random))
	}
	if l.drift.repairs == nil {
		l.drift.repairs = map[string]repairs{}
	}
	l.drift.repairs[it.Key] = repair
	l.drift.expires = earliest(l.drift.expires, now.Add(c.Drift.Window))
	if repair.n > promptRepairs {
		setText(&l.drift.flapping, it.Key, l.r.p.Table.KeyText(it.Entry))
		l.drift.changed = true
	}
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
	delete(l.drift.reported, it.Key)
	if l.drift.unrepaired[it.Key] != "" {
		delete(l.drift.unrepaired, it.Key)
		l.drift.changed = true
	}
}

// unrepaired makes known that a row differs and is held.
func (l *loop) unrepaired(it *workqueue.Item) {
	if it.Differs && l.drift.unrepaired[it.Key] == "" && l.drift.flapping[it.Key] == "" {
		setText(&l.drift.unrepaired, it.Key, l.r.p.Table.KeyText(it.Entry))
		l.drift.changed = true
	}
}

// expireDrift forgets repairs that were long ago.
func (l *loop) expireDrift(now time.Time) {
	if l.drift.expires.IsZero() || now.Before(l.drift.expires) {
		return
	}
	l.drift.expires = time.Time{}
	for key, r := range l.drift.repairs {
		if end := r.last.Add(l.r.p.Config.Drift.Window); end.After(now) {
			l.drift.expires = earliest(l.drift.expires, end)
			continue
		}
		delete(l.drift.repairs, key)
		delete(l.drift.flapping, key)
		l.drift.changed = true
	}
}

// driftHealth tells health of rows that drift again and again, and of those that
// nobody repairs.
func (l *loop) driftHealth() {
	if !l.drift.changed {
		return
	}
	l.drift.changed = false
	l.health.concern("rows that drift again and again", someRows(l.drift.flapping))
	l.health.concern("rows that differ from what is observed", someRows(l.drift.unrepaired))
}

// someRows says how many rows there are and names one, or is nil if there are none.
func someRows(texts map[string]string) error {
	if len(texts) == 0 {
		return nil
	}
	first := ""
	for _, text := range texts {
		if first == "" || text < first {
			first = text
		}
	}
	if len(texts) == 1 {
		return errors.New(first)
	}
	return fmt.Errorf("%s and %d more", first, len(texts)-1)
}

func setText(m *map[string]string, key, text string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = text
}
