package reconciler

import (
	"fmt"
	"iter"
	"time"

	"github.com/statehive/statehive/statedb"
)

// NotTried yields what of a snapshot was wanted when the sources had delivered
// their first listings, and has not been tried since, or has failed fewer than so
// many times and will be tried again: keys as text, with how it stands with the row. Rows that
// were deleted or changed since then are none of it, and neither is a row that
// nothing will try soon: that is paused, stuck, or waits for another row, which is
// for the reconciler of that one to tell. Nothing before the first listings. It
// reads the table as far as it is followed. Without a table of what is not done
// nobody knows how often a row has failed: one failure is enough then.
func (r *Reconciler[Obj]) NotTried(txn statedb.ReadTxn, tries int) iter.Seq2[string, string] {
	return func(yield func(key, state string) bool) {
		listed := statedb.Revision(r.listed.Load())
		for obj := range r.p.Table.All(txn) {
			kind := r.status.Get(obj).Kind()
			if kind == Done || !r.unchangedSince(txn, obj, listed) {
				continue
			}
			state := r.notTried(txn, obj, kind, tries)
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
func (r *Reconciler[Obj]) notTried(txn statedb.ReadTxn, obj Obj, kind StatusKind, tries int) string {
	row, found := r.notDoneRow(txn, r.p.Table.Key(obj))
	switch {
	case kind == Pending:
		if held := found && (row.State == holdStates[holdPaused] || row.State == stageStuck); held || r.blocked(txn, obj) {
			return ""
		}
		return "it was not tried yet"
	case row.State != notDoneError || row.Attempts >= tries || row.NextDue.IsZero():
		return ""
	}
	return fmt.Sprintf("it failed %d of %d tries, the next is at %s: %s", row.Attempts, tries, row.NextDue.Format(time.RFC3339), row.LastError)
}
