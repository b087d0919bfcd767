package reconciler_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// batching is a fake that takes rows in batches, and applies them one after the other. before, if
// set, is called with each batch first, and its results, if not nil, are returned.
type batching struct {
	observing
	mu     sync.Mutex
	sizes  []int
	before func(ctx context.Context, rows []row) []reconciler.BatchResult
}

func (b *batching) begin(ctx context.Context, rows []row) []reconciler.BatchResult {
	b.mu.Lock()
	b.sizes = append(b.sizes, len(rows))
	before := b.before
	b.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(ctx, rows)
}

func (b *batching) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, rows []row) []reconciler.BatchResult {
	results := b.begin(ctx, rows)
	if results != nil {
		return results
	}
	for _, r := range rows {
		result, err := b.Update(ctx, txn, r)
		results = append(results, reconciler.BatchResult{Result: result, Err: err})
	}
	return results
}

func (b *batching) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, rows []row) (errs []error) {
	for _, result := range b.begin(ctx, rows) {
		errs = append(errs, result.Err)
	}
	if errs != nil {
		return errs
	}
	for _, r := range rows {
		errs = append(errs, b.Delete(ctx, txn, r))
	}
	return errs
}

func (b *batching) took() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	sizes := b.sizes
	b.sizes = nil
	return sizes
}

// batched runs a world whose target takes rows in batches.
func batched(t *testing.T, fn func(w *world, b *batching)) {
	t.Helper()
	b := &batching{}
	prepared(t, func(w *world) {
		b.observing = observing{w.target}
		w.config.OperationTimeout = time.Second
		w.config.DeleteLimit.Off = true
		w.params = func(p *reconciler.Params[row]) { p.Target = b }
	}, func(_ *testing.T, w *world) { fn(w, b) })
}

// without is numbered without some ids.
func without(rows []row, ids ...string) []row {
	return slices.DeleteFunc(rows, func(r row) bool { return slices.Contains(ids, r.ID) })
}

func TestRowsAreProcessedInBatches(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		w.put(numbered(100, 1)...)
		w.equal("updates", []int{100}, b.took())
		w.wantConverged()
		for i := range 50 {
			w.erase(numbered(100, 1)[i].ID)
		}
		synctest.Wait()
		w.wantConverged()
		if n := sum(b.took()); n > 50 {
			w.t.Errorf("%d deletes of 50 rows", n)
		}
	})
}

// busy keeps the only worker for some time.
func (b *batching) busy(w *world, d time.Duration) {
	b.before = func(_ context.Context, rows []row) []reconciler.BatchResult {
		if rows[0].ID < "1" {
			take(d)
		}
		return nil
	}
	w.write(row{ID: "0a", Want: 1}, row{ID: "0b", Want: 1})
	w.pass(d / 4)
}

func TestUpdatesAndDeletesAreNotOneBatch(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		w.put(numbered(20, 1)...)
		b.busy(w, 100*time.Millisecond)
		for i, r := range numbered(20, 2) {
			if i%4 < 2 {
				w.write(r)
			} else {
				w.erase(r.ID)
			}
		}
		w.pass(90 * time.Millisecond)
		w.wantConverged()
		if n := sum(b.took()); n <= 20+2 {
			w.t.Errorf("%d rows were processed in one batch, expected also some of the last", n)
		}
	})
}

func sum(numbers []int) (all int) {
	for _, n := range numbers {
		all += n
	}
	return all
}

func TestRetriesThatAreDueTogetherAreNotOneBatch(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		b.before = func(_ context.Context, rows []row) []reconciler.BatchResult {
			return slices.Repeat([]reconciler.BatchResult{{Err: errBoom}}, len(rows))
		}
		w.put(numbered(20, 1)...)
		w.equal("batches", []int{20}, b.took())
		b.busy(w, time.Second)
		w.pass(time.Second)
		w.wantConverged()
		w.equal("batches of retries", []int{2}, b.took()) // the busy one
	})
}

func TestEachRowOfABatchHasItsOwnOutcome(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		bad := numbered(100, 1)[40].ID
		w.target.will(failing(bad))
		w.put(numbered(100, 1)...)
		for _, r := range without(numbered(100, 1), bad) {
			w.wantStatus(r.ID, "done")
		}
		w.wantStatus(bad, "error: boom")
		b.took()
		w.target.will(nil)
		w.pass(time.Second)
		w.wantConverged()
		w.equal("batches after the failure", []int(nil), b.took()) // by itself
	})
}

