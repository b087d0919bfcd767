package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// suspect has a row compared with what is observed, unless it is run anyway.
func (l *loop) suspect(key string, now time.Time) {
	it := l.queue.Get(key)
	switch s := it.Stage(); {
	case s.InHand():
	case s == workqueue.Queued:
		it.Force = true
	case it.Err != nil, it.Deleting, s == workqueue.Settle, s == workqueue.Debounce:
		return // it is run, or compared, anyway
	default:
		if s == workqueue.Again {
			it.Refresh = earliest(it.Refresh, it.Due()) // it is still applied again then
		}
		it.Force = true
	}
	l.enqueue(it, workqueue.Retries, workqueue.Drifted, now)
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
	certainty := l.repairs.Certainty(op, txn)
	switch {
	case certainty == hold.Unknown:
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
	case certainty == hold.Uncertain:
		return false // an update makes sure: it is no drift unless it is seen again
	default:
		l.differs(op, changes)
		return false
	}
	return true
}

// compareHeld compares the row of an operation that is held, whatever it is to run for: a row
// that is seen to differ is not done meanwhile. It returns when to compare it again, if what was
// done last may not have been observed yet.
func (l *loop) compareHeld(op *pool.Task, txn store.ReadTxn, now time.Time) (again time.Time) {
	of := l.r.p.Observed
	if of == nil || op.Kind != pool.Update || op.Was != Done || l.repairs.Certainty(op, txn) != hold.Certain {
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
	if l.repairs.Changed() {
		l.health.concern("rows that drift again and again", l.repairs.Flapping())
		l.health.concern("rows that differ from what is observed", l.repairs.Unrepaired())
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

// Observation compares rows with a table of what was observed: see Observes in package
// reconciler.
type Observation = hold.Observation

// compareRows follows the observed table.
func (r *Engine) compareRows(o *Observation) func(context.Context) {
	y := newRelay(r, "observed table "+o.Table.Name(), workqueue.Drifted)
	watched := &Watched{Table: o.Table, Rows: o.Rows}
	f := &driftFeed{
		Observation: o, r: r, feed: watched.feed(y), whole: true, own: r.p.Table.Changes(r.p.Table.Revision(r.p.DB.ReadTxn())),
	}
	return f.follow
}

// checkObserved says what is wrong with the params' observation.
func (p Params) checkObserved() error {
	if p.Observed == nil {
		return nil
	}
	if err := p.Observed.Check(); err != nil {
		return fmt.Errorf("Params.Observed: %w", err)
	}
	return nil
}

// driftFeed follows an observed table, and the rows: each is compared once more
// when it has been done for a while, because what it is compared with may not have
// changed since. Rows that may have drifted are handed over to the deciding
// goroutine, which compares them again when their time has come.
type driftFeed struct {
	*Observation
	r     *Engine
	feed  *childFeed
	own   *store.Cursor
	whole bool      // all rows are to be compared
	lists time.Time // since when the table is incomplete, after it was complete once; else zero
	knew  bool      // it was complete once
	fresh []settled // rows that are done since a short time, oldest first

	suspects []string
}

// settled is a row that is to be compared at a time.
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
		f.look(f.r.p.DB.ReadTxn(), now)
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

// look compares what has to be with a snapshot.
func (f *driftFeed) look(txn store.ReadTxn, now time.Time) {
	f.feed.collect(txn)
	named := f.feed.relay.rows
	f.feed.relay.clear()
	f.takeDone(txn, now)
	switch {
	case !f.Reliable(txn):
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
		for e := range f.r.all(txn) {
			f.examine(txn, e)
		}
	default:
		f.lookAtFresh(txn, now)
		for _, key := range sortedKeys(named) {
			f.r.listings.Observed(key)
			f.examineRow(txn, key)
		}
	}
	if len(f.suspects) > 0 {
		_ = f.r.inbox.trigger(f.suspects, workqueue.Retries, workqueue.Drifted) // refused only when Run ends
		f.suspects = nil
	}
}

// takeDone notes which rows have become done.
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

// lookAtFresh compares the rows that have been done for long enough.
func (f *driftFeed) lookAtFresh(txn store.ReadTxn, now time.Time) {
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

// examine takes a row for suspect that is done and differs, or that did and agrees.
func (f *driftFeed) examine(txn store.ReadTxn, e *store.Entry) {
	status, known := f.r.status(e), f.r.drifted.has(keyOf(e))
	if status.Kind() != Done && !known {
		return // when it is, it is compared
	}
	if f.r.listings.About(keyOf(e), status.Since()) == hold.Unknown {
		return
	}
	changes, err := f.Differs(txn, e)
	f.feed.relay.trouble(func() string { return f.r.p.Table.KeyText(e) }, err)
	if err == nil && (len(changes) > 0 || known) {
		f.suspects = append(f.suspects, keyOf(e))
	}
}

// keySet is a set of encoded keys that several goroutines use.
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
