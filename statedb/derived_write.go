package statedb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// derivedRow is what became of a key.
type derivedRow[Out, Key any] struct {
	encoded string
	key     Key
	row     Out
	exists  bool
	held    bool // it is not there any more, but must not be deleted yet
	err     error
}

// derivedBatch is how many rows a transaction writes at most.
const derivedBatch = 1_000

// settle computes and writes the rows of the keys that were collected.
func (r *deriving[Out, Key]) settle(ctx context.Context, now ReadTxn) error {
	keys := slices.Sorted(maps.Keys(r.dirty))
	for len(keys) > derivedBatch {
		if err := r.settleBatch(ctx, now, keys[:derivedBatch], false); err != nil {
			return err
		}
		keys = keys[derivedBatch:]
	}
	if err := r.settleBatch(ctx, now, keys, true); err != nil {
		return err
	}
	for i, input := range r.spec.Inputs {
		r.versions[i] = now.snapshot().version(input.table.lockable())
	}
	r.dirty, r.whole = map[string]Key{}, false
	return nil
}

func (r *deriving[Out, Key]) settleBatch(ctx context.Context, now ReadTxn, keys []string, last bool) error {
	rows := make([]*derivedRow[Out, Key], len(keys))
	for i, encoded := range keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows[i] = r.compute(now, encoded, r.dirty[encoded])
	}
	if len(rows) == 0 && r.wanted(last) == r.declared {
		return nil
	}
	return r.write(ctx, rows, last)
}

func (r *deriving[Out, Key]) compute(now ReadTxn, encoded string, key Key) *derivedRow[Out, Key] {
	d := &derivedRow[Out, Key]{encoded: encoded, key: key}
	err := guarded(func() (err error) {
		d.row, d.exists, err = r.spec.Compute(now, key)
		if err != nil || !d.exists {
			return err
		}
		return r.checkKey(d)
	})
	if err != nil {
		d.err = &RowError{Table: r.out.Name(), Key: r.text(d), Err: err}
	}
	return d
}

func (r *deriving[Out, Key]) checkKey(d *derivedRow[Out, Key]) error {
	if r.out.isNil(d.row) {
		return ErrNilRow
	}
	if string(r.out.primaryKey(d.row)) != d.encoded {
		return fmt.Errorf("%w: Compute returned the row %q", ErrKeyChanged, r.out.Key(d.row))
	}
	return nil
}

// text is the key as the errors of the output name it.
func (r *deriving[Out, Key]) text(d *derivedRow[Out, Key]) string { return r.key.codec.Format(d.key) }

// maxClashes is how often a transaction is tried without the rows that clash
// before it is split.
const maxClashes = 8

// write writes rows in one transaction, or in several if some of them share
// unique keys. With the last ones the state of the source becomes that of the
// inputs, in the same transaction.
func (r *deriving[Out, Key]) write(ctx context.Context, rows []*derivedRow[Out, Key], last bool) error {
	var clash *UniqueError
	for range maxClashes {
		err := r.tryWrite(ctx, rows, last)
		if err == nil || !errors.As(err, &clash) {
			return err
		}
		if !r.exclude(rows, clash) {
			break
		}
	}
	if len(rows) == 1 {
		rows[0].err = clash
		return r.tryWrite(ctx, rows, last)
	}
	half := len(rows) / 2
	if err := r.write(ctx, rows[:half], false); err != nil {
		return err
	}
	return r.write(ctx, rows[half:], last)
}

// exclude has the rows that a clash names fail, and says whether there are any.
func (r *deriving[Out, Key]) exclude(rows []*derivedRow[Out, Key], clash *UniqueError) (found bool) {
	for _, d := range rows {
		if d.err == nil && d.exists && slices.Contains(clash.Rows[:], r.text(d)) {
			d.err, found = clash, true
		}
	}
	return found
}

func (r *deriving[Out, Key]) tryWrite(ctx context.Context, rows []*derivedRow[Out, Key], last bool) error {
	err := r.db.Update(ctx, func(txn *WriteTxn) error {
		for _, d := range rows {
			if d.err == nil {
				d.err = guarded(func() error { return r.put(txn, d) })
			}
		}
		if err := txn.check(); err != nil {
			return err
		}
		r.note(rows)
		return r.declare(txn, r.wanted(last))
	}, r.out)
	if err != nil {
		return err
	}
	for _, d := range rows {
		if d.err != nil {
			r.report(d.err)
		}
	}
	return nil
}

func (r *deriving[Out, Key]) put(txn *WriteTxn, d *derivedRow[Out, Key]) error {
	if d.exists {
		_, _, err := r.out.Insert(txn, d.row)
		if errors.Is(err, ErrSameObject) {
			return nil // it is there
		}
		return err
	}
	old, _, exists := r.out.Get(txn, r.key.Query(d.key))
	if !exists {
		return nil
	}
	if r.holdsDeletes() {
		d.held = true
		return nil
	}
	_, _, err := r.out.Delete(txn, old)
	return err
}

// note remembers which keys have to be tried again, and which rows to be deleted.
func (r *deriving[Out, Key]) note(rows []*derivedRow[Out, Key]) {
	now := time.Now()
	for _, d := range rows {
		if d.err != nil {
			r.failed.add(d.encoded, d.key, d.err, now)
		} else {
			r.failed.remove(d.encoded)
		}
		if d.held {
			r.held[d.encoded] = d.key
		} else {
			delete(r.held, d.encoded)
		}
	}
}

// wanted is what the output should know of its source. While there is more to
// write it can only become worse.
func (r *deriving[Out, Key]) wanted(last bool) SourceState {
	state := r.declared
	if reason := r.reason(); last || reason != "" {
		state.Incomplete = reason
	}
	if last && r.inputs.initialized {
		state.Initialized = true
	}
	return state
}

func (r *deriving[Out, Key]) declare(txn *WriteTxn, state SourceState) error {
	if state == r.declared {
		return nil
	}
	if state.Initialized {
		if err := r.source.Initialized(txn); err != nil {
			return err
		}
	}
	if err := r.source.Incomplete(txn, state.Incomplete); err != nil {
		return err
	}
	r.declared = state
	return nil
}

// declareEnd says that rows are not derived any more, unless the output is gone.
func (r *deriving[Out, Key]) declareEnd(ctx context.Context, reason error) error {
	err := r.db.Update(ctx, func(txn *WriteTxn) error {
		return r.source.Incomplete(txn, fmt.Sprintf("derivation has ended: %v", reason))
	}, r.out)
	if errors.Is(err, ErrDropped) {
		return nil
	}
	return err
}
