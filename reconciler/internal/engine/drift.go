package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// suspect queues a row for comparison with the observed table, unless it will run anyway.
func (l *loop) suspect(key string, now time.Time) {
	it := l.queue.Get(key)
	switch s := it.Stage(); {
	case s.InHand():
	case s == workqueue.Queued:
		it.Force = true
	case it.Err != nil, it.Deleting, s == workqueue.Settle, s == workqueue.Debounce:
		return // it will be run, or compared, anyway
	default:
		if s == workqueue.Again {
			it.Refresh = earliest(it.Refresh, it.Due()) // still apply it again then
		}
		it.Force = true
	}
	l.enqueue(it, workqueue.Retries, workqueue.Drifted, now)
}

// compared compares the row of a repair with the observed table, and reports whether the
// repair is unnecessary, or must be decided later. A row that is found to differ is pending
// from then on, whatever delays its repair.
func (l *loop) compared(op *pool.Task, txn store.ReadTxn, now time.Time) bool {
	if !l.repairs.IsRepair(op) {
		return false
	}
	it, of := op.Item, l.r.p.Observed
	settled := l.repairs.SettledAt(op, now)
	changes, err := of.Differs(txn, op.Entry)
	certainty := l.repairs.Certainty(op, txn, now)
	switch {
	case certainty == hold.Unknown:
		if it.Differs {
			return false // the policy decides
		}
		l.drop(it) // all rows are compared once the observed table is reliable
	case err != nil, len(changes) == 0:
		if it.Differs {
			l.commit.mark(op.Entry, Done) // as before
		}
		l.drop(it)
	case now.Before(settled):
		l.settleUntil(it, settled)
	case certainty == hold.Uncertain:
		return false // update the row to be sure; it counts as drift only if it differs again
	default:
		l.differs(op, changes)
		return false
	}
	return true
}

// compareHeld compares the row of a held operation with the observed table, whatever the operation
// is for, since a row that has drifted is not done. Nor is one that differs in a listing that may be
// older than its last update: only another update could tell. If the effect of the last update may
// not have been observed yet, it returns when to compare the row again.
func (l *loop) compareHeld(op *pool.Task, txn store.ReadTxn, now time.Time) (again time.Time) {
	of := l.r.p.Observed
	if of == nil || op.Kind != pool.Update || op.Was != Done || l.repairs.Certainty(op, txn, now) == hold.Unknown {
		return time.Time{}
	}
	changes, err := of.Differs(txn, op.Entry)
	settled := l.repairs.SettledAt(op, now)
	switch {
	case err != nil:
	case len(changes) == 0:
		if op.Item.Differs {
			l.commit.mark(op.Entry, Done)
			l.agrees(op.Item)
		}
	case now.Before(settled):
		return settled
	default:
		l.differs(op, changes)
	}
	return time.Time{}
}

// compareDelayed compares the rows that may have drifted and that the rate limit delays, since a row
// that has drifted is not done. It reports whether it dropped any item.
func (l *loop) compareDelayed(now time.Time) (dropped bool) {
	if !l.rate.Holds(now) {
		if l.queue.In(workqueue.Queued) == 0 {
			l.repairDelayed(false)
		}
		return false
	}
	txn := l.r.p.DB.ReadTxn()
	for _, it := range l.queue.TakeSuspects() {
		class := it.Class()
		l.queue.Take(it)
		op, needed := l.operationFor(it, txn)
		if needed && l.compared(&op, txn, now) {
			dropped = true
			continue
		}
		l.compareHeld(&op, txn, now)
		l.queue.Requeue(it, class)
		if it.Differs {
			l.repairDelayed(true)
		}
	}
	if l.r.drifted.len() == 0 {
		l.repairDelayed(false)
	}
	return dropped
}

// errDelayed is the error for repairs that the rate limit delays.
var errDelayed = errors.New("rows that differ from the observed state wait for the rate limit")

// repairDelayed reports to health whether the rate limit delays repairs.
func (l *loop) repairDelayed(delayed bool) {
	const about = "repairs are delayed"
	switch _, known := l.health.concerns[about]; {
	case delayed && !known:
		l.health.concern(about, errDelayed)
	case !delayed:
		l.health.concern(about, nil)
	}
}

// mustSettle reports whether to compare a row again once the effect of its update can be
// observed: because it had drifted, or was suspected of it, or because the update of a row
// that was done has changed something.
func (l *loop) mustSettle(out *pool.Task) bool {
	return l.r.p.Observed != nil && out.Kind == pool.Update && out.Err == nil &&
		(out.Item.Differs || out.Item.Ran&workqueue.Drifted != 0 || out.Was == Done && out.Result.Changed)
}

