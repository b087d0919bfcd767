package reconciler_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// ignoring makes operations wait for release, whatever becomes of their context:
// those of a kind, or on one of the ids.
func ignoring(release <-chan struct{}, ids ...string) behavior {
	return func(_ context.Context, c call) (reconciler.Result, error) {
		for _, id := range ids {
			if c.id == id || c.op == id {
				<-release
			}
		}
		return reconciler.Result{}, nil
	}
}

// hurried is a world whose operations are stuck after two seconds.
func hurried(workers int) func(*world) {
	return func(w *world) { w.config.OperationTimeout, w.config.Workers = time.Second, workers }
}

func (w *world) wantStuck(err error) {
	w.t.Helper()
	var stuck *reconciler.StuckError
	if !errors.As(err, &stuck) {
		w.t.Fatalf("%v is no StuckError", err)
	}
	if !bytes.Contains(stuck.Stack, []byte("ignoring")) || stuck.After < 2*time.Second {
		w.t.Errorf("stuck for %v, at\n%s", stuck.After, stuck.Stack)
	}
}

func TestStuckUpdateIsReportedWithItsStackAndItsWorkerReplaced(t *testing.T) {
	prepared(t, hurried(1), func(_ *testing.T, w *world) {
		release := make(chan struct{})
		w.target.will(ignoring(release, "a"))
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.pass(3 * time.Second)
		w.wantStatus("b", "done")
		w.wantStuck(w.status("a").Err())
		if ago := time.Since(w.status("a").Since()); ago < 0 || ago > 3*time.Second {
			w.t.Errorf("it is in error for %v", ago)
		}
		w.put(row{ID: "c", Want: 1})
		w.wantStatus("c", "done")
		w.put(row{ID: "a", Want: 2}) // in hand still
		w.pass(time.Minute)
		w.equal("operations on a", 1, count(w.target.took(), call{op: "update", id: "a"}))
		close(release)
		w.pass(2 * time.Second)
		w.wantConverged()
		w.equal("items", []string(nil), w.r.Items())
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestStuckUpdateThatReturnsHeals(t *testing.T) {
	prepared(t, hurried(2), func(_ *testing.T, w *world) {
		release := make(chan struct{})
		w.target.will(ignoring(release, "a"))
		w.put(row{ID: "a", Want: 1})
		w.pass(time.Hour)
		w.wantStuck(w.status("a").Err())
		w.equal("errors", 1, w.metrics().errorsCurrent)
		w.target.took()
		close(release)
		w.pass(2 * time.Second)
		w.wantLog() // that it took long is no failure
		w.wantConverged()
		w.equal("errors", 0, w.metrics().errorsCurrent)
	})
}

// goroutines counts those that have not ended: runtime.NumGoroutine has for a moment
// more those that are about to be gone.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	return 1 + bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("\ngoroutine "))
}

func TestSeveralStuckOperationsLeaveTheOthersTheirWorkers(t *testing.T) {
	prepared(t, hurried(3), func(t *testing.T, w *world) {
		before := goroutines()
		release := make(chan struct{})
		w.target.will(ignoring(release, "a", "b", "c", "d", "e"))
		w.delete("nothing")
		w.put(row{ID: "a"}, row{ID: "b"}, row{ID: "c"}, row{ID: "d"}, row{ID: "e"}, row{ID: "f"})
		w.pass(10 * time.Second)
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			w.wantStuck(w.status(id).Err())
		}
		w.put(numbered(100, 1)...)
		w.wantStatus("f", "done")
		w.equal("done", 101, w.r.Summary(w.db.ReadTxn()).Done)
		close(release)
		w.pass(2 * time.Second)
		w.wantConverged()
		if after := goroutines(); after > before {
			t.Errorf("%d goroutines more than before", after-before)
		}
	})
}

func TestStuckDeleteIsVisibleUntilItReturns(t *testing.T) {
	prepared(t, hurried(1), func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.target.will(ignoring(release, "a"))
		w.delete("a")
		w.pass(5 * time.Second)
		if rows := w.notDoneRows(); len(rows) != 1 || rows[0].Operation != "delete" || !strings.Contains(rows[0].LastError, "stuck") {
			t.Errorf("not done: %+v", rows)
		}
		w.put(row{ID: "a", Want: 3}, row{ID: "b", Want: 2}) // back, while it is being deleted
		w.wantStatus("b", "done")
		w.pass(5 * time.Second)
		w.wantStatus("a", "pending")
		close(release)
		w.pass(2 * time.Second)
		w.equal("deleting", 0, w.deleting())
		w.wantConverged()
	})
}

