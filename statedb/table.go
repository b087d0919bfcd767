package statedb

import (
	"fmt"
	"iter"

	"github.com/statehive/statehive/internal/store"
)

// Table reads rows. All methods are safe for concurrent use and take no locks. They see the
// snapshot of txn: always the same state through a read transaction, and the transaction's
// own writes through a [*WriteTxn]. Rows and sequences stay valid forever; rows must not be
// changed. A sequence yields the rows as of the call that returned it, so a write
// transaction may write while it iterates. [Reverse] and [Limit] work with every query,
// [Count] with every sequence.
//
// A table is empty in a snapshot that does not have it (taken before it was created, or
// from another database). A query of an index that the table does not have, and a range
// between two indexes, are mistakes in the program, and panic.
//
// The …Watch forms also return a channel that closes, at the latest, when a transaction
// commits that changes what the call returned. The new snapshot can be read by then. Inside
// a write transaction the channel may be closed by that transaction's own commit, and is if
// the transaction has written to the table before the call. For another database the
// channel is nil, which never closes.
type Table[Obj any] interface {
	TableMeta

	// Get returns the row with the query's key and the revision of its last change. With a
	// secondary index it returns the first such row by primary key.
	Get(txn ReadTxn, q Query[Obj]) (Obj, Revision, bool)
	GetWatch(txn ReadTxn, q Query[Obj]) (Obj, Revision, <-chan struct{}, bool)
	// List yields the rows with the query's key, ordered by primary key.
	List(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision]
	ListWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{})
	// Prefix yields the rows with a key that starts with the query's, in key order. It is
	// meant for strings and bytes; with a key type of fixed width only the whole key is a
	// prefix.
	Prefix(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision]
	PrefixWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{})
	// LowerBound yields the rows with keys not less than the query's, in key order.
	LowerBound(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision]
	LowerBoundWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{})
	// Range yields the rows with keys from the first query's up to the second's,
	// which is not included, in key order. Both must be of one index.
	Range(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision]
	RangeWatch(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{})
	// All yields every row in the order of the primary index.
	All(txn ReadTxn, opts ...ReadOption) iter.Seq2[Obj, Revision]
	AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{})

	// Len returns the number of rows, and LenOf the number of rows in an index, where a row
	// counts once for each of its keys.
	Len(txn ReadTxn) int
	LenOf(txn ReadTxn, index string) (int, error)
	// Revision returns the revision of the newest change.
	Revision(txn ReadTxn) Revision
	// Spec returns the revision of the last write of the row with the query's key
	// that was not a status write.
	Spec(txn ReadTxn, q Query[Obj]) (Revision, bool)
	// Key returns the text form of a row's primary key.
	Key(obj Obj) string
	// KeyQuery returns the query for the row with the primary key of obj.
	KeyQuery(obj Obj) Query[Obj]
	// ParseKey parses the text of a key, as people write it, and returns the query for it.
	// The error matches ErrUnknownIndex, or ErrBadKey if the text is not a key of the
	// index.
	ParseKey(index, text string) (Query[Obj], error)
	// Matches reports whether obj, which need not be in the table, has the query's key.
	Matches(q Query[Obj], obj Obj) bool

	// Watch returns a channel that closes when anything has changed since txn: a row, or
	// the state of a source.
	Watch(txn ReadTxn) <-chan struct{}

	// Initialized reports whether every registered source has delivered its first listing,
	// and returns a channel that closes once they have: for a snapshot taken after that it
	// reports true.
	Initialized(txn ReadTxn) (bool, <-chan struct{})
	// Sources returns the states of the table's sources, ordered by name.
	Sources(txn ReadTxn) []SourceState

	// Changes opens a cursor on the changes after a revision: 0 starts with a listing of
	// the table, the table's current revision with the next change. The cursor must be
	// closed.
	Changes(after Revision) *Cursor[Obj]

	// Amendable reports whether the schema separates status from spec.
	Amendable() bool
}

