package statedb

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DB holds tables. Its methods are safe for concurrent use.
type DB struct {
	current atomic.Pointer[root]
	opened  time.Time // what times of locks count from

	logger    *slog.Logger
	reference bool // see WithReferenceEngine

	publishMu sync.Mutex // held to replace current, and to begin to follow a table
}

// Option of a database.
type Option func(*DB)

// WithLogger has the database log what an operator should know: a write
// transaction that has held a table's lock for a second while others wait for
// it is a warning, once, with where it began. Without it nothing is logged.
func WithLogger(logger *slog.Logger) Option {
	return func(db *DB) {
		if logger != nil {
			db.logger = logger
		}
	}
}

// New returns an empty database.
func New(options ...Option) *DB {
	db := &DB{logger: slog.New(slog.DiscardHandler), opened: time.Now()}
	for _, option := range options {
		option(db)
	}
	db.current.Store(&root{db: db})
	return db
}

// root is one committed state of all tables: what a read transaction is. A
// table's version stands at the table's slot, which is nil or another table's
// when the root does not know the table.
type root struct {
	db       *DB
	commit   uint64
	versions []tableVersion
}

// tableVersion is the state of one table in a root.
type tableVersion interface{ table() TableMeta }

// version returns the state of the table at the slot of lock, if there is one.
func (r *root) version(lock *tableLock) tableVersion {
	if r.db != lock.db || lock.slot >= len(r.versions) {
		return nil
	}
	return r.versions[lock.slot]
}

// ReadTxn is a snapshot: a database as it was at one moment. Snapshots from
// [DB.ReadTxn] are safe for concurrent use, cost nothing to take and never end.
// A [*WriteTxn] is one too, which sees its own writes.
type ReadTxn interface {
	// snapshot returns the committed state that the transaction reads, or began from.
	snapshot() *root
	// pending returns the table's part of an open write transaction, or nil.
	pending(l *tableLock) tableTxn
}

func (r *root) snapshot() *root             { return r }
func (r *root) pending(*tableLock) tableTxn { return nil }

// ReadTxn returns the newest committed state.
func (db *DB) ReadTxn() ReadTxn { return db.current.Load() }

// publish makes the result of change the current state. change gets a copy of
// the versions before, to be replaced or added to.
func (db *DB) publish(change func(versions []tableVersion) ([]tableVersion, error)) error {
	db.publishMu.Lock()
	defer db.publishMu.Unlock()
	next := db.nextLocked()
	versions, err := change(next.versions)
	if err != nil {
		return err
	}
	next.versions = versions
	db.current.Store(next)
	return nil
}

// nextLocked returns a copy of the current state that can become the next one.
// publishMu is held.
func (db *DB) nextLocked() *root {
	return &root{db: db, commit: db.nextCommitLocked(), versions: slices.Clone(db.current.Load().versions)}
}

// nextCommitLocked is the number of the next commit. publishMu is held.
func (db *DB) nextCommitLocked() uint64 { return db.current.Load().commit + 1 }

// NewTable declares a table. A wrong schema is an error that matches [ErrSchema]
// and says what to change.
func NewTable[Obj any](db *DB, schema Schema[Obj]) (RWTable[Obj], error) {
	if err := schema.check(); err != nil {
		return nil, fmt.Errorf("%w of table %q: %w", ErrSchema, schema.Name, err)
	}
	t := newTable(db, schema)
	t.lock.name = schema.Name
	err := db.publish(func(versions []tableVersion) ([]tableVersion, error) {
		t.lock.order = db.nextCommitLocked()
		return t.lock.place(versions, t.empty())
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// place adds the first version of the table, in a slot that is free.
func (l *tableLock) place(versions []tableVersion, first tableVersion) ([]tableVersion, error) {
	l.slot = len(versions)
	for i, other := range versions {
		switch {
		case other == nil:
			l.slot = min(l.slot, i)
		case other.table().Name() == l.name:
			return nil, fmt.Errorf("%w: a table named %q exists already", ErrSchema, l.name)
		}
	}
	if l.slot == len(versions) {
		return append(versions, first), nil
	}
	versions[l.slot] = first
	return versions, nil
}

// Tables returns the tables of a snapshot, ordered by name.
func (db *DB) Tables(txn ReadTxn) []AnyTable {
	versions := txn.snapshot().versions
	tables := make([]AnyTable, 0, len(versions))
	for _, v := range versions {
		if v != nil {
			tables = append(tables, v.table().erased())
		}
	}
	slices.SortFunc(tables, func(a, b AnyTable) int { return strings.Compare(a.Name(), b.Name()) })
	return tables
}

// Table returns a table by name, or an [*UnknownNameError].
func (db *DB) Table(txn ReadTxn, name string) (AnyTable, error) {
	tables := db.Tables(txn)
	known := make([]string, len(tables))
	for i, t := range tables {
		if t.Name() == name {
			return t, nil
		}
		known[i] = t.Name()
	}
	return nil, &UnknownNameError{Name: name, Known: known, Err: ErrUnknownTable}
}
