package reconciler_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// taking makes every operation take a time, and those on the ids fail.
func taking(d time.Duration, ids ...string) behavior {
	fails := failing(ids...)
	return func(ctx context.Context, c call) (reconciler.Result, error) {
		take(d)
		return fails(ctx, c)
	}
}

// position returns how many operations came before the first like one, or -1.
func position(calls []call, like string) int {
	for i, c := range calls {
		if c.String() == like {
			return i
		}
	}
	return -1
}

func TestAKeyIsNeverProcessedByTwoWorkersAtOnce(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 16 }, func(t *testing.T, w *world) {
		w.target.will(taking(3*time.Millisecond, "10003", "10004"))
		for i := range 200 {
			w.write(numbered(40, i)...)
			w.erase("10001", "10003")
			w.r.FullPass()
			w.pass(time.Duration(i%7) * time.Millisecond)
		}
		w.target.will(nil)
		w.pass(2 * time.Minute)
		w.wantConverged()
		w.equal("most at one time", 16, w.target.most)
	})
}

func TestStuckKeyDoesNotStopTheOthers(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 2 }, func(t *testing.T, w *world) {
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.id == "10000" {
				<-ctx.Done()
				return reconciler.Result{}, ctx.Err()
			}
			return reconciler.Result{}, nil
		})
		w.put(numbered(1000, 1)...)
		w.put(numbered(1000, 2)...)
		w.pass(time.Second)
		w.equal("done", 999, w.r.Summary(w.db.ReadTxn()).Done)
	})
}

func TestManyWorkersRunTogether(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 16 }, func(t *testing.T, w *world) {
		w.target.will(taking(time.Second))
		w.put(numbered(160, 1)...)
		w.pass(10 * time.Second)
		w.wantConverged()
	})
}

func TestChangeOvertakesAFullPass(t *testing.T) {
	for _, id := range []string{"10000", "11999", "new"} {
		running(t, func(t *testing.T, w *world) {
			w.put(numbered(2000, 1)...)
			w.target.will(taking(time.Millisecond))
			w.r.FullPass()
			w.pass(100 * time.Millisecond)
			w.target.took()
			w.put(row{ID: id, Want: 2})
			w.pass(10 * time.Second)
			if at := position(w.target.took(), "update "+id+"=2"); at < 0 || at > 2 {
				t.Errorf("%s was applied after %d operations", id, at)
			}
			w.wantConverged()
		})
	}
}

func TestChangeOvertakesItsOwnTurnInAFullPass(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(numbered(60, 1)...)
		w.target.will(taking(time.Millisecond))
		w.r.FullPass()
		w.pass(500 * time.Microsecond) // all are made ready
		w.target.took()
		w.put(row{ID: "10059", Want: 2})
		w.pass(time.Second)
		if at := position(w.target.took(), "update 10059=2"); at > 1 {
			t.Errorf("applied after %d operations", at)
		}
		w.wantConverged()
	})
}

func TestChangeOvertakesManyRetries(t *testing.T) {
	prepared(t, func(w *world) { w.config.Limits.RoundSize = 20 }, func(t *testing.T, w *world) {
		ids := make([]string, 200)
		for i := range ids {
			ids[i] = strconv.Itoa(10_000 + i)
		}
		w.target.will(failing(ids...))
		w.put(numbered(len(ids), 1)...)
		w.pass(time.Minute)
		w.target.will(taking(time.Second, ids...)) // more than can be retried
		w.pass(10 * time.Minute)
		w.target.took()
		w.put(row{ID: "new", Want: 1})
		w.pass(time.Minute)
		if at := position(w.target.took(), "update new=1"); at < 0 || at > 13 {
			t.Errorf("applied after %d operations", at)
		}
		w.target.will(nil)
		w.pass(5 * time.Minute)
		w.wantConverged()
	})
}

// saturate changes rows faster than they can be applied, for a number of operations.
func (w *world) saturate(rounds int) {
	for want := range rounds {
		w.write(numbered(100, 10+want)...)
		w.pass(10 * time.Millisecond)
	}
}

