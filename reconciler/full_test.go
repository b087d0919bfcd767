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

func TestTargetThatCannotObserveIsPruned(t *testing.T) {
	prepared(t, func(w *world) {
		pruning(w)
		w.target.is["old"] = 1
		w.write(row{ID: "a", Want: 1})
	}, func(_ *testing.T, w *world) {
		w.wantLog("init", "update a=1", "prune")
		w.wantConverged()
		w.equal("out of sync", 1, w.metrics().outOfSync)
		w.target.corrupt("new", 1)
		w.fullPass()
		w.wantLog("update a=1", "prune")
		w.wantConverged()
	})
}

func TestPruneRunsAlone(t *testing.T) {
	prepared(t, func(w *world) {
		pruning(w)
		w.config.Workers = 8
	}, func(_ *testing.T, w *world) {
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(100 * time.Millisecond)
			return reconciler.Result{}, nil
		})
		for i := range 50 {
			w.put(numbered(20, i)...)
			w.r.FullPass()
			w.pass(70 * time.Millisecond)
		}
		w.pass(time.Minute)
		w.wantConverged()
		w.equal("most at one time", 8, w.target.most)
	})
}

func TestFailingPruneIsRepeatedWithBackoff(t *testing.T) {
	prepared(t, func(w *world) {
		pruning(w)
		w.target.is["old"] = 1
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "prune" {
				return reconciler.Result{}, errBoom
			}
			return reconciler.Result{}, nil
		})
	}, func(_ *testing.T, w *world) {
		w.pass(5 * time.Second)
		w.wantGaps("", 100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond)
		w.equal("health", "degraded: orphans cannot be found: boom", w.health.last())
		w.target.will(nil)
		w.pass(time.Minute)
		w.wantConverged()
	})
}

func TestStuckOperationDoesNotStopOthersBeforeAPrune(t *testing.T) {
	prepared(t, func(w *world) {
		pruning(w)
		w.config.Workers = 2
		w.config.OperationTimeout = time.Hour
	}, func(_ *testing.T, w *world) {
		w.put(row{ID: "b", Want: 1})
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.id == "a" {
				<-ctx.Done()
				return reconciler.Result{}, ctx.Err()
			}
			take(100 * time.Millisecond)
			return reconciler.Result{}, nil
		})
		w.target.log()
		w.fullPass()
		w.put(row{ID: "a", Want: 1}) // the full pass has gone past it
		w.pass(200 * time.Millisecond)
		w.put(row{ID: "b", Want: 2})
		w.pass(500 * time.Millisecond)
		w.wantStatus("b", "pending") // to let a prune in
		w.pass(time.Second)
		w.wantStatus("b", "done")
		w.equal("prunes", 0, count(w.target.took(), call{op: "prune"}))
		w.target.will(nil)
		w.pass(3 * time.Hour)
		w.wantConverged()
		w.equal("prunes", true, count(w.target.took(), call{op: "prune"}) > 0)
	})
}

func TestResetOfTheFeedMakesAFullPassDue(t *testing.T) {
	prepared(t, func(w *world) { w.config.Limits.RoundSize = 1 }, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "z", Want: 1})
		w.target.log()
		w.target.will(slow("a"))
		w.put(row{ID: "a", Want: 2}) // takes a while
		w.put(row{ID: "c", Want: 1}) // waits for it: a full round
		w.erase("b")
		for range 40 { // more deletes than the feed keeps
			w.update(func(txn *statedb.WriteTxn) error {
				for range 1000 {
					if _, _, err := w.table.Insert(txn, row{ID: "busy"}); err != nil {
						return err
					}
					if _, _, err := w.table.Delete(txn, row{ID: "busy"}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		w.pass(time.Minute)
		// What has just been applied is not applied again.
		w.wantLog("update a=2", "update c=1", "update z=1", "observe", "delete b")
		w.wantConverged()
		w.equal("out of sync", 1, w.metrics().outOfSync)
	})
}

func TestOrphansAreHeldWhileASourceIsIncomplete(t *testing.T) {
	var source *statedb.Source
	complete := func(w *world, reason string) {
		w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, reason) })
		synctest.Wait()
	}
	prepared(t, func(w *world) {
		source = w.source("files")
		w.target.is["old"] = 1
		w.write(row{ID: "a", Want: 1})
		w.update(func(txn *statedb.WriteTxn) error {
			return errors.Join(source.Initialized(txn), source.Incomplete(txn, "a.yaml is broken"))
		})
	}, func(_ *testing.T, w *world) {
		w.wantLog("init", "update a=1")
		w.equal("health", "ok: removal of orphans is held: files: a.yaml is broken", w.health.last())
		w.equal("incomplete", map[string]string{"files": "a.yaml is broken"}, w.r.Summary(w.db.ReadTxn()).Incomplete)
		// Updates and deletes of rows run.
		w.put(row{ID: "b", Want: 1})
		w.delete("a")
		w.wantLog("update b=1", "delete a")
		w.fullPass()
		w.pass(time.Hour)
		w.wantLog("update b=1")
		w.wantTarget(map[string]int{"b": 1, "old": 1})
		complete(w, "")
		w.wantLog("observe", "delete old")
		w.wantConverged()
		complete(w, "again")
		complete(w, "")
		w.pass(time.Hour)
		w.wantLog() // no search for orphans is pending
		w.equal("health", "ok: reconciled", w.health.last())
		complete(w, "and again")
		w.target.corrupt("old", 1)
		w.fullPass()
		w.wantLog("update b=1")
		complete(w, "")
		w.wantLog("observe", "delete old") // of the orphans alone
		w.wantConverged()
	})
}

func TestOrphansThatWereFoundAreHeldToo(t *testing.T) {
	for name, moment := range map[string]time.Duration{
		"while observing":        500 * time.Millisecond,
		"before the first":       1000 * time.Millisecond,
		"after the first":        1500 * time.Millisecond,
		"while one is retried":   2500 * time.Millisecond,
		"while one is postponed": 4000 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			prepared(t, func(w *world) {
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					take(time.Second)
					if c.id == "old1" && c.op == "delete" {
						return reconciler.Result{}, errBoom
					}
					return reconciler.Result{}, nil
				})
			}, func(_ *testing.T, w *world) {
				w.pass(time.Minute)
				source := w.source("files")
				w.update(source.Initialized)
				w.target.corrupt("old1", 1)
				w.target.corrupt("old2", 1)
				w.fullPass()
				w.pass(moment)
				w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "broken") })
				w.pass(2 * time.Second) // what is running ends
				w.target.log()
				w.pass(time.Hour)
				w.wantLog()
				w.equal("not-done", []reconciler.NotDone{}, w.notDoneRows())
				w.equal("deleting", 0, w.deleting())
				w.target.will(nil)
				w.update(source.Complete)
				w.pass(time.Minute)
				w.wantConverged()
			})
		})
	}
}

func TestFlickeringSourceLosesNothing(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.Workers, w.config.DeleteLimit.Off = 3, true
	}, func(_ *testing.T, w *world) {
		source := w.source("files")
		w.update(source.Initialized)
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(7 * time.Millisecond)
			return reconciler.Result{}, nil
		})
		for i := range 500 {
			w.target.corrupt("old"+strconv.Itoa(i), 1)
			w.r.FullPass()
			w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, strconv.Itoa(i)) })
			take(time.Duration(i%5) * time.Millisecond)
			w.update(source.Complete)
			take(time.Duration(i%11) * time.Millisecond)
			synctest.Wait()
		}
		w.pass(time.Minute)
		w.wantConverged()
	})
}
