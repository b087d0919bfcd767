package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

type (
	// Selector selects rows, to be triggered or paused.
	Selector = hold.Selector
	// ChangeLimit bounds how many rows are changed within a time.
	ChangeLimit = hold.ChangeLimit
	// Dependency makes rows wait for rows of another table.
	Dependency = hold.Dependency
	// Group is reconcilers that know each other.
	Group = hold.Group
	// Drift is what is done about rows that differ from what is observed of them.
	Drift = hold.Drift
)

// owner is what policies may know of the engine.
func (r *Engine) owner() hold.Owner {
	return hold.Owner{Name: r.p.Name, DB: r.p.DB, Table: r.p.Table, Logger: r.p.Logger}
}

// policies are asked in this order about each operation, until one of them holds it.
type policies struct {
	list    []hold.Policy
	repairs *hold.Repairs
	depends *hold.Checker
	order   *hold.Order
	limits  *hold.ChangeLimiter
	rate    *hold.Rate // holds everything
}

func (l *loop) newPolicies(now time.Time) policies {
	r, owner := l.r, l.r.owner()
	p := policies{
		repairs: l.newRepairs(),
		depends: r.depends.NewChecker(),
		order:   hold.NewOrder(owner, r.member, r.p.DependsOn),
		limits:  hold.NewChangeLimiter(owner, r.p.Config.DeleteLimit, r.p.Config.UpdateLimit, r.p.Target.Status, now),
		rate:    hold.NewRate(func() *rate.Limiter { return r.limits.Load().Limiter }),
	}
	p.list = []hold.Policy{r.pauses, p.repairs, p.depends, p.order, p.limits}
	return p
}

// gate puts an operation aside that may not run now, and reports whether it did.
func (l *loop) gate(op *pool.Task, txn store.ReadTxn, now time.Time) bool {
	// What agrees with what is observed is not to be repaired, and waits for nobody.
	if l.compared(op, txn, now) {
		return true
	}
	for _, p := range l.policies.list {
		if why, held := p.Holds(op, txn, now); held {
			l.park(op.Item, why)
			return true
		}
	}
	return false
}

// park puts an item aside that is held.
func (l *loop) park(it *workqueue.Item, why hold.Reason) {
	until := why.Until
	if why.Stage == workqueue.Drift {
		until = earliest(until, it.Refresh) // then it is applied whatever is known of it
	}
	l.queue.Wait(it, why.Stage, until, why.Text)
	l.repairs.Held(it)
	l.ledger.note(it)
}

// backoff is what decides when operations that failed are tried again.
func (r *Engine) backoff() hold.Backoff {
	return hold.Backoff{Min: r.p.Config.MinBackoff, Max: r.p.Config.MaxBackoff, Random: r.random, Replaced: r.p.Config.Backoff}
}

// release makes ready what was held for a reason that may have ended. What is
// held still is put aside again.
func (l *loop) release(stage workqueue.Stage, now time.Time) {
	for _, key := range sortedKeys(l.queue.Items) {
		if it := l.queue.Items[key]; it.Stage() == stage {
			l.enqueue(it, workqueue.Changes, workqueue.Resume, now)
		}
	}
}

// releaseDependents makes rows ready that wait for others, if they still do.
func (r *Engine) releaseDependents(keys []string) {
	_ = r.inbox.post(func(l *loop) { // refused only when Run ends
		now := time.Now()
		for _, key := range keys {
			if it := l.queue.Items[key]; it != nil && it.Stage() == workqueue.Dependency {
				l.enqueue(it, workqueue.Changes, workqueue.Unblocked, now)
			}
		}
	})
}

// releaseDeletes makes deletes ready that wait for those of other reconcilers.
func (r *Engine) releaseDeletes() {
	_ = r.inbox.post(func(l *loop) { l.release(workqueue.Order, time.Now()) })
}

// sortedKeys makes the order of operations the same every time.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Pause keeps the selected rows from being run until a time, or until
// [Reconciler.Resume] if it is zero: rows that come later too, and deletes too.
// Changes of a row meanwhile end in one operation. An operation that is running
// goes on. [ErrNotRunning] when the reconciler does not run; a restart forgets
// pauses.
func (r *Engine) Pause(ctx context.Context, which Selector, until time.Time) error {
	which.Keys = slices.Clone(which.Keys)
	return r.call(ctx, func(l *loop) {
		l.giveUpRound(time.Now())
		r.pauses.Begin(which, until)
		for _, w := range l.pool.Workers() {
			if w.Batch != nil {
				l.takeBack(w.Batch)
			}
		}
	})
}

// Resume ends the pauses of the selected rows: with the zero Selector all
// pauses, with keys those keys, also out of pauses of more keys, and with Match
// the rows that match, also later, out of the pauses by Match. A key that is in a
// pause of all rows or by Match stays paused, and so does a row that matches and
// is in a pause of all rows or by its key.
func (r *Engine) Resume(ctx context.Context, which Selector) error {
	return r.call(ctx, func(l *loop) {
		r.pauses.End(which)
		l.release(workqueue.Paused, time.Now())
	})
}

// Trigger has the selected rows applied now, whatever their status, and failed
// deletes tried again, also of rows that wait for their backoff. It returns how
// many were found. Rows that are waiting to be run already are not run twice.
// [ErrNotRunning] when the reconciler does not run.
func (r *Engine) Trigger(ctx context.Context, which Selector) (int, error) {
	keys := map[string]bool{}
	for e := range r.all(r.p.DB.ReadTxn()) {
		if which.Selects(r.p.Table.KeyText(e), e) {
			keys[keyOf(e)] = true
		}
	}
	err := r.call(ctx, func(l *loop) {
		for key, it := range l.queue.Items {
			if it.Deleting && which.Selects(r.p.Table.KeyText(it.Entry), it.Entry) {
				keys[key] = true
			}
		}
	})
	if err == nil {
		err = r.inbox.trigger(slices.Collect(maps.Keys(keys)), workqueue.Manuals, workqueue.Manual)
	}
	if err != nil {
		return 0, err
	}
	return len(keys), nil
}