// RWTable is a [Table] that can be written. The write methods need a transaction that was
// opened for the table, must be called from its goroutine, and return:
//
//   - [ErrTxnClosed], [ErrNotLocked], [ErrForeignTable]: wrong transaction;
//   - [ErrNilRow], [ErrSameObject], [ErrKeyChanged]: wrong row;
//   - [ErrRejected]: the schema's defaulters or validators refused the row;
//   - [ErrNotFound], [ErrConflict], [ErrUnknownIndex] where said.
//
// These errors are wrapped in a [RowError] or [TableError]. A failed write changes nothing,
// not even the revision. Rows given to a write belong to the table from then on and must
// not be changed.
type RWTable[Obj any] interface {
	Table[Obj]

	// Insert writes a row, replacing the one with the same primary key. The status of the
	// old row is carried over; if the row then equals the old one nothing is written,
	// otherwise its status is reset.
	Insert(txn *WriteTxn, obj Obj) (old Obj, replaced bool, err error)
	// InsertIfAbsent is Insert, provided that there is no row with the primary key;
	// otherwise it changes nothing and returns the one that exists.
	InsertIfAbsent(txn *WriteTxn, obj Obj) (existing Obj, inserted bool, err error)
	// Modify replaces the row that q finds, as Get does, by the result of fn, which is
	// written as by Insert. fn must return a changed copy and not write the row itself:
	// that is an ErrConflict. The error matches ErrNotFound if there is no such row.
	Modify(txn *WriteTxn, q Query[Obj], fn func(old Obj) Obj) (old Obj, err error)
	// CompareAndSwap is Insert, provided that the row's spec was not changed
	// after revision; else ErrConflict, or ErrNotFound. Status writes do not count.
	CompareAndSwap(txn *WriteTxn, revision Revision, obj Obj) (old Obj, err error)
	// Delete removes the row with the primary key of obj; it is not an error if there is
	// none.
	Delete(txn *WriteTxn, obj Obj) (old Obj, deleted bool, err error)
	// CompareAndDelete is Delete under the condition of CompareAndSwap.
	CompareAndDelete(txn *WriteTxn, revision Revision, obj Obj) (old Obj, err error)
	// DeleteAll removes every row, and DeletePrefix those that [Table.Prefix] yields; both
	// return how many. The error matches ErrUnknownIndex if the index is not the table's.
	DeleteAll(txn *WriteTxn) (deleted int, err error)
	DeletePrefix(txn *WriteTxn, q Query[Obj]) (deleted int, err error)
	// Amend writes status: fn gets the current row with the primary key of obj and returns
	// a copy with another status; only the status of the copy is used. Nothing happens, and
	// amended is false, if the row is gone or its spec was changed after revision. The
	// error matches ErrNotAmendable if the schema has no Amend.
	Amend(txn *WriteTxn, obj Obj, revision Revision, fn func(current Obj) Obj) (amended bool, err error)

	// RegisterSource adds a source to the table, which is not initialized until the source
	// has delivered its first listing. The error matches ErrSourceExists if there is a
	// source with this name that has not ended.
	RegisterSource(txn *WriteTxn, name string) (*Source, error)
}

// NewTable adds a table to db. If the schema is invalid, the error matches [ErrSchema] and
// says what to change.
func NewTable[Obj any](db *DB, schema Schema[Obj]) (RWTable[Obj], error) {
	f := schema.facts()
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%w of table %q: %w", ErrSchema, schema.Name, err)
	}
	core, err := store.NewTable(db, schema.Name, schema.rowType(&f))
	if err != nil {
		return nil, err
	}
	return &table[Obj]{core}, nil
}

// table adds the type of the rows to a table of the store.
type table[Obj any] struct{ core *store.Table }

func (t *table[Obj]) Untyped() *store.Table { return t.core }
func (t *table[Obj]) Name() string          { return t.core.Name() }

// found returns the row of an entry, which may be nil.
func found[Obj any](e *store.Entry) (obj Obj, revision Revision, ok bool) {
	if e == nil {
		return obj, 0, false
	}
	return objectOf[Obj](e), e.Revision(), true
}

// rows yields the rows of a selection. It is the only loop over rows, so that it is
// compiled once for a row type, not for each method that returns rows.
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

func (t *table[Obj]) Get(txn ReadTxn, q Query[Obj]) (obj Obj, revision Revision, ok bool) {
	if e := t.core.Find(txn, q.q); e != nil {
		return objectOf[Obj](e), e.Revision(), true
	}
	return obj, 0, false
}

func (t *table[Obj]) GetWatch(txn ReadTxn, q Query[Obj]) (Obj, Revision, <-chan struct{}, bool) {
	watch := t.core.WatchKey(txn, q.q)
	obj, revision, ok := t.Get(txn, q)
	return obj, revision, watch, ok
}

func (t *table[Obj]) List(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.List(txn, q.q, opts))
}

func (t *table[Obj]) ListWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return rows[Obj](t.core.List(txn, q.q, opts)), t.core.WatchKey(txn, q.q)
}

func (t *table[Obj]) Prefix(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.Prefix(txn, q.q, opts))
}

func (t *table[Obj]) PrefixWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return rows[Obj](t.core.Prefix(txn, q.q, opts)), t.core.WatchPrefix(txn, q.q)
}

func (t *table[Obj]) LowerBound(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.LowerBound(txn, q.q, opts))
}

