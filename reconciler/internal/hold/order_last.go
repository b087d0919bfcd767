package hold

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// DeletesLast makes the deletes of a table wait for the updates that may replace what they remove.
type DeletesLast struct {
	// Status returns the status of a row.
	Status func(row *store.Entry) status.Status
	// RemovedFirst yields queries for the rows that may not be possible to apply before a removed row is deleted. It may be nil.
	RemovedFirst func(txn store.ReadTxn, row *store.Entry, yield func(store.Query) bool)
	// Removes returns the row that describes what the delete of a row takes from the target, or nil if it takes nothing that other rows may
	// depend on. If it is nil, that is the row itself.
	Removes func(txn store.ReadTxn, row *store.Entry) *store.Entry
	// Error returns the error of the last update of a row, or nil if it has not been tried or is held.
	Error func(key string) error
	// Start returns the time of the start, and the revision of the table then.
	Start func() (time.Time, store.Revision)
	// Taken reports whether the reconciler knows all changes of the table up to a revision.
	Taken func(store.Revision) bool
}

// Changed records that a row was inserted or changed.
func (o *Order) Changed(row *store.Entry) {
	if o.last != nil {
		o.unapplied.add(string(row.Key()), row.Spec())
	}
}

// Failed records that an update has failed.
func (o *Order) Failed(err error) { o.relieved = o.relieved || o.awaited && isBlocked(err) }

// isBlocked reports whether an update has failed because something exists.
func isBlocked(err error) bool { return errors.Is(err, fs.ErrExist) }

// Applied records that a row was applied, or is gone.
func (o *Order) Applied(key string) { delete(o.unapplied.changed, key) }

// Relieve reports, once, that deletes that waited for unapplied rows may no longer have to.
func (o *Order) Relieve() bool {
	relieved := o.relieved || o.awaited && len(o.unapplied.changed) == 0
	o.awaited, o.relieved = o.awaited && !relieved, false
	return relieved
}

// unappliedRow returns a description of an update that has to be made before an item is deleted, because it may be that of a row in its place, or
// "". No row is that was changed before the row of the item. Rows of the start are only for orphans, and for what is deleted soon after the start.
func (o *Order) unappliedRow(it *workqueue.Item, row *store.Entry, wait orderedItem, txn store.ReadTxn) string {
	if o.last == nil {
		return ""
	}
	if !o.last.Taken(wait.revision) {
		return "the other changes of " + o.owner.Table.Name()
	}
	key, at := o.unapplied.newest()
	if key == "" || at <= o.since(it, row) || o.isInTheWay(row, txn) {
		return ""
	}
	o.awaited = true
	text := "the update of " + o.owner.Table.Name()
	if e := o.owner.Table.FindKey(txn, []byte(key)); e != nil {
		text += " " + o.owner.Table.KeyText(e)
		if s := o.last.Status(e); s.Kind() == status.Error {
			text += ", which " + describe(s)
		}
	}
	return text
}

// StartPeriod is how long after the start rows may be deleted by the change that the start is a part of.
const StartPeriod = 10 * time.Minute

// since returns the revision after which other rows were changed that an item may be replaced by.
func (o *Order) since(it *workqueue.Item, row *store.Entry) store.Revision {
	began, start := o.last.Start()
	switch {
	case it.Orphan:
		return 0
	case row.Spec() > start:
		return row.Spec()
	case it.DeletedAt.Sub(began) < StartPeriod:
		return 0
	}
	return start
}

// isInTheWay reports whether a row that has not been applied has failed because another one is not deleted.
func (o *Order) isInTheWay(row *store.Entry, txn store.ReadTxn) (is bool) {
	o.last.removedFirst(txn, o.owner.Table, row, func(key string) bool {
		_, is = o.unapplied.changed[key]
		return !is
	})
	return is
}

// removedFirst yields the encoded keys of the rows of a table that have failed because a row is not deleted.
func (l *DeletesLast) removedFirst(txn store.ReadTxn, table *store.Table, row *store.Entry, yield func(key string) bool) {
	if l.RemovedFirst == nil {
		return
	}
	_ = pool.Guard(func() { // a delete for which that is unknown waits
		l.RemovedFirst(txn, row, func(q store.Query) bool {
			for e := range table.List(txn, q, nil).Entries() {
				if key := string(e.Key()); isBlocked(l.Error(key)) && !yield(key) {
					return false
				}
			}
			return true
		})
	})
}

// removed returns what the delete of a row takes away, or nil.
func (l *DeletesLast) removed(txn store.ReadTxn, row *store.Entry) *store.Entry {
	is := row
	if l.Removes != nil {
		_ = pool.Guard(func() { is = l.Removes(txn, row) })
	}
	return is
}

// unapplied are the rows that have been inserted or changed and not been applied since.
type unapplied struct {
	changed map[string]*changedRow // by encoded key
	order   []*changedRow          // oldest first; some may not be in changed any more
}

type changedRow struct {
	key string
	at  store.Revision
}

// add adds a row, which may be known already: each full pass adds all rows that are still pending.
func (u *unapplied) add(key string, at store.Revision) {
	if u.changed == nil {
		u.changed = map[string]*changedRow{}
	}
	if known := u.changed[key]; known != nil && known.at == at {
		return
	}
	row := &changedRow{key, at}
	u.changed[key] = row
	if len(u.order) > 2*len(u.changed)+100 {
		u.order = slices.DeleteFunc(u.order, u.outdated)
	}
	i, _ := slices.BinarySearchFunc(u.order, at, func(other *changedRow, at store.Revision) int { return cmp.Compare(other.at, at) })
	u.order = slices.Insert(u.order, i, row)
}

func (u *unapplied) outdated(row *changedRow) bool { return u.changed[row.key] != row }

// newest returns the key of the row that was changed last, or "" if there are none.
func (u *unapplied) newest() (key string, at store.Revision) {
	for n := len(u.order); n > 0; n = len(u.order) {
		if last := u.order[n-1]; !u.outdated(last) {
			return last.key, last.at
		}
		u.order = u.order[:n-1]
	}
	return "", 0
}
