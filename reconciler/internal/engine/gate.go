package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
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
	// ChangeLimit bounds how many rows are changed within a window of time.
	ChangeLimit = hold.ChangeLimit
	// Memory remembers across restarts that deletes are held.
	Memory = hold.Memory
	// HeldDeletes is what a Memory stores.
	HeldDeletes = hold.HeldDeletes
	// Dependency makes rows wait for rows of another table.
	Dependency = hold.Dependency
	// Queries yields queries.
	Queries = hold.Queries
	// Replaces returns the row that an update would first remove from the target, or nil.
	Replaces = hold.Replaces
	// Group connects the reconcilers of a process.
	Group = hold.Group
	// Drift configures how to handle rows that differ from the observed state.
	Drift = hold.Drift
)

// owner returns the information about the engine that policies need.
func (r *Engine) owner() hold.Owner {
	return hold.Owner{Name: r.p.Name, DB: r.p.DB, Table: r.p.Table, Logger: r.p.Logger}
}

// policies are consulted about each operation in the order of list, until one holds it.
type policies struct {
	list    []hold.Policy
	repairs *hold.Repairs
	depends *hold.Checker
	order   *hold.Order
	limits  *hold.ChangeLimiter
	rate    *hold.Rate // holds all rows
}

func (l *loop) newPolicies(now time.Time) policies {
	r, owner, last := l.r, l.r.owner(), l.deletesLast()
	p := policies{
		repairs: l.newRepairs(),
		depends: r.depends.NewChecker(),
		order:   hold.NewOrder(owner, r.member, r.p.deletedBefore(), r.p.DeletedAfter, last, r.p.Replaces),
		limits:  hold.NewChangeLimiter(owner, r.member, last, r.p.Config.DeleteLimit, r.p.Config.UpdateLimit, r.p.Memory, r.p.Target.Status, now),
		rate:    hold.NewRate(func() *rate.Limiter { return r.limits.Load().Limiter }),
	}
	p.list = []hold.Policy{r.pauses, p.repairs, p.depends, p.order, p.limits}
	return p
}

// deletesLast returns nil unless deletes wait for the updates that may replace what they remove.
func (l *loop) deletesLast() *hold.DeletesLast {
	if !l.r.p.DeletesLast {
		return nil
	}
	return &hold.DeletesLast{
		Status: l.r.p.Target.Status, RemovedFirst: l.r.p.RemovedFirst, Removes: l.r.p.Removes, Error: l.errorOf,
		Start: func() (time.Time, store.Revision) { return l.startedAt, l.startedFrom },
		Taken: func(revision store.Revision) bool { return l.round.open == 0 && l.waiters.read >= revision },
	}
}

// errorOf returns the error of the last update of a row, or nil if it has not been tried or is held.
func (l *loop) errorOf(key string) error {
	it := l.queue.Items[key]
	if it == nil || it.Deleting || it.Stage().Held() {
		return nil
	}
	return it.Err
}

// gate holds an operation that may not run now, and reports whether it did.
func (l *loop) gate(op *pool.Task, txn store.ReadTxn, now time.Time) bool {
	// A row that agrees with the observed state needs no repair, so policies do not apply.
	if l.compared(op, txn, now) {
		return true
	}
	for _, p := range l.policies.list {
		if why, held := p.Holds(op, txn, now); held {
			l.order.NoteGate(op, why)
			why.Until = earliest(why.Until, l.compareHeld(op, txn, now))
			l.holdItem(op.Item, why)
			return true
		}
	}
	l.order.NoteGate(op, hold.Reason{})
	return false
}

// holdItem moves an item to the stage of the reason that holds it.
func (l *loop) holdItem(it *workqueue.Item, why hold.Reason) {
	until := why.Until
	if why.Stage == workqueue.Drift {
		until = earliest(until, it.Refresh) // then it is applied even if it has not drifted
	}
	l.queue.Wait(it, why.Stage, until, why.Text)
	l.repairs.Held(it)
	l.notDone.note(it)
}

// backoff returns the schedule for retries.
func (r *Engine) backoff() hold.Backoff {
	return hold.Backoff{Min: r.p.Config.MinBackoff, Max: r.p.Config.MaxBackoff, Random: r.random, Replaced: r.p.Config.Backoff}
}