func (t *table[Obj]) LowerBoundWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return rows[Obj](t.core.LowerBound(txn, q.q, opts)), t.core.WatchIndex(txn, q.q)
}

func (t *table[Obj]) Range(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.Range(txn, from.q, to.q, opts))
}

func (t *table[Obj]) RangeWatch(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return rows[Obj](t.core.Range(txn, from.q, to.q, opts)), t.core.WatchRange(txn, from.q, to.q)
}

func (t *table[Obj]) All(txn ReadTxn, opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.All(txn, opts))
}

func (t *table[Obj]) AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return rows[Obj](t.core.All(txn, opts)), t.core.WatchAll(txn)
}

func (t *table[Obj]) Len(txn ReadTxn) int                          { return t.core.Len(txn) }
func (t *table[Obj]) LenOf(txn ReadTxn, index string) (int, error) { return t.core.LenOf(txn, index) }

func (t *table[Obj]) Revision(txn ReadTxn) Revision { return t.core.Revision(txn) }

func (t *table[Obj]) Spec(txn ReadTxn, q Query[Obj]) (Revision, bool) { return t.core.Spec(txn, q.q) }

func (t *table[Obj]) Key(obj Obj) string                              { return t.core.Key(rowOf(&obj)) }
func (t *table[Obj]) Watch(txn ReadTxn) <-chan struct{}               { return t.core.Watch(txn) }
func (t *table[Obj]) Initialized(txn ReadTxn) (bool, <-chan struct{}) { return t.core.Initialized(txn) }
func (t *table[Obj]) Sources(txn ReadTxn) []SourceState               { return t.core.Sources(txn) }
func (t *table[Obj]) Amendable() bool                                 { return t.core.Amendable() }

func (t *table[Obj]) KeyQuery(obj Obj) Query[Obj] {
	return Query[Obj]{t.core.KeyQuery(rowOf(&obj))}
}

func (t *table[Obj]) ParseKey(index, text string) (Query[Obj], error) {
	q, err := t.core.ParseKey(index, text)
	return Query[Obj]{q}, err
}

func (t *table[Obj]) Matches(q Query[Obj], obj Obj) bool { return t.core.Matches(q.q, rowOf(&obj)) }

func (t *table[Obj]) RegisterSource(txn *WriteTxn, name string) (*Source, error) {
	return t.core.RegisterSource(txn, name)
}

// before returns the row of the entry that was there before a write, if any.
func before[Obj any](e *store.Entry, err error) (obj Obj, was bool, _ error) {
	if e == nil {
		return obj, false, err
	}
	return objectOf[Obj](e), true, err
}

func (t *table[Obj]) Insert(txn *WriteTxn, obj Obj) (Obj, bool, error) {
	return before[Obj](t.core.Insert(txn, rowOf(&obj)))
}

func (t *table[Obj]) InsertIfAbsent(txn *WriteTxn, obj Obj) (Obj, bool, error) {
	existing, was, err := before[Obj](t.core.InsertIfAbsent(txn, rowOf(&obj)))
	return existing, !was && err == nil, err
}

func (t *table[Obj]) Modify(txn *WriteTxn, q Query[Obj], fn func(Obj) Obj) (Obj, error) {
	var obj Obj
	old, _, err := before[Obj](t.core.Modify(txn, q.q, rowOf(&obj), fn))
	return old, err
}

func (t *table[Obj]) CompareAndSwap(txn *WriteTxn, revision Revision, obj Obj) (Obj, error) {
	old, _, err := before[Obj](t.core.CompareAndSwap(txn, revision, rowOf(&obj)))
	return old, err
}

func (t *table[Obj]) Delete(txn *WriteTxn, obj Obj) (Obj, bool, error) {
	return before[Obj](t.core.Delete(txn, rowOf(&obj)))
}

func (t *table[Obj]) CompareAndDelete(txn *WriteTxn, revision Revision, obj Obj) (Obj, error) {
	old, _, err := before[Obj](t.core.CompareAndDelete(txn, revision, rowOf(&obj)))
	return old, err
}

func (t *table[Obj]) DeleteAll(txn *WriteTxn) (int, error) { return t.core.DeleteAll(txn) }

func (t *table[Obj]) DeletePrefix(txn *WriteTxn, q Query[Obj]) (int, error) {
	return t.core.DeletePrefix(txn, q.q)
}

func (t *table[Obj]) Amend(txn *WriteTxn, obj Obj, revision Revision, fn func(Obj) Obj) (bool, error) {
	return t.core.Amend(txn, rowOf(&obj), revision, fn)
}

func (t *table[Obj]) Changes(after Revision) *Cursor[Obj] {
	return &Cursor[Obj]{t.core.Changes(after)}
}
