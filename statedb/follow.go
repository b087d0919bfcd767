package statedb

import (
	"context"
	"iter"
	"time"
)

// FollowOptions are the options of [Follow]. With the zero value the first batches are a
// listing of the table, and changes are delivered as soon as they are committed.
type FollowOptions struct {
	// After is the revision to start after, as in [Table.Changes].
	After Revision
	// MinInterval is the minimum time between the beginnings of two rounds. Changes made in
	// between are delivered together; if a row has changed several times, only its newest
	// version is delivered. A round delivers all changes up to one snapshot; if that takes
	// several batches there is no pause between them.
	MinInterval time.Duration
	// BatchSize is the maximum number of changes in a batch; 1,000 if it is not positive.
	BatchSize int
}

const defaultBatchSize = 1_000

// Batch is a number of consecutive changes of a table.
type Batch[Obj any] struct {
	// Txn is the snapshot up to which changes are delivered.
	Txn ReadTxn
	// Changes are the changes as a [Cursor] yields them. The slice is reused for the next
	// batch: the changes may be kept, but not the slice.
	Changes []Change[Obj]
	// Complete reports whether applying this and all earlier batches gives the table as it
	// is in Txn.
	Complete bool
	// Initialized reports whether the initial state has been delivered, by this batch or an
	// earlier one: the table as it was when all of its sources had delivered their first
	// listing, or later. It stays true, even if sources are registered later.
	Initialized bool
}

// Follow calls fn with all changes of a table, until ctx ends, fn returns an error, or the
// table is dropped ([ErrDropped]), and returns that error. fn is called from the goroutine
// that calls Follow; changes made while it runs are kept or merged as for any [Cursor]. It
// has to handle [Reset]. A batch has no changes only if it is the first to report that the
// table is initialized.
//
// A batch for which fn returned an error is not delivered again: fn has to retry by itself,
// or the caller has to call Follow again, from the beginning.
func Follow[Obj any](ctx context.Context, table *Table[Obj], options FollowOptions, fn func(context.Context, Batch[Obj]) error) error {
	f := &following[Obj]{table: table, cursor: table.Changes(options.After), size: options.BatchSize, fn: fn}
	defer f.cursor.Close()
	if f.size <= 0 {
		f.size = defaultBatchSize
	}
	for {
		began := time.Now()
		called, err := f.round(ctx, table.Untyped().DB().ReadTxn())
		if err == nil {
			err = f.cursor.Err()
		}
		if err == nil {
			err = wait(ctx, f.cursor.Watch())
		}
		if err == nil && called {
			err = pause(ctx, time.Until(began.Add(options.MinInterval)))
		}
		if err != nil {
			return err
		}
	}
}

// following is a running Follow.
type following[Obj any] struct {
	table       *Table[Obj]
	cursor      *Cursor[Obj]
	size        int
	fn          func(context.Context, Batch[Obj]) error
	changes     []Change[Obj]
	ahead       []Change[Obj] // the change that did not fit into the last batch, if any
	initialized bool
}

// round delivers the changes up to a snapshot, and reports whether there were any.
func (f *following[Obj]) round(ctx context.Context, txn ReadTxn) (called bool, err error) {
	for complete := false; !complete; {
		if err := ctx.Err(); err != nil {
			return called, err
		}
		complete = f.take(txn)
		before := f.initialized
		if complete && !before {
			f.initialized, _ = f.table.Initialized(txn)
		}
		if len(f.changes) == 0 && f.initialized == before {
			break
		}
		called = true
		if err := f.fn(ctx, Batch[Obj]{txn, f.changes, complete, f.initialized}); err != nil {
			return called, err
		}
	}
	return called, nil
}

// take fills the next batch, looking one change ahead to find out whether it is the last.
func (f *following[Obj]) take(txn ReadTxn) (complete bool) {
	clear(f.changes) // do not keep old rows alive
	f.changes = append(f.changes[:0], f.ahead...)
	clear(f.ahead)
	f.ahead = f.ahead[:0]
	for change := range f.cursor.Next(txn) {
		if len(f.changes) == f.size {
			f.ahead = append(f.ahead, change)
			return false
		}
		f.changes = append(f.changes, change)
	}
	return true
}

// wait returns when the watch closes, or with ctx's error.
func wait(ctx context.Context, watch <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-watch:
		return ctx.Err()
	}
}

// pause returns after a time, or with ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Count returns how many rows a sequence yields, by running it to its end.
func Count[Obj any](rows iter.Seq2[Obj, Revision]) int {
	n := 0
	for range rows {
		n++
	}
	return n
}
