package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// maxPlanned is how many operations a plan lists.
const maxPlanned = 1000

// Plan is what a reconciler holds because it exceeds [Config.DeleteLimit] or
// [Config.UpdateLimit]. The zero value: nothing is held.
type Plan struct {
	ID      string    `json:"id"`             // what [Reconciler.Approve] wants to know
	Since   time.Time `json:"since,omitzero"` // when the first was held
	Deletes int       `json:"deletes"`        // how many are held, listed or not
	Updates int       `json:"updates"`
	Rows    int       `json:"rows"` // of how many: those there and those to be deleted
	Limits  []string  `json:"limits,omitempty"`
	// Operations is ordered by key. It has the first 1000 of what is held.
	Operations []Planned `json:"operations,omitempty"`
}

// Planned is an operation of a [Plan].
type Planned struct {
	Key       string `json:"key"`       // of the row, as text
	Operation string `json:"operation"` // update or delete
	// Surplus: the target has it, and it was never in the table since the start.
	Surplus bool `json:"surplus,omitempty"`
	// Changes are what the update would do, if the target can tell.
	Changes []Change `json:"changes,omitempty"`
	// Error is why Changes are not known.
	Error string `json:"error,omitempty"`
}

// ApprovalError is returned by [Reconciler.Approve] for a plan that is not the one
// that was shown last, or was approved before.
type ApprovalError struct {
	ID      string // that was to be approved
	Current string // of what is held now; empty: nothing is
}

// Error implements error.
func (e *ApprovalError) Error() string {
	switch e.Current {
	case "":
		return fmt.Sprintf("plan %q cannot be approved: nothing is held", e.ID)
	case e.ID:
		return fmt.Sprintf("plan %q cannot be approved before it was looked at", e.ID)
	}
	return fmt.Sprintf("plan %q cannot be approved: it is out of date, what is held is plan %q", e.ID, e.Current)
}

// planned is an operation that is held, before it is described.
type planned struct {
	Planned
	entry *store.Entry
}

// Plan returns what is held, and the id to approve it by. It changes nothing in
// the target. [ErrNotRunning] when the reconciler does not run.
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

// describe says what an update would do.
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

// Approve lets through what the plan with an id showed, once: what was held since
// then stays so. Only the plan that was shown last can be approved: an
// [ApprovalError] names the current one. [ErrNotRunning] when the reconciler does
// not run; a restart forgets plans.
func (r *Engine) Approve(ctx context.Context, id string) error {
	var err error
	if callErr := r.call(ctx, func(l *loop) { err = l.approve(id, time.Now()) }); callErr != nil {
		return callErr
	}
	return err
}

// show returns what is held, as the plan that can be approved from now on.
func (l *loop) show() (plan Plan, held []planned) {
	l.eachHeld(func(it *workqueue.Item, by *brake, _ *claim) {
		held = append(held, planned{Planned{Operation: by.kind.String(), Surplus: it.Orphan}, it.Entry})
	})
	if len(held) == 0 {
		return Plan{}, nil
	}
	l.blast.shown = l.blast.plan
	plan.ID = l.blast.id(l.blast.shown)
	plan.Deletes, plan.Updates = l.blast.held()
	plan.Rows = l.r.p.Table.Len(l.r.p.DB.ReadTxn()) + plan.Deletes
	l.blast.each(func(b *brake) {
		if b.held {
			plan.Since = earliest(plan.Since, b.since)
			plan.Limits = append(plan.Limits, b.kind.String()+": "+b.limit.String())
		}
	})
	return plan, held
}

// eachHeld calls fn for the items that may not run.
func (l *loop) eachHeld(fn func(it *workqueue.Item, by *brake, c *claim)) {
	if deletes, updates := l.blast.held(); deletes+updates == 0 {
		return
	}
	for _, it := range l.queue.Items {
		if by, c := l.blast.counts(it); c != nil && by.held && c.allowance == wanting {
			fn(it, by, c)
		}
	}
}

func (l *loop) approve(id string, now time.Time) error {
	b := &l.blast
	deletes, updates := b.held()
	switch {
	case deletes+updates == 0:
		return &ApprovalError{ID: id}
	case b.shown == 0 || id != b.id(b.shown):
		return &ApprovalError{ID: id, Current: b.id(b.plan)}
	}
	let := 0
	l.eachHeld(func(it *workqueue.Item, by *brake, c *claim) {
		if c.plan <= b.shown {
			c.allowance = approved
			by.unwant(it.Key)
			by.wanting--
			let++
		}
	})
	b.nextPlan()
	b.each(func(brake *brake) { brake.held = brake.held && brake.wanting > 0 })
	l.release(workqueue.Limit, now)
	l.r.p.Logger.Info("held changes were approved", "reconciler", l.r.p.Name, "plan", id, "rows", let)
	return nil
}

// id names a plan.
func (b *blast) id(plan uint64) string { return b.run + "-" + strconv.FormatUint(plan, 10) }

func runName(now time.Time) string { return strconv.FormatInt(now.UnixMilli(), 36) }

// errUnapproved says how to go on.
var errUnapproved = errors.New("look at the plan and approve it")
