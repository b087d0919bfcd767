package reconciler

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/statehive/statehive/statedb"
)

// carryTogether runs operations of one kind by a [BatchTarget].
func (w *worker[Obj]) carryTogether(b *batch[Obj], tasks []outcome[Obj], began time.Time) {
	txn := w.snapshot(b, began)
	objs := make([]Obj, 0, len(tasks))
	for i := range tasks {
		out := &tasks[i]
		if out.skipped = !w.current(b, txn, out); !out.skipped {
			objs = append(objs, out.newest())
		}
	}
	if len(objs) > 0 {
		w.doTogether(b, txn, tasks, objs, began)
	}
}

// doTogether is do for several operations. What goes wrong with the whole is the
// error of each.
func (w *worker[Obj]) doTogether(b *batch[Obj], txn statedb.ReadTxn, tasks []outcome[Obj], objs []Obj, began time.Time) {
	stamp := int64(began.Sub(w.epoch))
	w.began.Store(stamp)
	returned := false
	defer func() {
		switch v := recover(); {
		case v != nil:
			w.failTogether(tasks, &PanicError{Value: v, Stack: debug.Stack()})
		case !returned:
			w.failTogether(tasks, errGoexit)
			for i := range tasks {
				tasks[i].took = time.Since(began)
			}
			defer b.done.Add(int32(len(tasks)))
		}
		w.returned(stamp)
	}()
	w.performTogether(txn, tasks, objs)
	returned = true
}

func (w *worker[Obj]) failTogether(tasks []outcome[Obj], err error) {
	for i := range tasks {
		if !tasks[i].skipped {
			tasks[i].err = err
		}
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
		w.failTogether(tasks, fmt.Errorf("%w: %d for %d rows", ErrBatchResults, len(results), len(objs)))
		return
	}
	for i := range tasks {
		if out := &tasks[i]; !out.skipped {
			out.result, out.err = results[0].Result, w.r.explained(w.ctx, results[0].Err)
			results = results[1:]
		}
	}
}
