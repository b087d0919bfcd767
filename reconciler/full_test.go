package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// numbered returns n rows with ids that sort by number.
func numbered(n, want int) []row {
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{ID: strconv.Itoa(10_000 + i), Want: want}
	}
	return rows
}

func TestFullPassFindsAndRepairsWhatIsOutOfSync(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(numbered(200, 1)...)
		before := w.metrics()
		w.target.log()
		w.target.corrupt("10007", 99)
		w.target.corrupt("orphan", 99)
		w.fullPass()
		w.wantConverged()
		w.equal("out of sync", 2, w.metrics().outOfSync)
		w.equal("full passes", before.full+1, w.metrics().full)
		w.equal("incremental", before.incremental, w.metrics().incremental)
		w.equal("operations", 200+2, len(w.target.took()))
		w.fullPass()
		w.equal("out of sync", 2, w.metrics().outOfSync)
		w.equal("operations", 200+1, len(w.target.took()))
	})
}

func TestFullPassAppliesEachRowOnce(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 3 }, func(_ *testing.T, w *world) {
		w.put(numbered(200, 1)...)
		w.target.log()
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			// The last row of a slice is through, and its status written, before
			// the one before it.
			switch c.id {
			case "10062":
				take(60 * time.Millisecond)
			case "10063":
			default:
				take(30 * time.Millisecond)
			}
			return reconciler.Result{}, nil
		})
		w.fullPass()
		w.pass(time.Minute)
		w.equal("operations", 200+1, len(w.target.took()))
	})
}

func TestFullPassesArePeriodicWithJitter(t *testing.T) {
	prepared(t, func(w *world) { w.config.FullInterval = time.Hour }, func(t *testing.T, w *world) {
		w.put(row{ID: "a"})
		w.pass(100 * time.Hour)
		times := gaps(w.target.took(), "\x00observe")
		if len(times) < 95 || len(times) > 105 {
			t.Errorf("%d full passes in 100 intervals", len(times))
		}
		for _, d := range times {
			if d < 54*time.Minute || d > 66*time.Minute {
				t.Errorf("interval %v, want 1h ±10 %%", d)
			}
		}
		if slices.Min(times) == slices.Max(times) {
			t.Error("no jitter")
		}
	})
}

func TestNegativeIntervalMeansNoPeriodicFullPass(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a"})
		w.target.log()
		w.pass(10_000 * time.Hour)
		w.wantLog()
	})
}

func TestFullPassOnDemandDuringAFullPassRunsAnother(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.log()
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, nil
		})
		for _, moment := range []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 1800 * time.Millisecond} {
			w.fullPass()
			w.pass(moment)
			w.fullPass()
			w.fullPass()
			w.pass(time.Minute)
			w.wantLog("update a=1", "observe", "update a=1", "observe")
		}
	})
}

func TestFullPassCoversRowsInError(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(outcomes(reconciler.RetryAfter(time.Hour, errBoom), errBoom, nil))
		w.put(row{ID: "a", Want: 1})
		w.fullPass()
		w.equal("errors of full passes", 1, w.metrics().fullErrors)
		w.pass(time.Second)
		w.wantConverged()
		w.equal("out of sync", 0, w.metrics().outOfSync) // it was not said to be done
	})
}

func TestFullPassRetriesFailingDeletesNow(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.will(outcomes(reconciler.RetryAfter(time.Hour, errBoom), nil))
		w.delete("a")
		w.equal("deleting", 1, w.deleting())
		w.fullPass()
		w.pass(time.Second)
		w.wantConverged()
		w.equal("deleting", 0, w.deleting())
	})
}

func TestFullPassRetriesTerminalDeletesOfWhatIsNotObserved(t *testing.T) {
	for _, prunes := range []bool{false, true} {
		prepared(t, func(w *world) { w.prunes = prunes }, func(_ *testing.T, w *world) {
			w.put(row{ID: "a", Want: 1})
			w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
				w.target.half(c)
				return reconciler.Result{}, reconciler.Terminal(errBoom)
			})
			w.delete("a")
			w.pass(time.Hour)
			w.equal("deleting", 1, w.deleting())
			w.target.will(nil)
			w.fullPass()
			w.pass(time.Second)
			w.wantConverged()
			w.equal("deleting", 0, w.deleting())
		})
	}
}