func (l *loop) settleUntil(it *workqueue.Item, due time.Time) {
	l.queue.Wait(it, workqueue.Settle, due, "")
	it.Reasons = 0
	l.notDone.note(it)
}

// differs records that the row of an operation has drifted, so that it is no longer done.
func (l *loop) differs(op *pool.Task, changes []Change) {
	it := op.Item
	if it.Differs {
		return
	}
	it.Differs = true
	l.r.drifted.set(it.Key, true)
	l.commit.mark(op.Entry, Pending)
	l.waiters.pendingNow(it)
	l.r.p.Logger.Warn("row has drifted", "reconciler", l.r.p.Name,
		"key", l.r.p.Table.KeyText(it.Entry), "differences", hold.Differences(changes))
}

// agrees records that an item is no longer known to have drifted.
func (l *loop) agrees(it *workqueue.Item) {
	if !it.Differs {
		return
	}
	it.Differs = false
	l.r.drifted.set(it.Key, false)
	l.repairs.Agrees(it.Key)
}

// driftHealth reports rows that drift repeatedly, and rows whose repair is held, to health.
func (l *loop) driftHealth() {
	if l.repairs.Changed() {
		l.health.concern("rows that drift repeatedly", l.repairs.Flapping())
		l.health.concern("rows that differ from the observed state", l.repairs.Unrepaired())
	}
}

// newRepairs returns the policy that holds repairs.
func (l *loop) newRepairs() *hold.Repairs {
	r := l.r
	return hold.NewRepairs(hold.RepairParams{
		Owner: r.owner(), Observed: r.p.Observed, Listings: &r.listings, Drift: r.p.Config.Drift, Status: r.p.Target.Status,
		Backoff: func(attempts int) time.Duration { return r.backoff().After(attempts) },
		Recheck: func(key string) {
			_ = r.inbox.trigger([]string{key}, workqueue.Retries, workqueue.Drifted) // refused only when Run ends
		},
		Count: func() { l.metrics.drift++ },
	})
}

// Observation compares rows with an observed table: see Observes in package reconciler.
type Observation = hold.Observation

// compareRows returns a function that compares rows whenever the observed table changes.
func (r *Engine) compareRows(o *Observation) func(context.Context) {
	y := newRelay(r, "observed table "+o.Table.Name(), workqueue.Drifted)
	watched := &Watched{Table: o.Table, Rows: o.Rows}
	f := &driftFeed{
		Observation: o, r: r, feed: watched.feed(y), whole: true, own: r.p.Table.Changes(r.p.Table.Revision(r.p.DB.ReadTxn())),
	}
	return f.follow
}

// checkObserved returns an error if the observation of the params is invalid.
func (p Params) checkObserved() error {
	if p.Observed == nil {
		return nil
	}
	if err := p.Observed.Check(); err != nil {
		return fmt.Errorf("Params.Observed: %w", err)
	}
	return nil
}

// driftFeed follows the observed table and the reconciled one. It compares a row when an
// observed row about it changes, and once more when it has been done for a while, because the
// change may have come earlier. Rows that may have drifted are passed on to the loop, which
// compares them again when they are due.
type driftFeed struct {
	*Observation
	r     *Engine
	feed  *childFeed
	own   *store.Cursor
	whole bool      // all rows are to be compared
	lists time.Time // when the observed table became unreliable again; zero if it is reliable, or never was
	knew  bool      // it was reliable once
	fresh []settled // rows that became done recently, oldest first

	suspects []string
}

// settled is a row to compare at a given time.
type settled struct {
	key string
	due time.Time
}

func (f *driftFeed) follow(ctx context.Context) {
	defer f.feed.cursor.Close()
	defer f.own.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		f.check(f.r.p.DB.ReadTxn(), now)
		due := time.Time{}
		if len(f.fresh) > 0 {
			due = f.fresh[0].due
		}
		setTimer(timer, now, due)
		select {
		case <-ctx.Done():
			return
		case <-f.feed.cursor.Watch():
		case <-f.own.Watch():
		case <-timer.C:
		}
	}
}