// release makes all items of a stage ready, because the reason to hold them may have ended. The
// gate holds them again if it has not.
func (l *loop) release(stage workqueue.Stage, now time.Time) {
	for _, key := range sortedKeys(l.queue.Items) {
		if it := l.queue.Items[key]; it.Stage() == stage {
			l.enqueue(it, workqueue.Changes, workqueue.Resume, now)
		}
	}
}

// releaseDependents makes rows ready that are waiting for rows they depend on.
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

// releaseDeletes makes deletes ready that are waiting for deletes of other reconcilers.
func (r *Engine) releaseDeletes() {
	_ = r.inbox.post(func(l *loop) { l.release(workqueue.Order, time.Now()) })
}

// sortedKeys returns the keys of m in order, which makes the order of operations reproducible.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Pause holds the selected rows, including future rows and deletes, until a time, or until
// [Reconciler.Resume] if the time is zero. Changes in the meantime result in one operation. A
// running operation continues. Pauses do not survive a restart. If there is a Memory, the deletes of orphans are held after a restart
// in a pause, or before what the pause held back has been tried. Pause returns [ErrNotRunning] if the reconciler is not running.
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
		l.limits.SetPaused(true)
	})
}

// untried reports whether the last version of an item's row has not been tried, or not its delete.
func (l *loop) untried(it *workqueue.Item) bool {
	return it.Entry != nil && (it.Deleting || !it.Differs && l.r.status(it.Entry).Kind() == Pending)
}

// endPauses ends pauses, and notes the changes that these may have held back, which have yet to be applied.
func (l *loop) endPauses(end func(), now time.Time) {
	for _, it := range l.queue.Items {
		if !l.untried(it) {
			continue
		}
		if _, paused := l.r.pauses.Paused(it.Entry); paused {
			l.limits.HoldBack(it.Key)
		}
	}
	end()
	l.limits.SetPaused(l.r.pauses.Any())
	l.release(workqueue.Paused, now)
}

// Resume ends pauses: all of them with the zero Selector; with Keys, the pauses of these keys,
// even if they were paused together with others; and with Match, the pauses by Match of present
// and future rows that match. A row stays paused if another pause still covers it: of all rows,
// by Match when resumed by key, or by key when resumed by Match.
func (r *Engine) Resume(ctx context.Context, which Selector) error {
	covered := false
	err := r.call(ctx, func(l *loop) {
		l.endPauses(func() { r.pauses.End(which) }, time.Now())
		covered = len(which.Keys) > 0 && r.pauses.All()
	})
	if err == nil && covered {
		return ErrAllPaused
	}
	return err
}

// ErrAllPaused is the error of resuming some keys while all rows are paused.
var ErrAllPaused = errors.New("all rows are paused, and stay so until all are resumed")

// Trigger applies the selected rows now, whatever their status, and retries failed deletes without
// waiting for their backoff. Deletes that are selected by Keys do not wait for updates any more (see DeletesLast and DeletedAfter
// in [Params]). It returns the number of rows found. Rows that are already queued
// run once. Trigger returns [ErrNotRunning] if the reconciler is not running.
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
				keys[key], it.AtOnce = true, it.AtOnce || len(which.Keys) > 0
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

// maxPlanned is how many operations a plan lists.
const maxPlanned = 1000

// Plan lists the operations that a reconciler holds because they exceed [Config.DeleteLimit] or
// [Config.UpdateLimit]. The zero value is empty.
type Plan struct {
	ID      string    `json:"id"`             // the argument of [Reconciler.Approve]
	Since   time.Time `json:"since,omitzero"` // when the first operation was held
	Deletes int       `json:"deletes"`        // held deletes, listed or not
	Updates int       `json:"updates"`
	Rows    int       `json:"rows"` // number of rows in the table, including those to be deleted
	Limits  []string  `json:"limits,omitempty"`
	// Operations has the first 1000 held operations, ordered by key.
	Operations []Planned `json:"operations,omitempty"`
}

// Planned is an operation of a [Plan].
type Planned struct {
	Key       string `json:"key"`       // of the row, as text
	Operation string `json:"operation"` // update or delete
	// Orphan reports whether the target has the row, but the table has not had it since the start.
	Orphan bool `json:"orphan,omitempty"`
	// Changes are the changes that the update would make, if the target can predict them.
	Changes []Change `json:"changes,omitempty"`
	// Error is the reason why Changes are unknown.
	Error string `json:"error,omitempty"`
}

