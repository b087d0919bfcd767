package statedb

import (
	"context"

	"github.com/statehive/statehive/statedb/internal/engine"
)

// Drop removes a table from the database. It waits for the table's lock as
// [DB.WriteTxn] does, so that open transactions on the table end first, and
// returns the same errors. From then on opening a transaction on the table gives
// [ErrDropped], also to those who were waiting for it, and its name is free.
//
// Snapshots from before go on working; those after read the table as empty. All
// watches on the table and the channel of [Table.Initialized] close, once: asked
// of a snapshot without the table they are nil, which never closes, and the
// table is not initialized, so that nobody takes its emptiness for a wish.
// Cursors end: see [Cursor.Err]. The memory of the rows goes with the last
// snapshot that has them.
func (db *DB) Drop(ctx context.Context, table TableMeta) error {
	txn, err := db.begin(ctx, []TableMeta{table}, callers())
	if err != nil {
		return err
	}
	defer txn.Abort()
	lock := table.lockable()
	wake := txn.pending(lock).drop()
	err = db.publish(func(versions []tableVersion) ([]tableVersion, error) {
		lock.dropped.Store(db.nextCommitLocked())
		versions[lock.slot] = nil
		return versions, nil
	})
	if err != nil {
		return err
	}
	wake()
	return nil
}

// droppedIn says whether a snapshot is from after the drop of the table.
func (l *tableLock) droppedIn(r *root) bool {
	at := l.dropped.Load()
	return at != 0 && r.db == l.db && r.commit >= at
}

func (w *writer[Obj]) drop() (wake func()) {
	ended := make([]engine.Txn[*entry[Obj]], len(w.base.trees))
	for i, tree := range w.base.trees {
		ended[i] = withoutAll(tree)
	}
	return func() {
		for _, txn := range ended {
			txn.Notify()
		}
		w.base.watch.close()
		if !w.base.sources.initialized() {
			close(w.base.sources.ready)
		}
	}
}

// withoutAll returns a transaction whose notification closes every watch of a
// tree: it was committed and has left no node of it.
func withoutAll[V any](tree engine.Tree[V]) engine.Txn[V] {
	txn := tree.Txn()
	if tree.Len() == 0 {
		txn.Insert([]byte{}, *new(V))
	}
	for key := range tree.Prefix(nil) {
		txn.Delete(key)
	}
	txn.Commit()
	return txn
}