func TestDeletesOfABatchFailEachByItself(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		w.put(numbered(10, 1)...)
		b.before = func(_ context.Context, rows []row) []reconciler.BatchResult {
			results := make([]reconciler.BatchResult, len(rows))
			for i, r := range rows {
				if results[i].Err = errBoom; r.ID != "10003" {
					results[i].Err = b.Delete(t.Context(), w.db.ReadTxn(), r)
				}
			}
			return results
		}
		w.delete("10002", "10003", "10004")
		rows := w.notDoneRows()
		if len(rows) != 1 || rows[0].Key != "10003" || rows[0].Operation != "delete" {
			t.Errorf("not done: %v", rows)
		}
		w.pass(time.Second)
		w.wantConverged()
	})
}

func TestTheRowThatMakesABatchFailIsFound(t *testing.T) {
	const bad = "10040"
	spoils := func(rows []row) bool { return slices.ContainsFunc(rows, func(r row) bool { return r.ID == bad }) }
	for name, fails := range map[string]func(){
		"panic":  func() { panic("at the disco") },
		"goexit": func() { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			batched(t, func(w *world, b *batching) {
				b.before = func(_ context.Context, rows []row) []reconciler.BatchResult {
					if spoils(rows) {
						fails()
					}
					return nil
				}
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					if c.id == bad {
						fails()
					}
					return reconciler.Result{}, nil
				})
				w.put(numbered(100, 1)...)
				w.equal("in error", reconciler.Error, w.status("10001").Kind())
				w.pass(time.Second)
				for _, r := range without(numbered(100, 1), bad) {
					w.wantStatus(r.ID, "done")
				}
				w.equal("bad one", reconciler.Error, w.status(bad).Kind())
				w.target.will(nil)
				b.before = nil
				w.pass(time.Minute)
				w.wantConverged()
			})
		})
	}
}

func TestABatchHasToReturnAnOutcomeForEachRow(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		b.before = func(_ context.Context, rows []row) []reconciler.BatchResult {
			return make([]reconciler.BatchResult, len(rows)-1)
		}
		w.put(numbered(100, 1)...)
		for _, r := range numbered(100, 1) {
			if err := w.status(r.ID).Err(); !errors.Is(err, reconciler.ErrBatchResults) {
				t.Fatalf("%s: %v", r.ID, err)
			}
		}
		w.equal("batches", []int{100}, b.took())
		w.pass(time.Second)
		w.wantConverged()
		w.equal("batches after the failure", []int(nil), b.took())
	})
}

func TestEveryRowOfAStuckBatchIsReported(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		free := make(chan struct{})
		b.before = func(_ context.Context, rows []row) []reconciler.BatchResult {
			if slices.ContainsFunc(rows, func(r row) bool { return r.Want == 1 }) {
				<-free
			}
			return nil
		}
		w.put(numbered(100, 1)...)
		w.pass(10 * time.Second)
		if rows := w.notDoneRows(); len(rows) != 100 {
			t.Errorf("%d rows are not done", len(rows))
		}
		var stuck *reconciler.StuckError
		if err := w.status("10099").Err(); !errors.As(err, &stuck) {
			t.Errorf("the last one: %v", err)
		}
		w.put(row{ID: "a", Want: 2}, row{ID: "b", Want: 2})
		w.wantStatus("a", "done") // by another worker
		b.mu.Lock()
		b.before = nil
		b.mu.Unlock()
		close(free)
		w.pass(time.Minute)
		w.wantConverged()
	})
}

func TestARowThatIsSkippedDoesNotWaitForItsStuckBatch(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		free := make(chan struct{})
		w.put(numbered(10, 1)...)
		b.busy(w, 100*time.Millisecond)
		w.delete("10005", "10006", "10007")
		w.put(numbered(5, 2)...)
		b.mu.Lock()
		b.before = func(_ context.Context, rows []row) []reconciler.BatchResult {
			switch rows[0].ID {
			case "10005":
				take(100 * time.Millisecond)
			case "10000":
				<-free
			}
			return nil
		}
		b.mu.Unlock()
		w.pass(100 * time.Millisecond)
		w.erase("10001") // before its update begins
		w.pass(20 * time.Second)
		w.equal("not done", []string{"10000", "10002", "10003", "10004"}, keysOf(w.notDoneRows()))
		close(free)
		w.pass(time.Minute)
		w.wantConverged()
	})
}

func keysOf(rows []reconciler.NotDone) (keys []string) {
	for _, r := range rows {
		keys = append(keys, r.Key)
	}
	return keys
}

func TestAChangeDuringABatchIsNotLost(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		b.before = func(context.Context, []row) []reconciler.BatchResult {
			take(100 * time.Millisecond)
			return nil
		}
		w.write(numbered(100, 1)...)
		w.pass(50 * time.Millisecond)
		w.write(row{ID: "10007", Want: 2})
		w.pass(time.Second)
		w.wantConverged()
	})
}
