package statedb

import (
	"cmp"
	"context"
	"slices"
)

// tableLock serializes the writers of a table. It is a channel so that waiting
// for it can be given up.
type tableLock struct {
	db   *DB
	slot int // of the table in a root; locks are taken in this order
	held chan struct{}
}

func newTableLock(db *DB) tableLock { return tableLock{db: db, held: make(chan struct{}, 1)} }

func (l *tableLock) acquire(ctx context.Context) error {
	select {
	case l.held <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *tableLock) release() { <-l.held }

// tableTxn is one table's part of a write transaction.
type tableTxn interface {
	// changed says whether there is anything to commit.
	changed() bool
	// commit returns the table's next version, and what must run once it is published.
	commit() (next tableVersion, published func())
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
// transaction on them. It must be ended by Commit or Abort. It returns ctx's
// error when ctx ends first, and [ErrForeignTable].
func (db *DB) WriteTxn(ctx context.Context, tables ...TableMeta) (*WriteTxn, error) {
	ordered := slices.Clone(tables)
	slices.SortFunc(ordered, func(a, b TableMeta) int { return cmp.Compare(a.lockable().slot, b.lockable().slot) })
	ordered = slices.Compact(ordered)
	for _, t := range ordered {
		if t.lockable().db != db {
			return nil, &TableError{Table: t.Name(), Err: ErrForeignTable}
		}
	}
	for i, t := range ordered {
		if err := t.lockable().acquire(ctx); err != nil {
			release(ordered[:i])
			return nil, err
		}
	}
	txn := &WriteTxn{base: db.current.Load(), tables: make(map[TableMeta]tableTxn, len(ordered))}
	for _, t := range ordered {
		txn.tables[t] = t.begin(txn.base)
	}
	return txn, nil
}

func release(tables []TableMeta) {
	for _, t := range tables {
		t.lockable().release()
	}
}

// Update runs fn in a write transaction on the tables: committed when fn returns
// nil, rolled back when it returns an error or panics. It returns fn's error,
// or that of [DB.WriteTxn]. fn must not end the transaction itself.
func (db *DB) Update(ctx context.Context, fn func(txn *WriteTxn) error, tables ...TableMeta) error {
	txn, err := db.WriteTxn(ctx, tables...)
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
// and returns the new snapshot. [ErrTxnClosed] when the transaction had ended.
func (txn *WriteTxn) Commit() (ReadTxn, error) {
	if txn.closed {
		return nil, ErrTxnClosed
	}
	var published []func()
	changed := txn.changedTables()
	if len(changed) > 0 {
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
	}
	txn.end()
	for _, notify := range published {
		notify()
	}
	return txn.base, nil
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
	if !txn.closed {
		txn.end()
	}
}

func (txn *WriteTxn) end() {
	txn.closed = true
	tables := make([]TableMeta, 0, len(txn.tables))
	for t := range txn.tables {
		tables = append(tables, t)
	}
	txn.tables = nil
	release(tables)
}