func TestStuckSearchForOrphansStopsNothingElse(t *testing.T) {
	for op, prunes := range map[string]bool{"observe": false, "prune": true} {
		t.Run(op, func(t *testing.T) {
			prepared(t, func(w *world) { hurried(1)(w); w.prunes = prunes }, func(_ *testing.T, w *world) {
				release := make(chan struct{})
				w.target.corrupt("old", 1)
				w.target.will(ignoring(release, op))
				w.r.FullPass()
				w.pass(3 * time.Second)
				w.put(row{ID: "a", Want: 1})
				w.pass(20 * time.Millisecond)
				w.wantStatus("a", "done")
				w.pass(time.Hour)
				close(release)
				w.target.faults = nil // of the update together with prune
				w.pass(5 * time.Minute)
				w.wantConverged()
				w.equal("health", "ok: reconciled", w.health.last())
			})
		})
	}
}

func TestStuckOperationDoesNotStopOthersBeforeEachPrune(t *testing.T) {
	prepared(t, func(w *world) { hurried(2)(w); w.prunes = true }, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.target.will(ignoring(release, "a"))
		w.put(row{ID: "a", Want: 1})
		w.pass(3 * time.Second)
		w.r.FullPass()
		for i := range 1000 {
			w.put(row{ID: "b", Want: i})
			if kind := w.status("b").Kind(); kind != reconciler.Done {
				t.Fatalf("change %d is %v", i, kind)
			}
			w.pass(100 * time.Millisecond)
		}
		close(release)
		w.pass(2 * time.Minute)
		w.wantConverged()
	})
}

func TestStopNamesTheOperationsThatAreStuck(t *testing.T) {
	for _, wait := range []time.Duration{0, 5 * time.Second} { // not yet, and already known to be stuck
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			hurried(2)(w)
			w.start()
			release := make(chan struct{})
			w.target.will(ignoring(release, "a", "b"))
			w.put(row{ID: "a"}, row{ID: "b"})
			w.pass(wait)
			began := time.Now()
			w.cancel()
			err := <-w.ended
			w.wantStuck(err)
			if took := time.Since(began); took > 7*time.Second {
				t.Errorf("took %v", took)
			}
			for _, name := range []string{"update a", "update b"} {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%v does not name %q", err, name)
				}
			}
			close(release) // the bubble ends only if no goroutine is left
		})
	}
}

func TestDeadlinesHoldWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.OperationTimeout, w.config.StopTimeout = time.Second, 1<<63-1
		w.start()
		w.target.will(func(ctx context.Context, _ call) (reconciler.Result, error) {
			<-ctx.Done()
			return reconciler.Result{}, ctx.Err()
		})
		w.put(row{ID: "a"})
		began := time.Now()
		w.stop()
		if took := time.Since(began); took != time.Second {
			t.Errorf("stopping took %v", took)
		}
		w.wantStatus("a", "error: took longer than 1s: context deadline exceeded")
	})
}

func TestOperationThatEndsItsGoroutineIsAnError(t *testing.T) {
	for _, op := range []string{"init", "update", "delete", "observe", "prune"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.prunes = op == "prune"
				w.target.is["old"], w.target.is["a"] = 1, 1
				first := true
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					if c.op == op && first {
						first = false
						runtime.Goexit()
					}
					return reconciler.Result{}, nil
				})
				w.write(row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
				w.start()
				w.pass(time.Second)
				w.delete("b")
				w.pass(5 * time.Second)
				w.wantConverged()
				if first {
					t.Errorf("no %s", op)
				}
				w.stop()
			})
		})
	}
}

func TestStuckInitIsReportedAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hurried(1)(w)
		release := make(chan struct{})
		w.target.will(ignoring(release, "init"))
		w.write(row{ID: "a", Want: 1})
		w.start()
		w.pass(3 * time.Second)
		if got := w.health.last(); !strings.HasPrefix(got, "degraded: target is not ready: stuck") {
			t.Errorf("health: %s", got)
		}
		w.wantLog("init")
		close(release)
		w.pass(5 * time.Second)
		w.wantConverged()
		w.stop()
	})
}

func TestStopDoesNotWaitForAStuckInit(t *testing.T) {
	for _, wait := range []time.Duration{0, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			hurried(1)(w)
			release := make(chan struct{})
			w.target.will(ignoring(release, "init"))
			w.start()
			w.pass(wait)
			w.cancel()
			err := <-w.ended
			var stuck *reconciler.StuckError
			if !errors.As(err, &stuck) || !bytes.Contains(stuck.Stack, []byte("ignoring")) {
				t.Errorf("%v is no StuckError with a stack", err)
			}
			close(release)
		})
	}
}
