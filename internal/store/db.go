package store

import (
	"context"
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
	opened  time.Time // the origin of the times in locks
	logger  *slog.Logger

	publishMu sync.Mutex // held to replace current, and to open a cursor
}

// Option of a database.
type Option func(*DB)

// WithLogger sets the logger for warnings to operators: a write transaction that has held
// a table's lock for a second while others wait for it is logged once, with its call site.
// Without it nothing is logged.
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

// root is one committed state of all tables, which read transactions read. A table's version
// is in the table's slot. If the root does not contain the table, the slot is nil or has the
// version of another table.
type root struct {
	db       *DB
	commit   uint64
	versions []*version
	few      [fewTables]*version // backs versions if they fit
}

// fewTables is the number of tables up to which a commit needs no separate allocation for
// them.
const fewTables = 4

// ReadTxn is a snapshot: the database as it was at one moment. Snapshots from [DB.ReadTxn]
// are safe for concurrent use, cost nothing to take and never expire. A [*WriteTxn] is a
// ReadTxn too, and sees its own writes.
type ReadTxn interface {
	// snapshot returns the committed state that the transaction reads, or that it is based on.
	snapshot() *root
	// pending returns the table's part of an open write transaction, or nil.
	pending(t *Table) *writer
}

func (r *root) snapshot() *root        { return r }
func (r *root) pending(*Table) *writer { return nil }

// ReadTxn returns a snapshot of the newest committed state.
func (db *DB) ReadTxn() ReadTxn { return db.current.Load() }

// TableMeta is a table of any row type, as an argument for transactions. Only tables made
// by NewTable implement it.
type TableMeta interface {
	// Name returns the name from the schema.
	Name() string
	// Untyped returns the table without the type of its rows.
	Untyped() *Table
}

// Owns reports whether a table was made in this database, even if it has been dropped.
func (db *DB) Owns(table TableMeta) bool { return table.Untyped().db == db }

// nextLocked returns a copy of the current state that can become the next one, with room
// for more tables. The caller holds publishMu.
func (db *DB) nextLocked(more int) *root {
	before := db.current.Load()
	next := &root{db: db, commit: before.commit + 1}
	if n := len(before.versions) + more; n <= fewTables {
		next.versions = next.few[:n]
	} else {
		next.versions = make([]*version, n)
	}
	copy(next.versions, before.versions)
	return next
}

// NewTable adds a table. The caller has checked the name and the row type. The error
// matches ErrSchema if a table with this name exists.
func NewTable(db *DB, name string, rows RowType) (*Table, error) {
	t := newTable(db, name, rows)
	db.publishMu.Lock()
	defer db.publishMu.Unlock()
	slot := -1
	before := db.current.Load().versions
	for i, v := range before {
		switch {
		case v == nil:
			slot = i
		case v.of.name == name:
			return nil, fmt.Errorf("%w: a table named %q exists already", ErrSchema, name)
		}
	}
	more := 0
	if slot < 0 {
		slot, more = len(before), 1
	}
	next := db.nextLocked(more)
	t.slot, t.order = slot, next.commit
	next.versions[slot] = t.firstVersion()
	db.current.Store(next)
	return t, nil
}

// Tables returns the tables of a snapshot, ordered by name.
func (db *DB) Tables(txn ReadTxn) []AnyTable {
	var tables []AnyTable
	for _, v := range txn.snapshot().versions {
		if v != nil {
			tables = append(tables, anyTable{v.of})
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

// Drop removes a table from the database. It waits for the table's lock as
// [DB.WriteTxn] does, so that open transactions on the table end first, and returns the
// same errors. From then on opening a transaction on the table fails with [ErrDropped],
// also for callers that were waiting, and the name can be used again.
//
// Snapshots taken before still have the table; in later ones it is empty. All watches on
// the table and the channel of [Table.Initialized] close, once. For a snapshot without the
// table these methods return nil, which never closes, and the table is not initialized, so
// that its emptiness is not taken for the desired state. Cursors end: see [Cursor.Err]. The
// memory of the rows is freed with the last snapshot that has them.
func (db *DB) Drop(ctx context.Context, table TableMeta) error {
	txn, err := db.begin(ctx, []TableMeta{table}, callerSite())
	if err != nil {
		return err
	}
	defer txn.Abort()
	t := table.Untyped()
	last := t.committed(txn.base)
	db.publishMu.Lock()
	next := db.nextLocked(0)
	t.lock.dropped.Store(next.commit)
	next.versions[t.slot] = nil
	db.current.Store(next)
	db.publishMu.Unlock()
	for i := range last.trees {
		last.trees[i].CloseAll()
	}
	last.watch.close()
	if !last.sources.initialized() {
		close(last.sources.ready)
	}
	return nil
}

// droppedIn reports whether a snapshot was taken after the table was dropped.
func (t *Table) droppedIn(r *root) bool {
	at := t.lock.dropped.Load()
	return at != 0 && r.db == t.db && r.commit >= at
}
