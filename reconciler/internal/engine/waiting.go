package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/statehive/statehive/internal/store"
)

// FailedError is returned by waiting for rows of which some have failed, once
// nothing else of what is waited for has still to be tried.
type FailedError struct {
	Reconciler string
	Rows       []FailedRow // ordered by key; at most a thousand
	More       int         // how many rows have failed beyond those
	// Orphans is why the orphans of the target could not be found, or nil if they were.
	// If it is not nil, what was deleted before the reconciler started may still be there.
	Orphans error
}

// FailedRow is a row whose last operation has failed.
type FailedRow struct {
	Key       string // the primary key as text
	Operation string // update or delete
	Err       error  // as the target returned it
}

// Error implements error. It names the first rows.
func (e *FailedError) Error() string {
	const named = 3
	var parts []string
	for _, row := range e.Rows[:min(named, len(e.Rows))] {
		parts = append(parts, fmt.Sprintf("%s %s: %v", row.Operation, row.Key, row.Err))
	}
	if more := len(e.Rows) + e.More - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	if e.Orphans != nil {
		parts = append(parts, fmt.Sprintf("orphans: %v", e.Orphans))
	}
	return fmt.Sprintf("reconciler %s: %s", e.Reconciler, strings.Join(parts, "; "))
}

// Unwrap returns the errors of the rows and of the search for surplus.
func (e *FailedError) Unwrap() []error {
	errs := make([]error, 0, len(e.Rows)+1)
	for _, row := range e.Rows {
		errs = append(errs, row.Err)
	}
	if e.Orphans != nil {
		errs = append(errs, e.Orphans)
	}
	return errs
}

// WaitRow waits until the row with the primary key of obj is as the table says
// now, or as a later write of it says: done, or gone from the target if the table
// has no such row. A row that never was is gone once the reconciler, after its
// start, has removed the surplus of the target.
//
// It returns, as [Reconciler.WaitTable] and [Reconciler.WaitRevision] do:
//
//   - nil when that has been reached;
//   - a [FailedError] when what is not reached has failed and rests: it waits for
//     its next try, for a change, or is stuck. That may be so from the beginning:
//     [Reconciler.Trigger] has rows tried first. What is held or paused has not
//     failed and is waited for, and so are sources that have still to deliver;
//   - [ErrNotRunning] at once when the reconciler stops. One that was not started
//     yet is waited for, so that Run may be called in another goroutine just now;
//   - the error of ctx when that ends first.
func (r *Engine) WaitRow(ctx context.Context, key string) error {
	return r.wait(ctx, &waiter{revision: r.p.Table.Revision(r.p.DB.ReadTxn()), row: key})
}

// WaitTable waits until everything that the table says now has been reached:
// every row is done, or a later write of it, and what is not in the table is gone
// from the target. It returns as [Reconciler.WaitRow] does.
func (r *Engine) WaitTable(ctx context.Context) error {
	return r.WaitRevision(ctx, r.p.Table.Revision(r.p.DB.ReadTxn()))
}

// WaitRevision is [Reconciler.WaitTable] for what the table said at a revision,
// which may be one that it has still to come to. Rows that were written soon
// after it may be waited for too, and may be why it fails.
func (r *Engine) WaitRevision(ctx context.Context, revision store.Revision) error {
	return r.wait(ctx, &waiter{revision: revision, all: true})
}

// waiter is someone who waits. Its last fields are the deciding goroutine's.
type waiter struct {
	revision store.Revision
	row      string // its encoded key, if all is false
	all      bool
	answer   chan error // has room for one

	place    *waitHeap // that it is in, or nil
	position int       // there
}

func (r *Engine) wait(ctx context.Context, w *waiter) error {
	select {
	case <-r.opened:
	case <-r.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
	w.answer = make(chan error, 1)
	if err := r.inbox.post(func(l *loop) { l.waits.add(w) }); err != nil {
		return err
	}
	select {
	case err := <-w.answer:
		return err
	case <-ctx.Done():
		// One that does not run any more keeps nobody.
		_ = r.inbox.post(func(l *loop) { l.waits.remove(w) })
		return ctx.Err()
	}
}
