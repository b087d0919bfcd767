package statedb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// tableTxn is one table's part of a write transaction.
type tableTxn interface {
	// changed says whether there is anything to commit.
	changed() bool
	// check returns why the changes cannot be committed.
	check() error
	// commit returns the table's next version.
	commit() tableVersion
	// published wakes who waits for what commit has changed, now that it can be read.
	published()
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
	claim  claim
	parts  []tableTxn // for each of the claim's holds; nil until it is asked for
	closed bool

	// What most transactions need, which then costs no allocations.
	oneHold [1]hold
	onePart [1]tableTxn
}

func (txn *WriteTxn) snapshot() *root { return txn.base }

func (txn *WriteTxn) pending(l *tableLock) tableTxn {
	if txn.closed {
		return nil
	}
	i, ok := txn.claim.find(l)
	if !ok {
		return nil
	}
	if txn.parts[i] == nil {
		txn.parts[i] = txn.claim.holds[i].of.begin(txn.base)
	}
	return txn.parts[i]
}

// WriteTxn waits for the locks of the tables, in a fixed order, and opens a
// transaction on them. It must be ended by Commit or Abort. A table named twice
// counts once. It returns ctx's error, with the table that it waited for, when
// ctx ends first, [ErrForeignTable] and [ErrDropped]. A goroutine that waits for a lock which
// it holds itself waits until ctx ends.
func (db *DB) WriteTxn(ctx context.Context, tables ...TableMeta) (*WriteTxn, error) {
	return db.begin(ctx, tables, callers())
}

// begin opens a transaction that began in this place.
func (db *DB) begin(ctx context.Context, tables []TableMeta, at place) (*WriteTxn, error) {
	txn := &WriteTxn{}
	txn.claim.began = at
	if err := txn.lock(ctx, db, tables); err != nil {
		return nil, err
	}
	txn.base = db.current.Load()
	return txn, nil
}

// lock takes the locks of the tables, all or none.
func (txn *WriteTxn) lock(ctx context.Context, db *DB, tables []TableMeta) error {
	if err := txn.name(db, tables); err != nil {
		return err
	}
	holds := txn.claim.holds
	for i := range holds {
		l := holds[i].of.lockable()
		if err := l.acquire(ctx, &holds[i]); err != nil {
			release(holds[:i])
			return &TableError{Table: l.name, Err: err}
		}
	}
	return nil
}

// name notes the tables in the order in which they are locked, each once.
func (txn *WriteTxn) name(db *DB, tables []TableMeta) error {
	holds, parts := txn.oneHold[:0], txn.onePart[:]
	if len(tables) > 1 {
		holds, parts = make([]hold, 0, len(tables)), make([]tableTxn, len(tables))
	}
	for i, t := range tables {
		switch {
		case t == nil:
			return fmt.Errorf("%w: argument %d is nil", ErrForeignTable, i+1)
		case t.lockable().db != db:
			return &TableError{Table: t.Name(), Err: ErrForeignTable}
		}
		holds = append(holds, hold{by: &txn.claim, of: t})
	}
	if len(holds) > 1 {
		slices.SortFunc(holds, func(a, b hold) int { return cmp.Compare(a.order(), b.order()) })
		holds = slices.CompactFunc(holds, func(a, b hold) bool { return a.order() == b.order() })
	}
	txn.claim.holds, txn.parts = holds, parts[:len(holds)]
	return nil
}

func release(holds []hold) {
	for _, h := range holds {
		h.of.lockable().release()
	}
}

// Update runs fn in a write transaction on the tables: committed when fn returns
// nil, rolled back when it returns an error or panics. It returns fn's error,
// or that of [DB.WriteTxn] or [WriteTxn.Commit]. fn must not end the transaction itself.
func (db *DB) Update(ctx context.Context, fn func(txn *WriteTxn) error, tables ...TableMeta) error {
	txn, err := db.begin(ctx, tables, entryOf(fn))
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
	txn.publish()
	txn.end()
	txn.announce()
	return txn.base, nil
}

// check looks at the tables in one order, so that the same writes give the same error.
func (txn *WriteTxn) check() error {
	for _, part := range txn.parts {
		if part == nil {
			continue
		}
		if err := part.check(); err != nil {
			return err
		}
	}
	return nil
}

// publish makes the changed tables current and forgets the others.
func (txn *WriteTxn) publish() {
	changed := false
	for i, part := range txn.parts {
		switch {
		case part == nil:
		case part.changed():
			changed = true
		default:
			part.abort()
			txn.parts[i] = nil
		}
	}
	if !changed {
		return
	}
	db := txn.base.db
	db.publishMu.Lock()
	defer db.publishMu.Unlock()
	next := db.nextLocked()
	for i, part := range txn.parts {
		if part != nil {
			next.versions[txn.claim.holds[i].of.lockable().slot] = part.commit()
		}
	}
	db.current.Store(next)
	txn.base = next
}

// announce wakes who watches what was published.
func (txn *WriteTxn) announce() {
	for _, part := range txn.parts {
		if part != nil {
			part.published()
		}
	}
	txn.parts, txn.onePart[0] = nil, nil
}

// Abort gives up the writes. It does nothing when the transaction has ended, so
// that it can be deferred.
func (txn *WriteTxn) Abort() {
	if txn.closed {
		return
	}
	for _, part := range txn.parts {
		if part != nil {
			part.abort()
		}
	}
	txn.end()
	txn.parts, txn.onePart[0] = nil, nil
}

// end releases the tables.
func (txn *WriteTxn) end() {
	txn.closed = true
	release(txn.claim.holds)
}
