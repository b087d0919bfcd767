package targettest_test

import (
	"context"
	"errors"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// batching is a target that takes rows together.
type batching struct{ *notes }

func (b batching) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, rows []row) []reconciler.BatchResult {
	results := make([]reconciler.BatchResult, len(rows))
	if b.fault == "a batch goes on without its context" {
		ctx = context.WithoutCancel(ctx)
	}
	switch b.fault {
	case "a batch records what it has made afterwards":
		return b.recordingAfterwards(ctx, rows)
	case "a batch keeps its slice":
		b.kept = append(b.kept, rows)
	}
	for i, r := range rows {
		if i < len(rows)-1 && b.fault == "a batch does its last row only" {
			results[i].Result.Changed = true
			continue
		}
		results[i].Result, results[i].Err = b.Update(ctx, txn, r)
		switch {
		case ctx.Err() != nil && results[i].Err != nil && b.fault == "a batch gives up when its context ends":
			results[i].Err = reconciler.Terminal(results[i].Err)
		case reconciler.IsTerminal(results[i].Err) && b.fault == "a batch refuses for now only":
			results[i].Err = errInvalid
		}
	}
	switch b.fault {
	case "a batch has few outcomes":
		results = results[1:]
	case "a batch fails as a whole":
		for i := range results {
			results[i].Err = errors.New("batch")
		}
	case "a batch says that nothing changed":
		for i := range results {
			results[i].Result.Changed = false
		}
	case "a batch takes what was interrupted for done":
		if ctx.Err() != nil && results[0].Err == nil {
			b.mem.Lock()
			defer b.mem.Unlock()
			for _, r := range rows {
				b.took[r.name] = true
			}
		}
	case "a batch is refused for one row":
		for _, r := range results {
			if r.Err != nil && ctx.Err() == nil {
				results[0].Err = r.Err
			}
		}
	}
	return results
}

// recordingAfterwards makes notes, and then records those that it has made.
func (b batching) recordingAfterwards(ctx context.Context, rows []row) []reconciler.BatchResult {
	results := make([]reconciler.BatchResult, len(rows))
	for i, r := range rows {
		if results[i].Err = ctx.Err(); results[i].Err == nil {
			is, there := b.get(r.name)
			results[i].Result.Changed = !there || is != r.value
			b.put(r.name, r.value)
		}
	}
	_ = ctx.Err() // where a process may die
	for i, r := range rows {
		if results[i].Err == nil {
			b.record(r.name)
		}
	}
	return results
}

func (b batching) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, rows []row) (errs []error) {
	if b.fault == "a batch of deletes goes on without its context" {
		ctx = context.WithoutCancel(ctx)
	}
	for _, r := range rows {
		_, there := b.get(r.name)
		err := b.Delete(ctx, txn, r)
		if !there && b.fault == "a batch of deletes fails for what is absent" {
			err = errors.New("absent")
		}
		errs = append(errs, err)
	}
	return errs
}

func (b batching) DiffBatch(ctx context.Context, txn statedb.ReadTxn, rows []row) []reconciler.DiffResult {
	results := make([]reconciler.DiffResult, len(rows))
	for i, r := range rows {
		if b.fault == "a batch of diffs looks at its first row only" {
			r = rows[0]
		}
		results[i].Changes, results[i].Err = b.Diff(ctx, txn, r)
	}
	if b.fault == "a batch of diffs has few outcomes" {
		results = results[1:]
	}
	return results
}
