package engine

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
)

// NotTried yields what of a snapshot was wanted when the sources had delivered
// their first listings, and has not been tried since, or has failed fewer than so
// many times and will be tried again: keys as text, with how it stands with the row. Rows that
// were deleted or changed since then are none of it, and neither is a row that
// nothing will try soon: that is paused, stuck, has failed for good, or waits for another row, which is
// for the reconciler of that one to tell. Nothing before the first listings. It
// reads the table as far as it is followed. How often a row has failed is known from
// the table of what is not done, which is told of a row at most once a second: a row
// may be yielded that much longer. Without that table nobody knows: one failure is enough then.
func (r *Engine) NotTried(txn store.ReadTxn, tries int) iter.Seq2[string, string] {
	return func(yield func(key, state string) bool) {
		listed, depends := store.Revision(r.listed.Load()), r.depends.NewChecker()
		for e := range r.all(txn) {
			status := r.status(e)
			if status.Kind() == Done || e.Spec() > listed {
				continue
			}
			state := r.notTried(txn, e, status, tries, depends)
			if state != "" && !yield(r.p.Table.KeyText(e), state) {
				return
			}
		}
	}
}

// notTried says how it stands with a row that is not done and was not tried often
// enough; nothing of others.
func (r *Engine) notTried(txn store.ReadTxn, e *store.Entry, status Status, tries int, depends *hold.Checker) string {
	switch {
	case r.resting(txn, e, status, depends):
		return ""
	case status.Kind() == Pending:
		return "it was not tried yet"
	case r.p.NotDone == nil:
		return ""
	}
	row, _ := r.notDoneRow(txn, r.p.Table.KeyText(e))
	failed := max(1, row.Attempts) // as the status says, which the table may not have been told yet
	if failed >= tries || row.terminal() {
		return ""
	}
	next := ""
	if !row.NextDue.IsZero() {
		next = ", the next is at " + row.NextDue.Format(timeFormat)
	}
	return fmt.Sprintf("it failed %d of %d tries%s: %v", failed, tries, next, status.Err())
}

// resting says that nothing will try a row soon, which is not because it was tried.
// The table of what is not done is too late to tell.
func (r *Engine) resting(txn store.ReadTxn, e *store.Entry, status Status, depends *hold.Checker) bool {
	until, paused := r.pauses.Paused(e)
	if paused && (until.IsZero() || time.Now().Before(until)) {
		return true
	}
	var stuck *StuckError
	return errors.As(status.Err(), &stuck) || depends.Blocked(txn, e)
}
