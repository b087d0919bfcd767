package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestNothingRunsBeforeEverySourceIsInitialized(t *testing.T) {
	var files, other *statedb.Source
	prepared(t, func(w *world) {
		files, other = w.source("files"), w.source("other")
		w.target.is["old"] = 1
		w.write(row{ID: "a", Want: 1})
	}, func(_ *testing.T, w *world) {
		w.put(row{ID: "b", Want: 1})
		w.pass(time.Hour)
		w.wantLog()
		w.equal("waiting for", []string{"files", "other"}, w.r.Summary(w.db.ReadTxn()).WaitingFor)
		w.update(files.Initialized)
		w.pass(time.Hour)
		w.wantLog()
		w.equal("health", []string{
			"degraded: waiting for sources: files, other",
			"degraded: waiting for sources: other",
		}, w.health.since(0))
		w.update(other.Initialized)
		synctest.Wait()
		w.wantLog("init", "update a=1", "update b=1", "observe", "delete old")
		w.wantConverged()
		w.equal("health", []string{"ok: applying all rows for the first time", "ok: reconciled"}, w.health.since(2))
	})
}

func TestSourceThatComesLateStopsOperationsUntilItIsInitialized(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.log()
		late, later := w.source("late"), w.source("later")
		w.put(row{ID: "a", Want: 2})
		w.fullPass()
		w.pass(time.Hour)
		w.update(later.Initialized)
		synctest.Wait()
		w.wantLog()
		w.equal("health", "degraded: waiting for sources: late", w.health.last())
		w.update(late.Initialized)
		synctest.Wait()
		w.wantLog("update a=2", "observe")
		w.wantConverged()
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestInitIsRepeatedUntilItSucceeds(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errBoom },
		"panic": func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			prepared(t, func(w *world) {
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					if c.op == "init" {
						return reconciler.Result{}, fail()
					}
					return reconciler.Result{}, nil
				})
				w.write(row{ID: "a", Want: 1})
			}, func(t *testing.T, w *world) {
				w.pass(2 * time.Second)
				if got := w.health.last(); !strings.HasPrefix(got, "degraded: target is not ready: ") {
					t.Errorf("health %q", got)
				}
				w.wantGaps("\x00init", 100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond)
				w.target.will(nil)
				w.pass(time.Minute)
				w.wantLog("init", "update a=1", "observe")
				w.equal("health", "ok: reconciled", w.health.last())
			})
		})
	}
}

func TestStopWhileInitFailsOrHangs(t *testing.T) {
	prepared(t, func(w *world) {
		w.target.will(func(ctx context.Context, _ call) (reconciler.Result, error) {
			<-ctx.Done()
			return reconciler.Result{}, ctx.Err()
		})
	}, func(_ *testing.T, w *world) {
		w.stop()
		w.wantLog("init")
		w.equal("health", "stopped: stopped", w.health.last())
	})
}

func TestStopWhileWaitingForSources(t *testing.T) {
	prepared(t, func(w *world) { w.source("files") }, func(_ *testing.T, w *world) {
		w.stop()
		w.wantLog()
		w.equal("health", "stopped: stopped", w.health.last())
	})
}

func TestStopLetsRunningOperationsEndAndStartsNoOther(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 2 }, func(t *testing.T, w *world) {
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, ctx.Err()
		})
		w.target.log()
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
		w.write(row{ID: "d", Want: 1})
		w.r.FullPass()
		w.cancel()
		began := time.Now()
		w.stop()
		if took := time.Since(began); took != time.Second {
			t.Errorf("stopped after %v, want 1s", took)
		}
		log := w.target.log()
		slices.Sort(log)
		w.equal("operations", []string{"update a=1", "update b=1"}, log)
		w.wantStatus("a", "done")
		w.wantStatus("b", "done")
		w.wantStatus("c", "pending")
		w.equal("health", "stopped: stopped", w.health.last())
	})
}

func TestStopCancelsOperationsAfterItsTimeout(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.Workers, w.config.StopTimeout = 2, 3*time.Second
	}, func(t *testing.T, w *world) {
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.id == "quick" {
				take(time.Second)
				return reconciler.Result{}, nil
			}
			<-ctx.Done()
			return reconciler.Result{}, context.Cause(ctx)
		})
		w.put(row{ID: "quick", Want: 1}, row{ID: "slow", Want: 1})
		w.cancel()
		began := time.Now()
		w.pass(time.Second)
		w.wantStatus("quick", "done") // is not kept waiting
		w.stop()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("stopped after %v, want 3s", took)
		}
		w.equal("kind", reconciler.Error, w.status("slow").Kind())
		w.wantNotDone(reconciler.NotDone{Key: "slow", Operation: "update", Attempts: 1, LastError: w.status("slow").Err().Error()})
		if !strings.Contains(w.status("slow").String(), "reconciler stops") {
			t.Errorf("status %v", w.status("slow"))
		}
	})
}

