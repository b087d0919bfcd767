package reconciler_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// class returns the stats of a priority class.
func (w *world) class(name string) reconciler.ClassStats {
	w.t.Helper()
	queue := w.r.Stats().Queue
	i := slices.IndexFunc(queue, func(l reconciler.ClassStats) bool { return l.Class == name })
	if i < 0 {
		w.t.Fatalf("no class %s in %v", name, queue)
	}
	return queue[i]
}

func (w *world) wantClass(name string, depth int, oldest time.Duration) {
	w.t.Helper()
	w.equal("class", reconciler.ClassStats{Class: name, Depth: depth, Oldest: oldest}, w.class(name))
}

// wantIdle checks that nothing is queued, held or running.
func (w *world) wantIdle() {
	w.t.Helper()
	s := w.latest().Stats()
	for _, l := range s.Queue {
		if l.Depth != 0 || l.Oldest != 0 {
			w.t.Errorf("idle, but %+v", l)
		}
	}
	for why, rows := range s.Held {
		if rows != 0 {
			w.t.Errorf("idle, but %d rows are held: %s", rows, why)
		}
	}
	if s.Errors+s.Deleting+s.Delayed+s.Running+s.Stuck != 0 || s.LongestRunning != 0 {
		w.t.Errorf("idle, but %+v", s)
	}
}

// held returns what is held, without what is not.
func (w *world) held() map[string]int {
	held := w.r.Stats().Held
	maps.DeleteFunc(held, func(_ string, rows int) bool { return rows == 0 })
	return held
}

func TestStatsAddUpWhatWasDone(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		before := w.r.Stats()
		w.target.will(outcomes(errBoom, errBoom, nil))
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
		w.pass(time.Minute)
		success := time.Now()
		w.target.corrupt("a", 7)
		w.target.corrupt("old1", 1)
		w.target.corrupt("old2", 1)
		w.fullPass()
		s := w.r.Stats()
		w.equal("incremental", uint64(5), s.Incremental.Count-before.Incremental.Count)
		w.equal("errors", uint64(2), s.IncrementalErrors)
		w.equal("retries", uint64(2), s.Retries)
		w.equal("full", uint64(1), s.Full.Count-before.Full.Count)
		w.equal("out of sync", uint64(3), s.OutOfSync)
		w.equal("pruned", uint64(2), s.Pruned)
		w.equal("prune", uint64(1), s.Prune.Count-before.Prune.Count)
		w.equal("failures", uint64(0), s.FullErrors+s.PruneErrors)
		if !s.LastSuccess.Equal(success) {
			t.Errorf("last success %v, want %v", s.LastSuccess, success)
		}

		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id == "b" || c.op == "observe" {
				return reconciler.Result{}, errBoom
			}
			return reconciler.Result{}, nil
		})
		w.target.corrupt("b", 7)
		w.fullPass()
		s = w.r.Stats()
		w.equal("errors of the full pass", uint64(2), s.FullErrors)
		w.equal("of them of the search for orphans", uint64(1), s.PruneErrors)
		w.target.will(nil)
		w.pass(time.Minute)
		w.wantIdle()
	})
}

func TestStatsOfATargetThatIsPruned(t *testing.T) {
	prepared(t, func(w *world) { w.prunes = true }, func(_ *testing.T, w *world) {
		w.target.corrupt("old1", 1)
		w.target.corrupt("old2", 1)
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "prune" {
				take(3 * time.Second)
			}
			return reconciler.Result{}, nil
		})
		before := w.r.Stats().Prune
		w.fullPass()
		w.equal("running", 1, w.r.Stats().Running)
		w.pass(3 * time.Second)
		s := w.r.Stats()
		w.equal("pruned", uint64(2), s.Pruned)
		w.equal("out of sync", uint64(2), s.OutOfSync)
		w.equal("prune", []any{uint64(1), 3 * time.Second}, []any{s.Prune.Count - before.Count, s.Prune.Sum - before.Sum})
	})
}

