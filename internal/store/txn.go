package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// WriteTxn modifies the tables that it was opened for, atomically. It holds
// their locks until Commit or Abort. It belongs to one goroutine at a time.
//
// Used as a [ReadTxn] it sees its own writes in its tables and a snapshot of
// the others. After Commit it reads what was committed, and after Abort what it began from.
type WriteTxn struct {
	base   *root
	parts  []part // in the order in which the tables are locked
	closed bool

	// For the transactions that wait for it.
	began    callSite
	waitsFor atomic.Pointer[Table] // or nil
	reported atomic.Bool

	one [1]part // backs parts for a single table, the usual case
}

// part is a table of a transaction, with the writes to it.
type part struct {
	of     *Table
	writer *writer // nil until first used
	by     *WriteTxn
	since  time.Duration // when the table was locked; see Table.now
}

func (txn *WriteTxn) snapshot() *root { return txn.base }

func (txn *WriteTxn) pending(t *Table) *writer {
	if txn.closed {
		return nil
	}
	p := txn.part(t)
	if p == nil {
		return nil
	}
	if p.writer == nil {
		p.writer = t.begin(txn.base)
	}
	return p.writer
}

// part returns the part of a table, or nil.
func (txn *WriteTxn) part(t *Table) *part {
	const few = 8
	if len(txn.parts) > few {
		i, found := slices.BinarySearchFunc(txn.parts, t.order, func(p part, order uint64) int { return cmp.Compare(p.of.order, order) })
		if found && txn.parts[i].of == t {
			return &txn.parts[i]
		}
		return nil
	}
	for i := range txn.parts {
		if txn.parts[i].of == t {
			return &txn.parts[i]
		}
	}
	return nil
}

// WriteTxn waits for the locks of the tables, in a fixed order, and opens a
// transaction on them. It must be ended by Commit or Abort. A table named twice
// counts once. If ctx ends first, WriteTxn returns its error, with the table that it
// was waiting for. It also returns [ErrForeignTable] and [ErrDropped]. A goroutine
// that waits for a lock that it holds itself waits until ctx ends.
func (db *DB) WriteTxn(ctx context.Context, tables ...TableMeta) (*WriteTxn, error) {
	var at callSite
	for _, t := range tables {
		if t != nil && t.Untyped().lock.contended.Load() {
			at = callerSite()
			break
		}
	}
	return db.begin(ctx, tables, at)
}

// begin opens a transaction with the given call site.
func (db *DB) begin(ctx context.Context, tables []TableMeta, at callSite) (*WriteTxn, error) {
	txn := &WriteTxn{began: at}
	if err := txn.setParts(db, tables); err != nil {
		return nil, err
	}
	for i := range txn.parts {
		t := txn.parts[i].of
		if err := t.acquire(ctx, &txn.parts[i]); err != nil {
			release(txn.parts[:i])
			return nil, &TableError{Table: t.name, Err: err}
		}
	}
	txn.base = db.current.Load()
	return txn, nil
}

// TryWriteTxn opens a transaction as [DB.WriteTxn] does, but does not wait: it returns nil if
// somebody holds the lock of one of the tables.
func (db *DB) TryWriteTxn(tables ...TableMeta) (*WriteTxn, error) {
	txn := &WriteTxn{}
	if err := txn.setParts(db, tables); err != nil {
		return nil, err
	}
	for i := range txn.parts {
		t := txn.parts[i].of
		got, err := t.tryAcquire(&txn.parts[i])
		if !got || err != nil {
			release(txn.parts[:i])
			if err != nil {
				err = &TableError{Table: t.name, Err: err}
			}
			return nil, err
		}
	}
	txn.base = db.current.Load()
	return txn, nil
}

// setParts records the tables in the order in which they are locked, each once.
func (txn *WriteTxn) setParts(db *DB, tables []TableMeta) error {
	parts := txn.one[:0]
	if len(tables) > 1 {
		parts = make([]part, 0, len(tables))
	}
	for i, meta := range tables {
		if meta == nil {
			return fmt.Errorf("%w: argument %d is nil", ErrForeignTable, i+1)
		}
		t := meta.Untyped()
		if t.db != db {
			return &TableError{Table: t.name, Err: ErrForeignTable}
		}
		parts = append(parts, part{of: t, by: txn})
	}
	if len(parts) > 1 {
		slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.of.order, b.of.order) })
		parts = slices.CompactFunc(parts, func(a, b part) bool { return a.of == b.of })
	}
	txn.parts = parts
	return nil
}

func release(parts []part) {
	for i := range parts {
		parts[i].of.release()
	}
}

// Update runs fn in a write transaction on the tables. The transaction is committed if
// fn returns nil, and rolled back if it returns an error or panics. Update returns the
// error of fn, [DB.WriteTxn] or [WriteTxn.Commit]. fn must not end the transaction itself.
func (db *DB) Update(ctx context.Context, fn func(txn *WriteTxn) error, tables ...TableMeta) error {
	txn, err := db.begin(ctx, tables, callSiteOf(fn))
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

// Commit publishes all writes atomically, closes the watches of changed results, and returns
// the new snapshot. It returns [ErrTxnClosed] if the transaction has already ended, and a
// [*UniqueError] if two rows share a key of a unique index in any of the tables; in that case
// the transaction is aborted.
func (txn *WriteTxn) Commit() (ReadTxn, error) {
	if txn.closed {
		return nil, ErrTxnClosed
	}
	if err := txn.Check(); err != nil {
		txn.Abort()
		return nil, err
	}
	changed := false
	for i := range txn.parts {
		switch w := txn.parts[i].writer; {
		case w == nil:
		case w.changed():
			changed = true
		default:
			w.abort()
			txn.parts[i].writer = nil
		}
	}
	if !changed {
		txn.end()
		return txn.base, nil
	}
	txn.publish()
	txn.end()
	for i := range txn.parts {
		if w := txn.parts[i].writer; w != nil {
			txn.parts[i].writer = nil
			w.announce()
		}
	}
	return txn.base, nil
}

// Check returns the error that Commit would return now, or nil. The same writes always give
// the same error.
func (txn *WriteTxn) Check() error {
	if txn.closed {
		return ErrTxnClosed
	}
	for i := range txn.parts {
		if w := txn.parts[i].writer; w != nil {
			if err := w.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish makes the writes part of the current state.
func (txn *WriteTxn) publish() {
	db := txn.base.db
	db.publishMu.Lock()
	defer db.publishMu.Unlock()
	next := db.nextLocked(0)
	for i := range txn.parts {
		if w := txn.parts[i].writer; w != nil {
			next.versions[w.table.slot] = w.commit()
		}
	}
	db.current.Store(next)
	txn.base = next
}

// Abort discards the writes. It does nothing if the transaction has ended, so it can be
// deferred.
func (txn *WriteTxn) Abort() {
	if txn.closed {
		return
	}
	for i := range txn.parts {
		if w := txn.parts[i].writer; w != nil {
			w.abort()
			txn.parts[i].writer = nil
		}
	}
	txn.end()
}

// end releases the locks of the tables.
func (txn *WriteTxn) end() {
	txn.closed = true
	release(txn.parts)
}