func TestChangesDoNotStarveRetries(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(taking(time.Millisecond, "bad"))
		w.put(row{ID: "bad", Want: 1})
		w.saturate(300) // 3 seconds
		if retries := count(w.target.took(), call{op: "update", id: "bad"}); retries < 5 {
			t.Errorf("%d attempts in 3s, want at least 5", retries)
		}
		w.target.will(nil)
		w.pass(5 * time.Minute)
		w.wantConverged()
	})
}

func TestChangesDoNotStarveTheFullPass(t *testing.T) {
	for name, prunes := range map[string]bool{"observe": false, "prune": true} {
		t.Run(name, func(t *testing.T) {
			prepared(t, func(w *world) { w.prunes = prunes }, func(t *testing.T, w *world) {
				w.put(row{ID: "10500", Want: 1})
				w.target.will(taking(time.Millisecond))
				w.target.corrupt("old", 1)
				w.target.corrupt("10500", 2)
				w.r.FullPass()
				full := w.metrics().full
				w.saturate(300)
				if _, there := w.target.state()["old"]; there || w.metrics().full != full+1 {
					t.Errorf("after %d operations the full pass is not over", len(w.target.took()))
				}
				w.equal("out of sync", 2, w.metrics().outOfSync)
				w.pass(time.Minute)
				w.wantConverged()
			})
		})
	}
}

func TestChangesDoNotStarveTheFirstRemovalOfOrphans(t *testing.T) {
	prepared(t, func(w *world) {
		w.target.is["old"] = 1
		w.target.will(taking(time.Millisecond))
	}, func(t *testing.T, w *world) {
		w.saturate(300)
		if _, there := w.target.state()["old"]; there {
			t.Errorf("not removed after %d operations", len(w.target.took()))
		}
		w.pass(time.Minute)
		w.wantConverged()
	})
}

func TestFullPassesDoNotStarveChangesNorRetries(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(numbered(100, 1)...)
		w.target.will(taking(time.Millisecond, "bad"))
		w.put(row{ID: "bad"})
		for range 1000 {
			w.r.FullPass()
			w.pass(3 * time.Millisecond)
		}
		w.target.took()
		w.put(row{ID: "good"})
		w.r.FullPass()
		w.pass(100 * time.Millisecond)
		if at := position(w.target.took(), "update good=0"); at < 0 || at > 2 {
			t.Errorf("applied after %d operations", at)
		}
		w.target.will(nil)
		w.pass(5 * time.Minute)
		w.wantConverged()
	})
}

func TestIdleReconcilerDoesNothing(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "a"})
		source := w.source("files")
		w.update(source.Initialized)
		synctest.Wait() // until health is told, too
		w.target.log()
		revision := w.table.Revision(w.db.ReadTxn())
		health := len(w.health.since(0))
		w.pass(1000 * time.Hour)
		w.wantLog()
		w.equal("revision", revision, w.table.Revision(w.db.ReadTxn()))
		w.equal("health", []string{}, w.health.since(health))
	})
}

func TestLoopSleepsWhenThereIsNothingToDo(t *testing.T) {
	// A busy loop never lets a bubble rest: Wait would not return. So each of
	// these moments shows that the loop waits there.
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		source := w.source("files")
		w.config.Limits.RoundSize, w.config.Workers = 2, 2
		w.start()
		w.put(numbered(10, 1)...) // not initialized
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			<-ctx.Done()
			return reconciler.Result{}, ctx.Err()
		})
		w.update(source.Initialized)
		synctest.Wait() // Init hangs
		w.pass(29 * time.Second)
		w.put(numbered(10, 2)...)
		w.target.will(nil)
		w.pass(time.Minute)
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			<-ctx.Done()
			return reconciler.Result{}, ctx.Err()
		})
		w.put(numbered(10, 3)...) // more than a round waits
		w.delete("10009")
		w.fullPass()
		w.put(numbered(9, 4)...)
		w.source("late") // and now nothing may run
		synctest.Wait()
		w.put(numbered(9, 5)...)
		w.pass(2 * time.Minute)
		w.equal("done", 0, w.r.Summary(w.db.ReadTxn()).Done)
		w.stop()
	})
}
