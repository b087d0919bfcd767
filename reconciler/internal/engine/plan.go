package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
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
	// Orphan: the target has it, and the table has not had it since the start.
	Orphan bool `json:"orphan,omitempty"`
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
		plan.Limits = append(plan.Limits, h.Kind.String()+": "+h.Limit.String())
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

// errUnapproved says how to go on.
var errUnapproved = errors.New("look at the plan and approve it")
