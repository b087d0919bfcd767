package reconciler

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/statehive/statehive/statedb"
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
func (r *Reconciler[Obj]) NotTried(txn statedb.ReadTxn, tries int) iter.Seq2[string, string] {
	return func(yield func(key, state string) bool) {
		listed, depends := statedb.Revision(r.listed.Load()), r.newCheckers()
		for obj := range r.p.Table.All(txn) {
			status := r.status.Get(obj)
			if status.Kind() == Done || !r.unchangedSince(txn, obj, listed) {
				continue
			}
			state := r.notTried(txn, obj, status, tries, depends)
			if state != "" && !yield(r.p.Table.Key(obj), state) {
				return
			}
		}
	}
}

// unchangedSince says whether a row was in the table at a revision as it is now.
func (r *Reconciler[Obj]) unchangedSince(txn statedb.ReadTxn, obj Obj, revision statedb.Revision) bool {
	spec, _ := r.p.Table.Spec(txn, r.p.Table.KeyQuery(obj))
	return spec <= revision
}

// notTried says how it stands with a row that is not done and was not tried often
// enough; nothing of others.
func (r *Reconciler[Obj]) notTried(txn statedb.ReadTxn, obj Obj, status Status, tries int, depends checkers[Obj]) string {
	switch {
	case r.resting(txn, obj, status, depends):
		return ""
	case status.Kind() == Pending:
		return "it was not tried yet"
	case r.p.NotDone == nil:
		return ""
	}
	row, _ := r.notDoneRow(txn, r.p.Table.Key(obj))
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
func (r *Reconciler[Obj]) resting(txn statedb.ReadTxn, obj Obj, status Status, depends checkers[Obj]) bool {
	until, paused := r.paused(obj)
	if paused && (until.IsZero() || time.Now().Before(until)) {
		return true
	}
	var stuck *StuckError
	return errors.As(status.Err(), &stuck) || depends.blocked(txn, obj)
}