// check compares the rows that are due, as of a snapshot.
func (f *driftFeed) check(txn store.ReadTxn, now time.Time) {
	f.feed.collect(txn)
	named := f.feed.relay.rows
	var again []string // rows to update once more, whether they differ or not
	f.feed.relay.clear()
	f.takeDone(txn, now)
	switch {
	case !f.Reliable(txn):
		f.r.listings.Begun()
		if f.knew && f.lists.IsZero() {
			f.lists = now
		}
		f.whole, f.fresh = true, nil
	case f.whole:
		if !f.lists.IsZero() {
			f.r.listings.Ended(f.lists.Add(-f.r.p.Config.Drift.Settle), now)
		}
		f.knew, f.lists = true, time.Time{}
		f.whole, f.fresh = false, nil
		again = f.r.listings.Repeat()
		for e := range f.r.all(txn) {
			f.examine(txn, e)
		}
	default:
		again = f.r.listings.Repeat()
		f.examineFresh(txn, now)
		for _, key := range sortedKeys(named) {
			f.r.listings.Observed(key)
			f.examineRow(txn, key)
		}
	}
	f.r.repeat(again)
	f.suspects = slices.DeleteFunc(f.suspects, func(key string) bool { _, is := slices.BinarySearch(again, key); return is })
	if len(f.suspects) > 0 {
		_ = f.r.inbox.trigger(f.suspects, workqueue.Retries, workqueue.Drifted) // refused only when Run ends
		f.suspects = nil
	}
}

// takeDone collects the rows that have become done.
func (f *driftFeed) takeDone(txn store.ReadTxn, now time.Time) {
	due := now.Add(f.r.p.Config.Drift.Settle)
	for change := range f.own.Changes(txn) {
		switch {
		case change.Kind == store.Reset:
			f.whole = true
		case change.Kind == store.Upsert && f.r.status(change.Entry).Kind() == Done:
			f.fresh = append(f.fresh, settled{keyOf(change.Entry), due})
		}
	}
}

// examineFresh compares the rows that have been done for long enough.
func (f *driftFeed) examineFresh(txn store.ReadTxn, now time.Time) {
	n := 0
	for n < len(f.fresh) && !f.fresh[n].due.After(now) {
		f.examineRow(txn, f.fresh[n].key)
		n++
	}
	if f.fresh = f.fresh[n:]; len(f.fresh) == 0 {
		f.fresh = nil
	}
}

func (f *driftFeed) examineRow(txn store.ReadTxn, key string) {
	if e := f.r.find(txn, key); e != nil {
		f.examine(txn, e)
	}
}

// examine makes a row suspect if it is done and differs, or if it has drifted and agrees now.
func (f *driftFeed) examine(txn store.ReadTxn, e *store.Entry) {
	status, known := f.r.status(e), f.r.drifted.has(keyOf(e))
	if status.Kind() != Done && !known {
		return // the row will be compared once it is done
	}
	if f.r.listings.About(keyOf(e), status.Since(), time.Now()) == hold.Unknown {
		return
	}
	changes, err := f.Differs(txn, e)
	f.feed.relay.trouble(func() string { return f.r.p.Table.KeyText(e) }, err)
	if err == nil && (len(changes) > 0 || known) {
		f.suspects = append(f.suspects, keyOf(e))
	}
}

// noteUpdates has rows updated once more that were updated while the observed state was listed.
func (l *loop) noteUpdates(outcomes []*pool.Task) {
	of := l.r.p.Observed
	if of == nil || l.r.p.Config.Drift.Policy == hold.DriftReport {
		return // no update may be run to make sure
	}
	if !of.Reliable(l.r.p.DB.ReadTxn()) {
		l.r.listings.Begun()
	}
	var again []string
	for _, out := range outcomes {
		if !isUpdate(out) || out.Err != nil || out.Outdated || out.Item != nil && out.Item.Ran.OnlyListed() {
			continue // it runs again anyway, or has done so: an update may cause a listing
		}
		if key := keyOf(out.Entry); l.r.listings.Updated(key, out.Ended.Add(-out.Took), out.Ended) {
			again = append(again, key)
		}
	}
	l.r.repeat(again)
}

// repeat has rows updated whether they differ or not.
func (r *Engine) repeat(keys []string) {
	if len(keys) > 0 {
		_ = r.inbox.trigger(keys, workqueue.Retries, workqueue.Listed) // refused only when Run ends
	}
}

// keySet is a set of encoded keys. It is safe for concurrent use.
type keySet struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (s *keySet) set(key string, in bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string]bool{}
	}
	if s.keys[key] = true; !in {
		delete(s.keys, key)
	}
}

func (s *keySet) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}

func (s *keySet) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

func (s *keySet) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.keys)
}
