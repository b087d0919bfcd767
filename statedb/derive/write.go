package derive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/statehive/statehive/statedb"
)

// result is the outcome for a row.
type result[Out, Key any] struct {
	subject[Out, Key]
	encoded string
	row     Out
	exists  bool // row has to be written; otherwise it is the row to delete, if any
	kept    bool // the row has to be deleted, but not yet
	err     error
}

// batchSize is the maximum number of rows that a transaction writes.
const batchSize = 1_000

// settle computes and writes the rows that were collected.
func (r *running[Out, Key]) settle(ctx context.Context, now statedb.ReadTxn) error {
	keys := slices.Sorted(maps.Keys(r.dirty))
	for len(keys) > batchSize {
		if err := r.settleBatch(ctx, now, keys[:batchSize], false); err != nil {
			return err
		}
		keys = keys[batchSize:]
	}
	if err := r.settleBatch(ctx, now, keys, true); err != nil {
		return err
	}
	r.before = now
	r.dirty, r.whole = map[string]subject[Out, Key]{}, false
	return nil
}

func (r *running[Out, Key]) settleBatch(ctx context.Context, now statedb.ReadTxn, keys []string, last bool) error {
	rows := make([]*result[Out, Key], len(keys))
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

func (r *running[Out, Key]) compute(now statedb.ReadTxn, encoded string, s subject[Out, Key]) *result[Out, Key] {
	d := &result[Out, Key]{subject: s, encoded: encoded}
	if !s.keyed {
		return d
	}
	err := guarded(func() (err error) {
		d.row, d.exists, err = r.spec.Compute(now, s.key)
		if err != nil || !d.exists {
			return err
		}
		return r.checkRow(d)
	})
	d.err = r.rowError(d, err)
	return d
}

// rowError returns err as an error that names the row, or nil if err is nil.
func (r *running[Out, Key]) rowError(d *result[Out, Key], err error) error {
	var named *statedb.RowError
	if err == nil || errors.As(err, &named) && named.Table == r.out.Name() {
		return err
	}
	text := r.codec.Format(d.key)
	if !d.keyed {
		text = r.out.Key(d.row)
	}
	return &statedb.RowError{Table: r.out.Name(), Key: text, Err: err}
}

func (r *running[Out, Key]) checkRow(d *result[Out, Key]) error {
	if v := reflect.ValueOf(any(d.row)); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return statedb.ErrNilRow
	}
	if r.out.KeyQuery(d.row).Encoded() != d.encoded {
		return fmt.Errorf("%w: Compute returned the row %q", statedb.ErrKeyChanged, r.out.Key(d.row))
	}
	return nil
}

// maxClashes is how often a transaction is retried without the clashing rows before it is
// split.
const maxClashes = 8

// write writes rows in one transaction, or in several if some of them share unique keys.
// Together with the last rows, in the same transaction, the state of the source is set to
// the state of the inputs.
func (r *running[Out, Key]) write(ctx context.Context, rows []*result[Out, Key], last bool) error {
	var clash *statedb.UniqueError
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

// exclude marks the rows that a clash names as failed, and reports whether there are any.
func (r *running[Out, Key]) exclude(rows []*result[Out, Key], clash *statedb.UniqueError) (found bool) {
	for _, d := range rows {
		if d.err == nil && d.exists && slices.Contains(clash.Rows[:], r.out.Key(d.row)) {
			d.err, found = clash, true
		}
	}
	return found
}

func (r *running[Out, Key]) tryWrite(ctx context.Context, rows []*result[Out, Key], last bool) error {
	err := r.db.Update(ctx, func(txn *statedb.WriteTxn) error {
		for _, d := range rows {
			if d.err == nil {
				d.err = r.rowError(d, guarded(func() error { return r.put(txn, d) }))
			}
		}
		if err := txn.Check(); err != nil {
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
			r.report(failedMessage, d.err)
		}
	}
	return nil
}

func (r *running[Out, Key]) put(txn *statedb.WriteTxn, d *result[Out, Key]) error {
	if d.exists {
		_, _, err := r.out.Insert(txn, d.row)
		if errors.Is(err, statedb.ErrSameObject) {
			return nil // the row is already stored
		}
		return err
	}
	old, _, exists := r.out.Get(txn, d.query)
	if !exists {
		return nil
	}
	d.row = old
	if r.holdsDelete(d.subject) {
		d.kept = true
		return nil
	}
	_, _, err := r.out.Delete(txn, old)
	return err
}

// note records which rows have to be retried, and which have to be deleted later.
func (r *running[Out, Key]) note(rows []*result[Out, Key]) {
	now := time.Now()
	for _, d := range rows {
		if d.err != nil {
			r.failed.add(d.encoded, d.subject, d.err, now)
		} else {
			r.failed.remove(d.encoded)
		}
		if d.kept {
			r.kept[d.encoded] = d.subject
		} else {
			delete(r.kept, d.encoded)
		}
	}
	r.failing.Store(int64(len(r.failed.byKey)))
}

// wanted returns the state that the source should have in the output. While there is more
// to write it can only become worse.
func (r *running[Out, Key]) wanted(last bool) statedb.SourceState {
	state := r.declared
	if reason := r.reason(); last || reason != "" {
		state.Incomplete = reason
	}
	if last && r.inputs.initialized {
		state.Initialized = true
	}
	return state
}

func (r *running[Out, Key]) declare(txn *statedb.WriteTxn, state statedb.SourceState) error {
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
