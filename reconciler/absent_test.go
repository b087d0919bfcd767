package reconciler_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// inBatches makes a target take rows together, for tests that do so with and
// without.
func inBatches(t *testing.T, test func(t *testing.T, batches bool)) {
	t.Helper()
	for name, batches := range map[string]bool{"one by one": false, "together": true} {
		t.Run(name, func(t *testing.T) { test(t, batches) })
	}
}

// wantAbsent has deletes checked against the newest state of the table, as it is
// when they begin.
func (w *world) wantAbsent() {
	w.target.promise = func(c call, txn statedb.ReadTxn, r row) string {
		if _, _, there := w.table.Get(w.db.ReadTxn(), byID.Query(r.ID)); there && c.op == "delete" {
			return "of a row that is there by now"
		}
		return w.promise(c, txn, r)
	}
}

// A worker has an update and three deletes in hand, which begin one after the
// other without any time going by. While the update runs, one of the rows comes
// back.
func TestARowThatIsBackBeforeItsDeleteBeginsIsNotDeleted(t *testing.T) {
	inBatches(t, func(t *testing.T, batches bool) {
		prepared(t, func(w *world) {
			w.batches = batches
			w.wantAbsent()
		}, func(_ *testing.T, w *world) {
			w.put(row{ID: "b", Want: 1}, row{ID: "c", Want: 1}, row{ID: "d", Want: 1})
			w.pause(reconciler.Selector[row]{}, time.Time{})
			w.put(row{ID: "a", Want: 1})
			w.delete("b", "c", "d")
			release := make(chan struct{})
			w.target.will(ignoring(release, "a"))
			w.target.log()
			w.resume(reconciler.Selector[row]{}) // hands out all of them
			w.wantLog("update a=1")
			w.put(row{ID: "c", Want: 2})
			close(release)
			synctest.Wait()
			log := w.target.log()
			slices.Sort(log)
			w.equal("operations", []string{"delete b", "delete d", "update c=2"}, log)
			w.pass(2 * time.Second)
			w.wantConverged()
		})
	})
}

// The same with what runs before them being a delete, and with the row coming back
// as it was.
func TestARowThatIsBackDuringTheDeleteBeforeItsOwnIsNotDeleted(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.wantAbsent()
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
		release := make(chan struct{})
		w.target.will(ignoring(release, "a"))
		w.target.log()
		w.delete("a", "b", "c")
		w.wantLog("delete a")
		w.put(row{ID: "b", Want: 1})
		close(release)
		synctest.Wait()
		log := w.target.log()
		slices.Sort(log)
		w.equal("operations", []string{"delete c", "update b=1"}, log)
		w.pass(2 * time.Second)
		w.wantConverged()
	})
}

// An orphan stays if it becomes a row of the table before it is its turn to be deleted.
func TestAnOrphanThatBecomesARowBeforeItsDeleteBeginsIsNotDeleted(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.wantAbsent()
		for _, id := range []string{"old1", "old2", "old3"} {
			w.target.corrupt(id, 7)
		}
		release := make(chan struct{})
		w.target.will(ignoring(release, "old1"))
		w.target.log()
		w.fullPass()
		w.wantLog("observe", "delete old1")
		w.put(row{ID: "old2", Want: 1})
		close(release)
		synctest.Wait()
		log := w.target.log()
		slices.Sort(log)
		w.equal("operations", []string{"delete old3", "update old2=1"}, log)
		w.pass(2 * time.Second)
		w.wantConverged()
	})
}

// What nobody can take back is only what the target has begun with: the rows of
// one call of DeleteBatch are absent when it begins.
func TestDeleteBatchGetsTheRowsThatAreAbsentWhenItBegins(t *testing.T) {
	batched(t, func(w *world, b *batching) {
		w.put(numbered(20, 1)...)
		w.pause(reconciler.Selector[row]{}, time.Time{})
		w.put(row{ID: "0", Want: 2})
		w.delete(idsOf(0, 20)...)
		var back, deleted []string
		b.before = func(_ context.Context, rows []row) []reconciler.BatchResult {
			for _, r := range rows {
				if r.Want != 1 {
					continue // an update
				}
				if _, _, there := w.table.Get(w.db.ReadTxn(), byID.Query(r.ID)); there {
					back = append(back, r.ID)
				}
				deleted = append(deleted, r.ID)
			}
			return nil
		}
		release := make(chan struct{})
		w.target.will(ignoring(release, "0"))
		w.resume(reconciler.Selector[row]{})
		w.write(numbered(10, 2)...) // while the update of "0" runs
		close(release)
		synctest.Wait()
		w.equal("rows that were back", []string(nil), back)
		slices.Sort(deleted)
		w.equal("deleted", idsOf(10, 20), deleted)
		b.mu.Lock()
		b.before = nil
		b.mu.Unlock()
		w.pass(2 * time.Second)
		w.wantConverged()
	})
}
