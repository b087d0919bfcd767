package reconciler

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/statedb"
)

// carryTogether runs operations of one kind by a [BatchTarget].
func (w *worker[Obj]) carryTogether(b *batch[Obj], tasks []outcome[Obj], began time.Time) {
	txn := w.snapshot(b, began)
	objs, free := make([]Obj, 0, len(tasks)), w.depends.same(b.txn, txn)
	for i := range tasks {
		out := &tasks[i]
		if out.skipped = !w.current(b, txn, free, out); !out.skipped {
			objs = append(objs, out.newest())
		}
	}
	if len(objs) > 0 {
		w.do(b, tasks, began, func() { w.performTogether(txn, tasks, objs) })
	}
}

// performTogether calls the target.
func (w *worker[Obj]) performTogether(txn statedb.ReadTxn, tasks []outcome[Obj], objs []Obj) {
	var results []BatchResult
	if tasks[0].kind == opUpdate {
		results = w.r.batcher.UpdateBatch(w.ctx, txn, objs)
	} else {
		for _, err := range w.r.batcher.DeleteBatch(w.ctx, txn, objs) {
			results = append(results, BatchResult{Err: err})
		}
	}
	if len(results) != len(objs) {
		fail(tasks, fmt.Errorf("%w: %d for %d rows", ErrBatchResults, len(results), len(objs)))
		return
	}
	for i := range tasks {
		if out := &tasks[i]; !out.skipped {
			out.result, out.err = results[0].Result, w.r.explained(w.ctx, results[0].Err)
			results = results[1:]
		}
	}
}
