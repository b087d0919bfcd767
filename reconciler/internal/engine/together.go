package engine

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// carryTogether runs operations of one kind by a [BatchTarget].
func (w *worker) carryTogether(b *batch, tasks []outcome, began time.Time) {
	txn := w.snapshot(b, began)
	rows, free := make([]*store.Entry, 0, len(tasks)), w.depends.same(b.txn, txn)
	for i := range tasks {
		out := &tasks[i]
		if out.skipped = !w.current(b, txn, free, out); !out.skipped {
			rows = append(rows, out.newest())
		}
	}
	if len(rows) > 0 {
		w.do(b, tasks, began, func() { w.performTogether(txn, tasks, rows) })
	}
}

// performTogether calls the target.
func (w *worker) performTogether(txn store.ReadTxn, tasks []outcome, rows []*store.Entry) {
	var results []BatchResult
	if tasks[0].kind == opUpdate {
		results = w.r.p.Target.UpdateBatch(w.ctx, txn, rows)
	} else {
		for _, err := range w.r.p.Target.DeleteBatch(w.ctx, txn, rows) {
			results = append(results, BatchResult{Err: err})
		}
	}
	if len(results) != len(rows) {
		fail(tasks, fmt.Errorf("%w: %d for %d rows", ErrBatchResults, len(results), len(rows)))
		return
	}
	for i := range tasks {
		if out := &tasks[i]; !out.skipped {
			out.result, out.err = results[0].Result, w.r.explained(w.ctx, results[0].Err)
			results = results[1:]
		}
	}
}
