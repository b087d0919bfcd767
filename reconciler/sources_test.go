package reconciler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

// impatient is a world that waits ten seconds for sources.
func impatient(w *world) {
	w.config.SourceTimeout = 10 * time.Second
	promise := w.target.promise
	w.target.promise = func(c call, txn statedb.ReadTxn, r row) string {
		fault, want := promise(c, txn, r), "before late is initialized"
		if fault == want && c.op == "update" {
			return ""
		}
		return fault
	}
}

func TestSourceThatIsTooLateIsNotWaitedForAnyLonger(t *testing.T) {
	var late *statedb.Source
	prepared(t, func(w *world) {
		impatient(w)
		late = w.source("late")
		w.target.is["old"] = 1
		w.write(row{ID: "a", Want: 1})
	}, func(_ *testing.T, w *world) {
		w.pass(9 * time.Second)
		w.wantLog()
		w.equal("waiting for", []string{"late"}, w.r.Summary(w.db.ReadTxn()).WaitingFor)
		w.equal("cause", "sources", w.explain("a").WaitsFor[0].Cause)
		w.pass(time.Second)
		w.wantLog("init", "update a=1")
		w.put(row{ID: "a", Want: 2})
		w.fullPass()
		w.wantLog("update a=2", "update a=2") // and no orphan is removed
		const why = "has delivered nothing within 10s"
		s := w.r.Summary(w.db.ReadTxn())
		w.equal("incomplete", map[string]string{"late": why}, s.Incomplete)
		w.equal("waiting for", 0, len(s.WaitingFor))
		w.equal("health", "ok: removal of orphans is held: late: "+why, w.health.last())
		w.update(late.Initialized)
		synctest.Wait()
		w.wantLog("observe", "delete old")
		w.wantConverged()
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestEachSourceHasItsOwnTime(t *testing.T) {
	prepared(t, func(w *world) {
		impatient(w)
		w.source("late")
	}, func(_ *testing.T, w *world) {
		w.pass(10 * time.Second)
		w.wantLog("init")
		w.pass(time.Hour)
		other := w.source("other") // comes while the reconciler runs
		w.put(row{ID: "a", Want: 1})
		w.pass(9 * time.Second)
		w.wantLog()
		w.equal("health", "degraded: waiting for sources: other", w.health.last())
		w.update(other.Initialized)
		synctest.Wait()
		w.wantLog("update a=1")
		w.source("later")
		w.put(row{ID: "a", Want: 2})
		w.pass(9 * time.Second)
		w.wantLog()
		w.pass(time.Second)
		w.wantLog("update a=2")
	})
}
