package hold

import (
	"errors"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// awaited are rows that have to be there before others are deleted. Many of those name the same rows, so the answer for
// them is kept until a table changes.
type awaited struct {
	Dependency
	versions, spare []tableVersion     // of the answers
	answers         map[any]awaitedRow // by the key of the row: see Dependency.key
	text            []byte             // reused buffer
}

// awaitedRow describes a row that deletes wait for, or is the zero value. If all of them were applied and are in error, it is the one that
// has been so for the shortest time.
type awaitedRow struct {
	text   string
	failed time.Time // since when it has been in error although it was applied; zero: it is not
}

// A delete waits for a row that was applied and is in error if that began at most failedGrace before the delete was requested: the documents
// of the two may be changed one after the other. A row that failed earlier does not replace what is deleted.
const failedGrace = 10 * time.Second

// pending returns a description of a row that has to be there before another one is deleted, and is
// pending, or "" if there is none. A row for which that cannot be told is deleted.
func (o *Order) pending(it *workqueue.Item, row *store.Entry, txn store.ReadTxn) string {
	for i := range o.after {
		d := &o.after[i]
		if one := d.pending(row, txn); one.isAwaited(it.DeletedAt) {
			return one.text
		}
	}
	return ""
}

func (d *awaited) pending(row *store.Entry, txn store.ReadTxn) awaitedRow {
	var err error
	var key any
	if key, d.text, err = d.key(row, d.text); err != nil {
		return awaitedRow{}
	}
	if key == nil {
		key = string(d.text)
	}
	before := d.versions
	d.versions = d.appendObserved(append(d.spare[:0], tableVersion{d.Table.Revision(txn), true}), txn)
	if d.spare = before; !slices.Equal(before, d.versions) {
		d.answers = map[any]awaitedRow{}
	}
	one, known := d.answers[key]
	if !known {
		queries, err := d.appendQueries(nil, row)
		if err != nil {
			return awaitedRow{}
		}
		one = d.firstPending(queries, txn)
		d.answers[key] = one
	}
	return one
}

func (d *awaited) firstPending(queries []store.Query, txn store.ReadTxn) (first awaitedRow) {
	for _, q := range queries {
		for e := range d.Table.List(txn, q, nil).Entries() {
			state := d.notDone(e)
			there := state == "" || d.exists(txn, e)
			switch {
			case there && d.OneOf != nil:
				return awaitedRow{} // one is enough
			case there, state != pendingState && !d.OrFailed:
				continue
			}
			one := awaitedRow{}
			if state != pendingState {
				one.failed = d.failed(e)
			}
			if first.text != "" && !one.supersedes(first) {
				continue
			}
			if one.text = "the update of " + d.Table.Name() + " " + d.Table.KeyText(e); state != pendingState {
				one.text += ", which " + state
			}
			if first = one; d.OneOf == nil && first.failed.IsZero() {
				return first
			}
		}
	}
	return first
}

// failed returns since when a row that was applied has been in error (see pool.ErrApplied), or zero.
func (d *awaited) failed(row *store.Entry) (since time.Time) {
	_ = pool.Guard(func() {
		if s := d.Status(row); errors.Is(s.Err(), pool.ErrApplied) {
			since = s.Since()
		}
	})
	return since
}

// supersedes reports whether all deletes that wait for the other row wait for r as well, and more may.
func (r awaitedRow) supersedes(other awaitedRow) bool {
	return !other.failed.IsZero() && (r.failed.IsZero() || r.failed.After(other.failed))
}

// isAwaited reports whether a delete that was requested at a time waits for the row.
func (r awaitedRow) isAwaited(requested time.Time) bool {
	return r.text != "" && (r.failed.IsZero() || !r.failed.Before(requested.Add(-failedGrace)))
}

// exists reports whether a row that is not done, as none is after a start, is known to be there already.
func (d *awaited) exists(txn store.ReadTxn, row *store.Entry) bool {
	for _, o := range d.Observed {
		if !o.Reliable(txn) {
			return false
		}
	}
	return len(d.Observed) > 0 && d.difference(txn, row) == ""
}
