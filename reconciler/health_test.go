package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// A failure whose next try takes long is no short one: it must not hide behind it.
func TestHealthIsNotGreenWhileARetryTakesLong(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		first := true
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			if first {
				first = false
				return reconciler.Result{}, errBoom
			}
			take(10 * time.Second)
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "a", Want: 1})
		w.pass(999 * time.Millisecond)
		w.equal("within the grace", "ok: reconciled", w.health.last())
		w.pass(time.Millisecond)
		w.equal("after it", "degraded: rows in error: 1: update a: boom", w.health.last())
		w.pass(time.Minute)
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

// Each change resets the attempts, and so would hide that none of them succeeds.
func TestHealthIsNotGreenWhileEachChangeFails(t *testing.T) {
	prepared(t, func(w *world) { w.config.MinBackoff, w.config.MaxBackoff = 800*time.Millisecond, time.Minute }, func(t *testing.T, w *world) {
		w.target.will(failing("a"))
		for i := range 10 {
			w.put(row{ID: "a", Want: i})
			w.pass(300 * time.Millisecond)
			if green := strings.HasPrefix(w.health.last(), "ok"); green != (i < 3) {
				t.Errorf("after %d changes: %s", i+1, w.health.last())
			}
		}
	})
}

func TestHealthIsNotGreenWhileAFailedRowIsHeld(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		if err := w.r.Pause(w.t.Context(), reconciler.Selector[row]{}, time.Time{}); err != nil {
			w.t.Fatal(err)
		}
		w.pass(time.Hour)
		w.equal("health", "degraded: rows in error: 1: update a: boom", w.health.last())
	})
}

func TestHealthNamesTheFirstErrorsAndCountsTheRest(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.Terminal(fmt.Errorf("%s: %w\nand more", c.id, errBoom))
		})
		for _, id := range []string{"e", "d", "c", "b", "a"} {
			w.put(row{ID: id})
		}
		w.equal("health", "degraded: rows in error: 5: update of 5 rows: <key>: boom (e, d, c, …)", w.health.last())
		if err := w.health.err(); !errors.Is(err, errBoom) {
			t.Errorf("%v is not what the target returned", err)
		}
		w.target.will(nil)
		w.put(row{ID: "d", Want: 1})
		w.put(row{ID: "d", Want: 2})
		w.equal("health", "degraded: rows in error: 4: update of 4 rows: <key>: boom (e, c, b, …)", w.health.last())
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.Terminal(errBoom)
		})
		w.put(row{ID: "d", Want: 3}) // it has lost its place
		w.put(row{ID: "e", Want: 3}) // it keeps it
		w.equal("health", "degraded: rows in error: 5: update of 3 rows: <key>: boom (c, b, a); update of 2 rows: boom (e, d)", w.health.last())
		w.target.will(nil)
		w.fullPass()
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestHealthTellsOnceOfFailuresThatStayTheSame(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.pass(time.Minute)
		seen := len(w.health.since(0))
		for i := range 100 {
			w.put(row{ID: "b", Want: i})
			w.pass(time.Minute)
		}
		w.equal("reports", []string{}, w.health.since(seen))
	})
}

func TestHealthReportsEverythingThatIsWrong(t *testing.T) {
	prepared(t, hurried(2), func(_ *testing.T, w *world) {
		w.put(numbered(40, 1)...)
		release := make(chan struct{})
		w.target.will(ignoring(release, "a"))
		w.put(row{ID: "a"})
		w.pass(3 * time.Second)
		stuck := "update a: stuck: has not returned after 2s, although its context has ended"
		w.equal("stuck", "degraded: rows in error: 1, operations stuck: 1: "+stuck, w.health.last())
		var ids []string
		for _, r := range numbered(20, 1) {
			ids = append(ids, r.ID)
		}
		w.delete(ids...)
		limit := "deletes of more than 10 rows and 30 % of the table within 1m0s: look at the plan and approve it"
		w.equal("held", "degraded: rows in error: 1, operations stuck: 1, deletes held: 20: "+stuck+"; "+limit, w.health.last())
		close(release)
		w.pass(time.Minute)
		w.equal("held alone", "degraded: deletes held: 20: "+limit, w.health.last())
		w.put(numbered(40, 1)...)
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestHealthReportsASearchForOrphansThatIsStuck(t *testing.T) {
	prepared(t, hurried(2), func(_ *testing.T, w *world) {
		release := make(chan struct{})
		w.target.will(ignoring(release, "observe"))
		w.fullPass()
		w.pass(2100 * time.Millisecond)
		w.equal("at once", true, strings.HasPrefix(w.health.last(), "degraded: operations stuck: 1"))
		w.pass(time.Minute)
		w.equal("still", "degraded: operations stuck: 1, orphans cannot be found: target is too busy to be asked: an operation takes long",
			w.health.last())
		close(release)
		w.pass(2 * time.Minute)
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

// The first try has failed, and the second takes long.
func TestHealthIsNotGreenWhileTheSearchForOrphansIsRetried(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		failed := false
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			if !failed {
				failed = true
				return reconciler.Result{}, errBoom
			}
			take(10 * time.Second)
			return reconciler.Result{}, nil
		})
		w.fullPass()
		w.pass(999 * time.Millisecond)
		w.equal("within the grace", "ok: reconciled", w.health.last())
		w.pass(time.Millisecond)
		w.equal("after it", "degraded: orphans cannot be found: boom", w.health.last())
		w.pass(time.Minute)
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestHealthFollowsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		files := w.source("files")
		cluster := w.source("cluster")
		w.target.will(failing("\x00init"))
		w.write(row{ID: "a"})
		w.start()
		w.update(files.Initialized)
		synctest.Wait()
		w.update(cluster.Initialized)
		w.pass(time.Second)
		w.target.will(takeASecond)
		w.pass(time.Minute)
		w.update(func(txn *statedb.WriteTxn) error { return files.Incomplete(txn, "a.yaml is broken") })
		synctest.Wait()
		w.update(files.Complete)
		synctest.Wait()
		late := w.source("late")
		synctest.Wait()
		w.update(late.Initialized)
		synctest.Wait()
		w.stop()
		w.equal("reports", []string{
			"degraded: waiting for sources: cluster, files",
			"degraded: waiting for sources: cluster",
			"degraded: target is not ready: boom",
			"ok: applying all rows for the first time",
			"ok: reconciled",
			"ok: removal of orphans is held: files: a.yaml is broken",
			"ok: reconciled",
			"degraded: waiting for sources: late",
			"ok: reconciled",
			"stopped: stopped",
		}, w.health.distinct())
	})
}

func TestHealthSaysWhyARunEndedBadly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hurried(1)(w)
		w.start()
		release := make(chan struct{})
		w.target.will(ignoring(release, "a"))
		w.put(row{ID: "a"})
		w.pass(time.Minute)
		w.cancel()
		if err := <-w.ended; err == nil {
			t.Error("the stuck operation is forgotten")
		}
		if got := w.health.last(); !strings.HasPrefix(got, "stopped: reconciler rows stopped: update a: stuck: ") {
			t.Error(got)
		}
		close(release)
	})
}

func TestHealthReportsThatTheNotDoneTableCannotBeWritten(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a"})
		w.pass(time.Minute)
		if err := w.db.Drop(w.t.Context(), w.notDone); err != nil {
			w.t.Fatal(err)
		}
		w.target.will(nil)
		w.put(row{ID: "a", Want: 1})
		w.pass(time.Minute)
		if got := w.health.last(); !strings.Contains(got, "the not-done table cannot be written") {
			w.t.Error(got)
		}
	})
}