func TestStopDuringEachPartOfAFullPass(t *testing.T) {
	for _, prunes := range []bool{false, true} {
		for moment := range 12 {
			prepared(t, func(w *world) {
				w.prunes = prunes
				w.write(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
				w.target.is["old"] = 1
				w.target.will(func(context.Context, call) (reconciler.Result, error) {
					take(time.Second)
					return reconciler.Result{}, nil
				})
			}, func(_ *testing.T, w *world) {
				w.pass(time.Duration(moment) * time.Second / 2)
				w.stop()
				w.target.will(nil)
				w.start()
				w.wantConverged()
			})
		}
	}
}

func TestSecondRunIsRefused(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		if err := w.r.Run(t.Context()); !errors.Is(err, reconciler.ErrStarted) {
			t.Errorf("second Run: %v, want ErrStarted", err)
		}
		w.put(row{ID: "a", Want: 1}) // the first goes on
		w.wantConverged()
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestRunWithAnEndedContextDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.write(row{ID: "a", Want: 1})
		r := must(reconciler.New(reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: observing{w.target}}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if log := w.target.log(); slices.Contains(log, "update a=1") {
			t.Errorf("operations %q", log)
		}
	})
}

func TestWrongParamsAreNamed(t *testing.T) {
	db, other := statedb.New(), statedb.New()
	table := must(statedb.NewTable(db, rowSchema()))
	foreign := must(statedb.NewTable(other, reconciler.NotDoneSchema()))
	plain := must(statedb.NewTable(db, statedb.Schema[row]{Name: "plain", Primary: byID}))
	target := observing{newFake()}
	type params = reconciler.Params[row]
	for want, p := range map[string]params{
		"Params.DB is not set":     {Table: table, Target: target},
		"Params.Table is not set":  {DB: db, Target: target},
		"Params.Target is not set": {DB: db, Table: table},
		"table plain keeps no status: declare it with reconciler.Reconciled(schema)": {DB: db, Table: plain, Target: target},
		"Params.DB: table rows: table belongs to another database":                   {DB: other, Table: table, Target: target},
		"Params.DB: table not-done: table belongs to another database":               {DB: db, Table: table, NotDone: foreign, Target: target},
		"Config.Workers is -1":            {DB: db, Table: table, Target: target, Config: reconciler.Config{Workers: -1}},
		"Config.Workers is 65537":         {DB: db, Table: table, Target: target, Config: reconciler.Config{Workers: 1<<16 + 1}},
		"Limits.RoundSize is -1":          {DB: db, Table: table, Target: target, Config: reconciler.Config{Limits: reconciler.Limits{RoundSize: -1}}},
		"Config.MinBackoff is -1ns":       {DB: db, Table: table, Target: target, Config: reconciler.Config{MinBackoff: -1}},
		"Config.MaxBackoff is -1ns":       {DB: db, Table: table, Target: target, Config: reconciler.Config{MaxBackoff: -1}},
		"Config.StopTimeout is -1ns":      {DB: db, Table: table, Target: target, Config: reconciler.Config{StopTimeout: -1}},
		"Config.SourceTimeout is -1ns":    {DB: db, Table: table, Target: target, Config: reconciler.Config{SourceTimeout: -1}},
		"Config.OperationTimeout is -1ns": {DB: db, Table: table, Target: target, Config: reconciler.Config{OperationTimeout: -1}},
		"Config.MaxBackoff 1s is less than Config.MinBackoff 2s": {
			DB: db, Table: table, Target: target,
			Config: reconciler.Config{MinBackoff: 2 * time.Second, MaxBackoff: time.Second},
		},
	} {
		p.Name = "mine"
		if _, err := reconciler.New(p); err == nil || !strings.HasPrefix(err.Error(), `reconciler "mine": `+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestOnlyDatabaseTableAndTargetAreRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.write(row{ID: "a", Want: 1})
		txn := must(w.db.WriteTxn(t.Context(), w.table)) // New does not wait for locks
		r := must(reconciler.New(reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: observing{w.target}}))
		txn.Abort()
		w.equal("name", "rows", r.Name())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		w.wantConverged()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestStopWritesWhatIsNotDone(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.pass(150 * time.Millisecond) // within the second after the first write
		w.equal("attempts", 1, w.notDoneRows()[0].Attempts)
		w.stop()
		w.equal("attempts", 2, w.notDoneRows()[0].Attempts)
	})
}

func TestStopWritesOutcomesBeforeItWaits(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 2 }, func(_ *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id == "slow" {
				take(4 * time.Second)
			}
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "quick", Want: 1}, row{ID: "slow", Want: 1})
		w.wantStatus("quick", "pending") // waits for others to be written with it
		w.cancel()
		synctest.Wait()
		w.wantStatus("quick", "done")
		w.stop()
		w.wantConverged()
	})
}

// flipping is a health that makes something happen when it is told of an error.
type flipping struct {
	*healthLog
	then func()
}

func (f flipping) Degraded(message string, err error) {
	f.healthLog.Degraded(message, err)
	f.then()
}

func TestNothingIsMissedBetweenLookingAndWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		source := w.source("files")
		w.update(source.Initialized)
		w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "broken") })
		w.target.is["old"] = 1
		w.target.will(outcomes(reconciler.Terminal(errBoom)))
		// The source becomes complete after the loop has looked at it.
		health := flipping{w.health, func() { w.update(source.Complete) }}
		r := must(reconciler.New(reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: observing{w.target}, Health: health}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		w.put(row{ID: "a"})
		w.wantTarget(map[string]int{})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