func TestFailingRemovalOfAnOrphanIsVisibleAndRetried(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("old"))
		w.target.corrupt("old", 1)
		w.fullPass()
		w.wantNotDone(reconciler.NotDone{Key: "old", Operation: "delete", Attempts: 1, LastError: "boom"})
		w.equal("deleting", 1, w.deleting())
		w.equal("full errors", 1, w.metrics().fullErrors)
		w.put(row{ID: "old", Want: 2}) // now it is wanted: still failing
		w.equal("deleting", 0, w.deleting())
		w.target.will(nil)
		w.pass(time.Second)
		w.wantConverged()
		w.equal("out of sync", 0, w.metrics().outOfSync)
	})
}

func TestAnOrphanThatAUserCreatesAndDeletesIsDeletedAsARow(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(outcomes(reconciler.RetryAfter(time.Hour, errBoom), nil))
		w.target.corrupt("a", 1)
		w.fullPass()
		incremental := w.metrics().incremental
		w.update(func(txn *statedb.WriteTxn) error {
			_, _, err := w.table.Insert(txn, row{ID: "a", Want: 1})
			_, _, errDelete := w.table.Delete(txn, row{ID: "a"})
			return errors.Join(err, errDelete)
		})
		synctest.Wait()
		w.equal("incremental", incremental+1, w.metrics().incremental)
		w.equal("out of sync", 0, w.metrics().outOfSync)
		w.pass(time.Second)
		w.wantConverged()
	})
}

func TestNothingIsRemovedWhenObservingFails(t *testing.T) {
	boom := func(_ context.Context, c call) (reconciler.Result, error) {
		if c.op == "observe" {
			return reconciler.Result{}, errBoom
		}
		return reconciler.Result{}, nil
	}
	panics := func(ctx context.Context, c call) (reconciler.Result, error) {
		if result, err := boom(ctx, c); err != nil {
			panic("boom")
		} else {
			return result, nil
		}
	}
	for name, act := range map[string]behavior{"error": boom, "panic": panics} {
		t.Run(name, func(t *testing.T) {
			prepared(t, func(w *world) {
				w.target.is["old"] = 1
				w.target.will(act)
				w.write(row{ID: "a", Want: 1})
			}, func(t *testing.T, w *world) {
				w.wantTarget(map[string]int{"a": 1, "old": 1})
				if len(w.health.since(1)) > 1 {
					t.Errorf("one failure is news: %q", w.health.since(0))
				}
				w.pass(2 * time.Second)
				w.wantTarget(map[string]int{"a": 1, "old": 1})
				if got := w.health.last(); !strings.HasPrefix(got, "degraded: orphans cannot be found: ") || !strings.HasSuffix(got, "boom") {
					t.Errorf("health %q", got)
				}
				w.wantGaps("\x00observe", 100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond)
				w.put(row{ID: "b", Want: 1}) // others go on
				w.target.will(nil)
				w.pass(time.Minute)
				w.wantConverged()
				w.equal("health", "ok: reconciled", w.health.last())
			})
		})
	}
}

func TestARowDeletedWhileObservingIsNoOrphan(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 2 }, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.target.log()
		w.target.answer = time.Second
		w.fullPass()
		w.delete("a")
		w.pass(time.Minute)
		w.equal("deletes of a", 1, count(w.target.took(), call{op: "delete", id: "a"}))
		w.equal("out of sync", 0, w.metrics().outOfSync)
		w.wantConverged()
	})
}

func count(calls []call, like call) (n int) {
	for _, c := range calls {
		if c.op == like.op && c.id == like.id {
			n++
		}
	}
	return n
}

// pruning prepares a world whose target cannot observe.
func pruning(w *world) { w.prunes = true }