func TestDurationsCountUpToTheirBounds(t *testing.T) {
	for _, took := range []time.Duration{
		0, time.Microsecond, 10 * time.Microsecond, 10*time.Microsecond + 1, 40 * time.Microsecond, 40*time.Microsecond + 1,
		time.Millisecond, 20 * time.Second, 10 * time.Microsecond << 26, 10*time.Microsecond<<26 + 1, 24 * time.Hour,
	} {
		prepared(t, func(w *world) { w.config.OperationTimeout = 48 * time.Hour }, func(t *testing.T, w *world) {
			w.target.will(func(context.Context, call) (reconciler.Result, error) {
				take(took)
				return reconciler.Result{}, nil
			})
			w.put(row{ID: "a"})
			w.pass(took)
			d := w.r.Stats().Incremental
			if d.Count != 1 || d.Sum != took || len(d.Within) != 14 {
				t.Errorf("took %v: %+v", took, d)
			}
			for bound, n := range d.Within {
				if (took <= bound) != (n == 1) {
					t.Errorf("%d are not longer than %v, which took %v", n, bound, took)
				}
			}
		})
	}
}

func TestStatsSayHowLongRowsWaitInEachClass(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a"}, row{ID: "b"}, row{ID: "c"}, row{ID: "d"})
		w.wantIdle()
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "update" {
				take(10 * time.Second)
			}
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "a", Want: 1})
		w.pass(time.Second) // the round is given up: each is an item
		w.put(row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
		must(w.r.Trigger(w.t.Context(), reconciler.Selector[row]{Keys: []string{"d"}}))
		w.pass(2 * time.Second)
		w.wantClass("change", 2, 2*time.Second)
		w.wantClass("manual", 1, 2*time.Second-10*time.Millisecond) // after the round
		w.wantClass("retry", 0, 0)
		w.wantClass("refresh", 0, 0)
		s := w.r.Stats()
		w.equal("running", []any{1, 1, 3 * time.Second}, []any{s.Workers, s.Running, s.LongestRunning})
		w.pass(time.Minute)
		w.wantIdle()
		w.fullPass()
		w.pass(time.Second)
		w.wantClass("refresh", 3, time.Second)
		w.pass(time.Minute)
		w.wantIdle()
	})
}

func TestStatsCountWhatWasNotReadFromTheFeed(t *testing.T) {
	prepared(t, func(w *world) { w.config.Limits.RoundSize = 10 }, func(_ *testing.T, w *world) {
		w.target.will(takeASecond)
		w.put(row{ID: "a"})
		w.put(numbered(100, 1)...)
		w.pass(500 * time.Millisecond)
		w.wantClass("change", 100, 500*time.Millisecond)
		w.pass(2 * time.Second) // two of them and a
		// Statuses are changes too, which turn out to need nothing.
		if l := w.class("change"); l.Depth < 98 || l.Depth > 101 || l.Oldest != 2500*time.Millisecond {
			w.t.Errorf("%+v", l)
		}
		w.pass(2 * time.Minute)
		w.wantIdle()
	})
}

func TestStatsCountWhatIsStillToBeListedAtTheStart(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.Limits.RoundSize = 10
		w.write(numbered(100, 1)...)
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "update" {
				take(time.Second)
			}
			return reconciler.Result{}, nil
		})
	}, func(_ *testing.T, w *world) {
		w.pass(500 * time.Millisecond)
		w.wantClass("change", 99, 500*time.Millisecond)
		w.pass(10 * time.Second)
		if l := w.class("change"); l.Depth < 89 || l.Depth > 100 || l.Oldest != 10500*time.Millisecond {
			w.t.Errorf("%+v", l)
		}
		w.pass(2 * time.Minute)
		w.wantIdle()
	})
}

func TestStatsOfRetriesSayHowLateTheyAre(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(outcomes(reconciler.RetryAfter(time.Second, errBoom), nil))
		w.put(row{ID: "a", Want: 1})
		w.equal("delayed", 1, w.r.Stats().Delayed)
		w.equal("errors", 1, w.r.Stats().Errors)
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(10 * time.Second)
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "b", Want: 1})
		w.pass(4 * time.Second)
		w.wantClass("retry", 1, 3*time.Second)
		w.equal("delayed", 0, w.r.Stats().Delayed)
		w.pass(time.Minute)
		w.wantIdle()
	})
}

