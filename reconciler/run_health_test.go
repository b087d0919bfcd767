package reconciler_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestHealthFollowsTheRows(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		seen := len(w.health.since(0))
		w.target.will(outcomes(errBoom, nil))
		w.put(row{ID: "a", Want: 1})
		w.pass(time.Minute)
		w.equal("one short failure", []string{}, w.health.since(seen))

		w.target.will(failing("a", "b"))
		w.put(row{ID: "a", Want: 2})
		w.pass(time.Minute)
		w.put(row{ID: "b", Want: 2}, row{ID: "c", Want: 2})
		w.pass(time.Minute)
		w.put(row{ID: "a", Want: 3}) // still failing: no news
		w.pass(time.Minute)
		w.target.will(failing("b"))
		w.pass(time.Minute)
		w.target.will(nil)
		w.delete("b")
		w.pass(time.Minute)
		w.equal("reports", []string{
			"degraded: rows in error: 1: update a: boom",
			"degraded: rows in error: 2: update of 2 rows: boom (a, b)",
			"degraded: rows in error: 1: update b: boom",
			"ok: reconciled",
		}, w.health.since(seen))
	})
}

func TestHealthKeepsToTheFirstError(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			return reconciler.Result{}, errors.New(c.id + " fails")
		})
		w.put(row{ID: "m"})
		w.pass(time.Minute)
		w.put(row{ID: "a"})
		w.pass(time.Minute)
		w.put(row{ID: "z"})
		w.pass(time.Minute)
		w.equal("health", "degraded: rows in error: 3: update of 3 rows: <key> fails (m, a, z)", w.health.last())
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id != "z" {
				return reconciler.Result{}, nil
			}
			return reconciler.Result{}, errBoom
		})
		w.pass(2 * time.Minute)
		w.equal("health", "degraded: rows in error: 1: update z: boom", w.health.last())
	})
}

func TestLongWaitAfterOneFailureIsNews(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(outcomes(reconciler.RetryAfter(time.Hour, errBoom), nil))
		w.put(row{ID: "a", Want: 1})
		w.equal("health", "degraded: rows in error: 1: update a: boom", w.health.last())
		w.pass(2 * time.Hour)
		w.equal("health", "ok: reconciled", w.health.last())
		w.target.will(outcomes(reconciler.Terminal(errBoom)))
		w.put(row{ID: "a", Want: 2})
		w.equal("health", "degraded: rows in error: 1: update a: boom", w.health.last())
		w.fullPass()
		w.equal("health", "degraded: rows in error: 1: update a: boom", w.health.last())
	})
}

func TestSummaryCounts(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			switch c.id {
			case "bad", "gone":
				return reconciler.Result{}, reconciler.RetryAfter(time.Hour, errBoom)
			case "slow":
				take(time.Hour)
			}
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "gone"}, row{ID: "good"}, row{ID: "bad"})
		success := time.Now()
		w.pass(time.Second)
		w.delete("gone")
		w.put(row{ID: "slow"})
		got := w.r.Summary(w.db.ReadTxn())
		if !got.LastSuccess.Equal(success) {
			w.t.Errorf("last success %v, want %v", got.LastSuccess, success)
		}
		got.LastSuccess = time.Time{}
		w.equal("summary", reconciler.Summary{Name: "rows", Table: "rows", Rows: 3, Done: 1, Pending: 1, Error: 1, Deleting: 1}, got)
		w.pass(time.Hour)
	})
}

func TestStatusThatCannotBeWrittenIsAnErrorOfThatRowAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table := must(statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[*pointerRow]{
			Name: "pointers", Primary: statedb.NewIndex("id", func(r *pointerRow) string { return r.id }),
		})))
		health := &healthLog{}
		r := must(reconciler.New(reconciler.Params[*pointerRow]{
			DB: db, Table: table, Target: noTarget{}, Health: health, Logger: slog.New(slog.DiscardHandler),
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		err := db.Update(ctx, func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, &pointerRow{id: "good"})
			_, _, errBad := table.Insert(txn, &pointerRow{id: "bad"})
			return errors.Join(err, errBad)
		}, table)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := r.Summary(db.ReadTxn()); s.Done != 1 || s.Pending != 1 {
			t.Errorf("%+v, want 1 done and 1 pending", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := health.last(); !strings.Contains(got, "write status: ") {
			t.Errorf("health %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
