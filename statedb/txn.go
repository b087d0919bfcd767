package statedb

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
)

// tableTxn is one table's part of a write transaction.
type tableTxn interface {
	// changed says whether there is anything to commit.
	changed() bool
	// check returns why the changes cannot be committed.
	check() error
	// commit returns the table's next version, and what must run once it is published.
	commit() (next tableVersion, published func())
	// drop prepares the end of the table, and returns what must run once it is published.
	drop() (published func())
	// abort gives up the changes.
	abort()
}

// WriteTxn changes the tables that it was opened for, atomically. It holds
// their locks until Commit or Abort. It belongs to one goroutine at a time.
//
// Used as a [ReadTxn] it sees its own writes in its tables and a snapshot of
// the others. Once closed it reads what it committed, or after an abort what it
// began from.
type WriteTxn struct {
	base   *root
	tables map[TableMeta]tableTxn
	claim  claim
	holds  []hold // for each of the claim's tables
	closed bool
}

func (txn *WriteTxn) snapshot() *root { return txn.base }

func (txn *WriteTxn) pending(t TableMeta) tableTxn {
	if txn.closed {
		return nil
	}
	return txn.tables[t]
}

// WriteTxn waits for the locks of the tables, in a fixed order, and opens a
// transaction on them. It must be ended by Commit or Abort. A table named twice
// counts once. It returns ctx's error, with the table that it waited for, when
// ctx ends first, [ErrForeignTable] and [ErrDropped]. A goroutine that waits for a lock which
// it holds itself waits until ctx ends.
func (db *DB) WriteTxn(ctx context.Context, tables ...TableMeta) (*WriteTxn, error) {
	return db.begin(ctx, tables)
}

// begin opens a transaction for the caller of its caller, whose place in the
// code is noted.
func (db *DB) begin(ctx context.Context, tables []TableMeta) (*WriteTxn, error) {
	ordered, err := db.inLockOrder(tables)
	if err != nil {
		return nil, err
	}
	txn := &WriteTxn{tables: make(map[TableMeta]tableTxn, len(ordered))}
	const skipped = 3 // runtime.Callers, begin, and WriteTxn or Update
	runtime.Callers(skipped, txn.claim.began[:])
	if err := txn.lock(ctx, ordered); err != nil {
		return nil, err
	}
	txn.base = db.current.Load()
	for _, t := range ordered {
		txn.tables[t] = t.begin(txn.base)
	}
	return txn, nil
}

// lock takes the locks of the tables, all or none.
func (txn *WriteTxn) lock(ctx context.Context, ordered []TableMeta) error {
	txn.claim.tables = ordered
	txn.holds = make([]hold, len(ordered))
	for i, t := range ordered {
		txn.holds[i].by = &txn.claim
		if err := t.lockable().acquire(ctx, &txn.holds[i]); err != nil {
			release(ordered[:i])
			return &TableError{Table: t.Name(), Err: err}
		}
	}
	return nil
}

func (db *DB) inLockOrder(tables []TableMeta) ([]TableMeta, error) {
	for i, t := range tables {
		switch {
		case t == nil:
			return nil, fmt.Errorf("%w: argument %d is nil", ErrForeignTable, i+1)
		case t.lockable().db != db:
			return nil, &TableError{Table: t.Name(), Err: ErrForeignTable}
		}
	}
	ordered := slices.Clone(tables)
	slices.SortFunc(ordered, func(a, b TableMeta) int { return cmp.Compare(a.lockable().order, b.lockable().order) })
	return slices.Compact(ordered), nil
}

func release(tables []TableMeta) {
	for _, t := range tables {
		t.lockable().release()
	}
}

// Update runs fn in a write transaction on the tables: committed when fn returns
// nil, rolled back when it returns an error or panics. It returns fn's error,
// or that of [DB.WriteTxn] or [WriteTxn.Commit]. fn must not end the transaction itself.
func (db *DB) Update(ctx context.Context, fn func(txn *WriteTxn) error, tables ...TableMeta) error {
	txn, err := db.begin(ctx, tables)
	if err != nil {
		return err
	}
	defer txn.Abort()
	if err := fn(txn); err != nil {
		return err
	}
	_, err = txn.Commit()
	return err
}

// Commit makes the writes visible, all at once, wakes who watches what changed,
// and returns the new snapshot. [ErrTxnClosed] when the transaction had ended; a
// [*UniqueError] when two rows share a key of a unique index, in any table: then
// it is an Abort.
func (txn *WriteTxn) Commit() (ReadTxn, error) {
	if txn.closed {
		return nil, ErrTxnClosed
	}
	if err := txn.check(); err != nil {
		txn.Abort()
		return nil, err
	}
	published, err := txn.publish()
	if err != nil {
		return nil, err
	}
	txn.end()
	for _, notify := range published {
		notify()
	}
	return txn.base, nil
}

// publish makes the changed tables current and returns what must run after that.
func (txn *WriteTxn) publish() (published []func(), err error) {
	changed := txn.changedTables()
	if len(changed) == 0 {
		return nil, nil
	}
	next, err := txn.base.db.publish(func(versions []tableVersion) ([]tableVersion, error) {
		for _, t := range changed {
			version, notify := txn.tables[t].commit()
			versions[t.lockable().slot] = version
			published = append(published, notify)
		}
		return versions, nil
	})
	if err != nil {
		return nil, err
	}
	txn.base = next
	return published, nil
}

func (txn *WriteTxn) changedTables() []TableMeta {
	var changed []TableMeta
	for t, part := range txn.tables {
		if part.changed() {
			changed = append(changed, t)
		}
	}
	return changed
}

// Abort gives up the writes. It does nothing when the transaction has ended, so
// that it can be deferred.
func (txn *WriteTxn) Abort() {
	if txn.closed {
		return
	}
	for _, part := range txn.tables {
		part.abort()
	}
	txn.end()
}

// end releases the tables and what the transaction knew of them.
func (txn *WriteTxn) end() {
	txn.closed = true
	release(txn.claim.tables)
	txn.tables = nil
}