func TestStatsCountWhatIsHeldByWhatHoldsIt(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(numbered(40, 1)...)
		w.equal("held", map[string]int{}, w.held())
		w.equal("all causes", []string{"dependency", "drift", "limit", "order", "paused"}, slices.Sorted(maps.Keys(w.r.Stats().Held)))
		pausedKeys := reconciler.Selector[row]{Keys: []string{"10000", "10001"}}
		if err := w.r.Pause(w.t.Context(), pausedKeys, time.Time{}); err != nil {
			w.t.Fatal(err)
		}
		w.put(row{ID: "10000", Want: 2}, row{ID: "10001", Want: 2})
		w.equal("held", map[string]int{"paused": 2}, w.held())
		w.equal("health", "ok: reconciled, except for paused rows", w.health.last())
		var ids []string
		for _, r := range numbered(40, 1)[10:30] {
			ids = append(ids, r.ID)
		}
		w.delete(ids...)
		w.equal("held", map[string]int{"paused": 2, "limit": 20}, w.held())
		w.equal("deleting", 20, w.r.Stats().Deleting)
		w.put(row{ID: ids[0], Want: 1})
		w.equal("held", map[string]int{"paused": 2, "limit": 19}, w.held())
		plan := must(w.r.Plan(w.t.Context()))
		if err := w.r.Approve(w.t.Context(), plan.ID); err != nil {
			w.t.Fatal(err)
		}
		synctest.Wait()
		w.equal("held", map[string]int{"paused": 2}, w.held())
		if err := w.r.Resume(w.t.Context(), pausedKeys); err != nil {
			w.t.Fatal(err)
		}
		w.pass(time.Minute)
		w.wantIdle()
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestStatsOfStuckOperations(t *testing.T) {
	prepared(t, hurried(2), func(_ *testing.T, w *world) {
		release := make(chan struct{})
		w.target.will(ignoring(release, "a"))
		w.put(row{ID: "a"})
		w.pass(time.Second)
		w.equal("overdue", []any{1, 0}, []any{w.r.Stats().Running, w.r.Stats().Stuck})
		w.pass(9 * time.Second)
		s := w.r.Stats()
		w.equal("stuck", []any{2, 1, 1, 10 * time.Second}, []any{s.Workers, s.Running, s.Stuck, s.LongestRunning})
		close(release)
		w.pass(2 * time.Second)
		w.wantIdle()
	})
}

func TestStatsDoNotWaitForAReconcilerThatHangs(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(takeASecond)
		w.put(row{ID: "a", Want: 1})
		txn := must(w.db.WriteTxn(w.t.Context(), w.table))
		go func() {
			take(time.Hour) // nobody can write the table meanwhile
			txn.Abort()
		}()
		take(time.Second) // its status cannot be written
		before := time.Now()
		take(30 * time.Minute)
		s := w.r.Stats()
		w.equal("idle", []any{0, 0}, []any{s.Running, s.Queue[0].Depth})
		if waited := time.Since(before); waited != 30*time.Minute {
			w.t.Errorf("it took %v", waited-30*time.Minute)
		}
		w.pass(time.Hour)
		w.wantConverged()
	})
}

func TestStatsOutlastTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "init" || c.id == "bad" {
				return reconciler.Result{}, errBoom
			}
			return reconciler.Result{}, nil
		})
		w.write(row{ID: "a"}, row{ID: "bad"})
		w.start()
		w.wantIdle() // the target is not ready
		w.target.will(failing("bad"))
		w.pass(10 * time.Second)
		before := w.r.Stats()
		if before.Incremental.Count < 5 || before.Errors != 1 || before.Delayed != 1 {
			t.Errorf("%+v", before)
		}
		w.stop()
		after := w.r.Stats()
		want := before
		want.Delayed = 0
		if diff := cmp.Diff(want, after); diff != "" {
			t.Error(diff)
		}
		w.write(row{ID: "b"})
		if depth := w.r.Stats().Queue[0].Depth; depth != 0 {
			t.Errorf("%d rows are queued for ever", depth)
		}
	})
}

// Scraping must not race with workers that are replaced.
func TestStatsCanBeReadWhileEverythingChanges(t *testing.T) {
	prepared(t, hurried(3), func(_ *testing.T, w *world) {
		stop := make(chan struct{})
		for range 2 {
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(7 * time.Millisecond):
						_ = w.r.Stats()
					}
				}
			}()
		}
		for i := range 5 {
			release := make(chan struct{})
			w.target.will(ignoring(release, "10000", "10001", "10002"))
			w.put(numbered(30, i)...)
			w.pass(3 * time.Second)
			w.update(func(txn *statedb.WriteTxn) error {
				_, _, err := w.table.Insert(txn, row{ID: "new", Want: i})
				return err
			})
			close(release)
			w.pass(time.Second)
		}
		close(stop)
		w.pass(time.Minute)
		w.wantConverged()
		w.wantIdle()
	})
}
