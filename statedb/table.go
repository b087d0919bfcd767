package statedb

import (
	"iter"
)

// Revision counts the changes of a table: each write or delete of a row has the
// next one, without gaps. Revision 0 is before the first. Revisions seen inside
// a write transaction count only once it has committed.
type Revision uint64

// TableMeta is any table, whatever its rows: what transactions are opened for.
// Only tables of this package implement it.
type TableMeta interface {
	// Name returns the name from the schema.
	Name() string
	lockable() *tableLock
	begin(base *root) tableTxn
	erased() AnyTable
}

// Table reads rows. All methods are safe for concurrent use and take no locks;
// what they see is the snapshot that txn is: always the same through a read
// transaction, and the transaction's own writes through a [*WriteTxn].
// Rows and sequences stay valid for ever; rows must not be changed. A sequence
// yields what was there when it was asked for, so that a write transaction may
// write while it iterates. [Reverse] and [Limit] work with every query, [Count]
// with every sequence.
//
// A snapshot that does not know the table (taken before it was created, or from
// another database) reads as empty, and so does a query of another table's index
// and a range between two indexes.
// The …Watch forms also return a channel that closes, at the latest, when a
// transaction commits that changes what the call returned. The new snapshot can
// be read by then. Inside a write transaction the channel may be closed by that
// transaction's own commit. It is nil, which never closes, for another database
// and for what is no index of the table.
type Table[Obj any] interface {
	TableMeta

	// Get returns the row with the query's key and the revision of its last
	// change. Through a secondary index it is the first one by primary key.
	Get(txn ReadTxn, q Query[Obj]) (Obj, Revision, bool)
	GetWatch(txn ReadTxn, q Query[Obj]) (Obj, Revision, <-chan struct{}, bool)
	// List yields the rows with the query's key, ordered by primary key.
	List(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision]
	ListWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{})
	// Prefix yields the rows that have a key which starts with the query's, in
	// key order. It is meant for strings and bytes; with a key type of fixed
	// width only the whole key is a prefix.
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

	// Len is the number of rows, and LenOf that of the rows in an index, counted
	// once for every key they have in it.
	Len(txn ReadTxn) int
	LenOf(txn ReadTxn, index string) (int, error)
	// Revision is that of the newest change.
	Revision(txn ReadTxn) Revision
	// Spec returns the revision of the last write of the row with the query's key
	// that was not a status write.
	Spec(txn ReadTxn, q Query[Obj]) (Revision, bool)
	// Key returns the text form of a row's primary key.
	Key(obj Obj) string
	// KeyQuery asks for the row with the primary key of obj.
	KeyQuery(obj Obj) Query[Obj]
	// Matches says whether obj, which need not be in the table, has the query's key.
	Matches(q Query[Obj], obj Obj) bool

	// Initialized says whether every registered source has delivered its first
	// listing, and returns a channel that closes once it is so: a snapshot taken
	// after that says true.
	Initialized(txn ReadTxn) (bool, <-chan struct{})
	// Sources returns what feeds the table, ordered by name.
	Sources(txn ReadTxn) []SourceState

	// Changes opens a cursor on everything newer than a revision: 0 starts with
	// a listing of the table, the table's current revision with the next change.
	// It must be closed.
	Changes(after Revision) *Cursor[Obj]

	// Amendable says whether the schema separates status from spec.
	Amendable() bool
}

// RWTable also writes. The write methods need a transaction that was opened for
// the table, belong to its goroutine, and return:
//
//   - [ErrTxnClosed], [ErrNotLocked], [ErrForeignTable]: wrong transaction;
//   - [ErrNilRow], [ErrSameObject], [ErrKeyChanged]: wrong row;
//   - [ErrRejected]: the schema's defaulters or validators refused the row;
//   - [ErrNotFound], [ErrConflict], [ErrUnknownIndex] where said.
//
// They come wrapped in a [RowError] or [TableError]. A failed write changes
// nothing, not even the revision. Rows given to a write are the table's from
// then on and must not be changed.
type RWTable[Obj any] interface {
	Table[Obj]

	// Insert writes a row, replacing the one with the same primary key. The
	// status of the old row is carried over; if the row then says the same as
	// the old one nothing is written, otherwise its status is reset.
	Insert(txn *WriteTxn, obj Obj) (old Obj, replaced bool, err error)
	// InsertIfAbsent is Insert, provided that there is no row with the primary key;
	// otherwise it changes nothing and returns the one that exists.
	InsertIfAbsent(txn *WriteTxn, obj Obj) (existing Obj, inserted bool, err error)
	// Modify replaces the row that q finds, as Get does, by what fn makes of it, as
	// Insert does. fn must return a changed copy and leave the row alone otherwise:
	// ErrConflict. ErrNotFound when there is no such row.
	Modify(txn *WriteTxn, q Query[Obj], fn func(old Obj) Obj) (old Obj, err error)
	// CompareAndSwap is Insert, provided that the row's spec was not changed
	// after revision; else ErrConflict, or ErrNotFound. Status writes do not count.
	CompareAndSwap(txn *WriteTxn, revision Revision, obj Obj) (old Obj, err error)
	// Delete removes the row with the primary key of obj; absent is not an error.
	Delete(txn *WriteTxn, obj Obj) (old Obj, deleted bool, err error)
	// CompareAndDelete is Delete under the condition of CompareAndSwap.
	CompareAndDelete(txn *WriteTxn, revision Revision, obj Obj) (old Obj, err error)
	// DeleteAll removes every row, and DeletePrefix those that [Table.Prefix] yields;
	// both return how many. ErrUnknownIndex when the index is not the table's.
	DeleteAll(txn *WriteTxn) (deleted int, err error)
	DeletePrefix(txn *WriteTxn, q Query[Obj]) (deleted int, err error)
	// Amend writes status: fn gets the current row with the primary key of obj
	// and returns a copy with another status, of which only the status is taken.
	// Nothing happens, and amended is false, when the row is gone or its spec was
	// changed after revision. ErrNotAmendable when the schema has no Amend.
	Amend(txn *WriteTxn, obj Obj, revision Revision, fn func(current Obj) Obj) (amended bool, err error)

	// RegisterSource adds something that feeds the table: the table is not
	// initialized until it has delivered its first listing. ErrSourceExists when
	// the name is taken.
	RegisterSource(txn *WriteTxn, name string) (*Source[Obj], error)
}
