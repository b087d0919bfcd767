package statedb

import (
	"iter"

	"github.com/statehive/statehive/internal/store"
)

// Table reads rows. All methods are safe for concurrent use and take no locks. They read the
// snapshot txn: a read transaction always has the same state, and a [*WriteTxn] also has its
// own writes. Rows and sequences stay valid forever; rows must not be changed. A sequence
// yields the rows as of the call that returned it, so a write transaction may write while it
// iterates. [WithReverse] and [WithLimit] work with every query, [Count] with every sequence.
//
// A table is empty in a snapshot that does not have it, because it was taken before the table
// was created or from another database. Programming errors panic: a query of an index that
// the table does not have, a range between two indexes, and the use of a table that
// [NewTable] did not make.
//
// The …Watch forms also return a channel that closes, at the latest, when a transaction
// commits that changes the result of the call. The new snapshot can be read by then. Inside
// a write transaction the channel may be closed by the transaction's own commit; it certainly
// is if the transaction has written to the table before the call. For another database the
// channel is nil, which never closes.
type Table[Obj any] struct {
	_ [0]*Obj // tables of different rows cannot be converted into each other
	untyped
}

// untyped has the methods of a table that do not depend on the type of its rows.
type untyped struct{ core *store.Table }

// Untyped returns the table without the type of its rows. The result is always the same for a
// table, so comparing results tells whether two tables are the same.
func (t *untyped) Untyped() *store.Table { return t.core }

// Name returns the name of the table.
func (t *untyped) Name() string { return t.core.Name() }

// Len returns the number of rows.
func (t *untyped) Len(txn ReadTxn) int { return t.core.Len(txn) }

// LenOf returns the number of rows in an index, where a row counts once for each of its
// keys. The error matches [ErrUnknownIndex].
func (t *untyped) LenOf(txn ReadTxn, index string) (int, error) { return t.core.LenOf(txn, index) }

// Revision returns the revision of the newest change.
func (t *untyped) Revision(txn ReadTxn) Revision { return t.core.Revision(txn) }

// Watch returns a channel that closes when anything has changed since txn: a row, or
// the state of a source.
func (t *untyped) Watch(txn ReadTxn) <-chan struct{} { return t.core.Watch(txn) }

// Initialized reports whether every registered source has delivered its first listing,
// and returns a channel that closes once they have: for a snapshot taken after that it
// reports true.
func (t *untyped) Initialized(txn ReadTxn) (bool, <-chan struct{}) { return t.core.Initialized(txn) }

// Sources returns the states of the table's sources, ordered by name.
func (t *untyped) Sources(txn ReadTxn) []SourceState { return t.core.Sources(txn) }

// Amendable reports whether the schema separates status from spec.
func (t *untyped) Amendable() bool { return t.core.Amendable() }

// found returns the row of an entry, which may be nil.
func found[Obj any](e *store.Entry) (obj Obj, revision Revision, ok bool) {
	if e == nil {
		return obj, 0, false
	}
	return objectOf[Obj](e), e.Revision(), true
}

// rows yields the rows of a selection. It is the only loop over rows, so that the loop is
// compiled once for each row type, not for each method that returns rows.
//
//go:noinline
func rows[Obj any](selection *store.Selection) iter.Seq2[Obj, Revision] {
	return func(yield func(Obj, Revision) bool) {
		var s store.Scan
		s.Start(selection)
		distance, separate := s.Layout()
		for run := s.Next(); len(run) > 0; run = s.Next() {
			for _, leaf := range run {
				e := store.EntryOf(leaf, distance, separate)
				if !yield(objectOf[Obj](e), e.Revision()) {
					return
				}
			}
		}
	}
}

// Get returns the row with the query's key and the revision of its last change. With a
// secondary index it returns the first such row by primary key.
func (t *Table[Obj]) Get(txn ReadTxn, q Query[Obj]) (obj Obj, revision Revision, ok bool) {
	if e := t.core.Find(txn, q.q); e != nil {
		return objectOf[Obj](e), e.Revision(), true
	}
	return obj, 0, false
}

// GetWatch is Get with a watch.
func (t *Table[Obj]) GetWatch(txn ReadTxn, q Query[Obj]) (Obj, Revision, <-chan struct{}, bool) {
	e, watch := t.core.FindWatch(txn, q.q)
	obj, revision, ok := found[Obj](e)
	return obj, revision, watch, ok
}

// List yields the rows with the query's key, ordered by primary key.
func (t *Table[Obj]) List(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.List(txn, q.q, opts))
}

// ListWatch is List with a watch.
func (t *Table[Obj]) ListWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.ListWatch(txn, q.q, opts)
	return rows[Obj](selection), watch
}

// Prefix yields the rows with a key that starts with the query's, in key order. It is
// meant for strings and bytes; with a key type of fixed width only the whole key is a
// prefix.
func (t *Table[Obj]) Prefix(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.Prefix(txn, q.q, opts))
}

// PrefixWatch is Prefix with a watch.
func (t *Table[Obj]) PrefixWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.PrefixWatch(txn, q.q, opts)
	return rows[Obj](selection), watch
}

// LowerBound yields the rows with keys not less than the query's, in key order.
func (t *Table[Obj]) LowerBound(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.LowerBound(txn, q.q, opts))
}

// LowerBoundWatch is LowerBound with a watch.
func (t *Table[Obj]) LowerBoundWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.LowerBoundWatch(txn, q.q, opts)
	return rows[Obj](selection), watch
}

// Range yields the rows with keys from the first query's up to but not including the
// second's, in key order. Both queries must be of the same index.
func (t *Table[Obj]) Range(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.Range(txn, from.q, to.q, opts))
}

// RangeWatch is Range with a watch.
func (t *Table[Obj]) RangeWatch(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.RangeWatch(txn, from.q, to.q, opts)
	return rows[Obj](selection), watch
}

// All yields every row in the order of the primary index.
func (t *Table[Obj]) All(txn ReadTxn, opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.All(txn, opts))
}

// AllWatch is All with a watch.
func (t *Table[Obj]) AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.AllWatch(txn, opts)
	return rows[Obj](selection), watch
}

// Spec returns the revision of the last write of the row with the query's key
// that was not a status write.
func (t *Table[Obj]) Spec(txn ReadTxn, q Query[Obj]) (Revision, bool) { return t.core.Spec(txn, q.q) }

// Key returns the text form of a row's primary key.
func (t *Table[Obj]) Key(obj Obj) string { return t.core.Key(rowOf(&obj)) }

// KeyQuery returns the query for the row with the primary key of obj.
func (t *Table[Obj]) KeyQuery(obj Obj) Query[Obj] {
	return Query[Obj]{t.core.KeyQuery(rowOf(&obj))}
}

// ParseKey parses the text of a key, as people write it, and returns the query for it.
// The error matches ErrUnknownIndex, or ErrBadKey if the text is not a key of the
// index.
func (t *Table[Obj]) ParseKey(index, text string) (Query[Obj], error) {
	q, err := t.core.ParseKey(index, text)
	return Query[Obj]{q}, err
}

// Matches reports whether obj, which need not be in the table, has the query's key.
func (t *Table[Obj]) Matches(q Query[Obj], obj Obj) bool { return t.core.Matches(q.q, rowOf(&obj)) }

// Changes opens a cursor on the changes after a revision: 0 starts with a listing of
// the table, the table's current revision with the next change. The cursor must be
// closed.
func (t *Table[Obj]) Changes(after Revision) *Cursor[Obj] {
	return &Cursor[Obj]{t.core.Changes(after)}
}