// ApprovalError is returned by [Reconciler.Approve] for a plan that is not the one shown last, or
// that was already approved.
type ApprovalError struct {
	ID      string // the plan to be approved
	Current string // the current plan; empty if nothing is held
}

// Error implements error.
func (e *ApprovalError) Error() string {
	switch e.Current {
	case "":
		return fmt.Sprintf("plan %q cannot be approved: nothing is held", e.ID)
	case e.ID:
		return fmt.Sprintf("plan %q cannot be approved before it has been shown", e.ID)
	}
	return fmt.Sprintf("plan %q cannot be approved: it is outdated, the current plan is %q", e.ID, e.Current)
}

// planned is a held operation whose changes have not been determined yet.
type planned struct {
	Planned
	entry *store.Entry
}

// Plan returns the held operations, and the id to approve them by. It changes nothing in the
// target. It returns [ErrNotRunning] if the reconciler is not running.
func (r *Engine) Plan(ctx context.Context) (Plan, error) {
	var plan Plan
	var held []planned
	if err := r.call(ctx, func(l *loop) { plan, held = l.show() }); err != nil {
		return Plan{}, err
	}
	for i := range held {
		held[i].Key = r.p.Table.KeyText(held[i].entry)
	}
	slices.SortFunc(held, func(a, b planned) int { return cmp.Compare(a.Key, b.Key) })
	for _, op := range held[:min(len(held), maxPlanned)] {
		if r.p.Target.Diff != nil && op.Operation == pool.Update.String() {
			r.describe(ctx, &op)
		}
		plan.Operations = append(plan.Operations, op.Planned)
	}
	return plan, nil
}

// describe adds the changes that an update would make.
func (r *Engine) describe(ctx context.Context, op *planned) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.p.Config.OperationTimeout, pool.ErrOverdue)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			op.Error = (&PanicError{Value: v, Stack: debug.Stack()}).Error()
		}
	}()
	txn := r.p.DB.ReadTxn()
	e := r.p.Table.FindKey(txn, op.entry.Key())
	if e == nil {
		return
	}
	changes, err := r.p.Target.Diff(ctx, txn, e)
	if op.Changes = changes; err != nil {
		op.Error = r.explained(ctx, err).Error()
	}
}

// Approve releases the operations of a plan, once; operations held since then stay held. Only the
// plan shown last can be approved, or else Approve returns an [ApprovalError] that names the
// current one. Plans do not survive a restart. Approve returns [ErrNotRunning] if the reconciler
// is not running.
func (r *Engine) Approve(ctx context.Context, id string) error {
	var err error
	if callErr := r.call(ctx, func(l *loop) { err = l.approve(id, time.Now()) }); callErr != nil {
		return callErr
	}
	return err
}

// show returns the held operations as a plan that can be approved from now on.
func (l *loop) show() (plan Plan, held []planned) {
	plan.Deletes, plan.Updates = l.limits.HeldItems()
	if plan.Deletes+plan.Updates == 0 {
		return Plan{}, nil
	}
	for _, it := range l.queue.Items {
		if kind, is := l.limits.HeldKind(it.Key); is {
			held = append(held, planned{Planned{Operation: kind.String(), Orphan: it.Orphan}, it.Entry})
		}
	}
	plan.ID = l.limits.ShowPlan()
	plan.Rows = l.r.p.Table.Len(l.r.p.DB.ReadTxn()) + plan.Deletes
	for _, h := range l.limits.Held() {
		plan.Since = earliest(plan.Since, h.Since)
		plan.Limits = append(plan.Limits, h.Kind.String()+": "+h.Limit)
	}
	return plan, held
}

func (l *loop) approve(id string, now time.Time) error {
	if deletes, updates := l.limits.HeldItems(); deletes+updates == 0 {
		return &ApprovalError{ID: id}
	}
	n, ok := l.limits.Approve(id)
	if !ok {
		return &ApprovalError{ID: id, Current: l.limits.PlanID()}
	}
	l.release(workqueue.Limit, now)
	l.r.p.Logger.Info("held changes were approved", "reconciler", l.r.p.Name, "plan", id, "rows", n)
	return nil
}

// errUnapproved tells users what to do about held changes.
var errUnapproved = errors.New("look at the plan and approve it")
