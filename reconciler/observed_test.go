package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// sighting is what was observed of a row.
type sighting struct {
	ID string
	Is int
}

var sightingByID = statedb.NewIndex("id", func(s sighting) string { return s.ID })

// watchful is a world whose rows are compared with a table of sightings. Nobody
// fills it but the test.
type watchful struct {
	*world
	seen   *statedb.RWTable[sighting]
	panics string // the row that cannot be compared
}

func withSightings(w *world) *watchful {
	o := &watchful{world: w, seen: must(statedb.NewTable(w.db, statedb.Schema[sighting]{Name: "seen", Primary: sightingByID}))}
	w.sights = o
	w.params = func(p *reconciler.Params[row]) {
		p.Observed = reconciler.Observes(statedb.ReadOnly(o.seen), func(_ statedb.ReadTxn, s sighting) iter.Seq[statedb.Query[row]] {
			return byIDs(s.ID)
		}, o.compare)
	}
	return o
}

func (o *watchful) compare(txn statedb.ReadTxn, want row) []reconciler.Change {
	if want.ID == o.panics {
		panic("out of cheese")
	}
	switch s, _, found := o.seen.Get(txn, sightingByID.Query(want.ID)); {
	case !found:
		return []reconciler.Change{{Field: "row", Is: "absent", Want: "present"}}
	case s.Is != want.Want:
		return []reconciler.Change{{Field: "value", Is: fmt.Sprint(s.Is), Want: fmt.Sprint(want.Want)}}
	}
	return nil
}

// watching runs a test with rows a, b and c that are done, and seen to be so.
func watching(t *testing.T, prepare func(o *watchful), test func(t *testing.T, o *watchful)) {
	t.Helper()
	var o *watchful
	prepared(t, func(w *world) {
		o = withSightings(w)
		if prepare != nil {
			prepare(o)
		}
		w.write(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
		o.sight(sighting{"a", 1}, sighting{"b", 1}, sighting{"c", 1})
	}, func(t *testing.T, w *world) {
		w.pass(time.Hour)
		w.target.log()
		test(t, o)
	})
}

func (o *watchful) sight(s ...sighting) {
	o.t.Helper()
	insert(o.t, o.db, o.seen, s...)
}

// see writes what is observed, and lets the reconciler do what it can at once.
func (o *watchful) see(s ...sighting) {
	o.t.Helper()
	o.sight(s...)
	synctest.Wait()
}

func (o *watchful) miss(id string) {
	o.t.Helper()
	remove(o.t, o.db, o.seen, sighting{ID: id})
	synctest.Wait()
}

// breaks changes what is there behind the reconciler's back, and shows it.
func (o *watchful) breaks(id string, is int) {
	o.t.Helper()
	o.target.corrupt(id, is)
	o.see(sighting{id, is})
}

func (o *watchful) wantDrift(n int) {
	o.t.Helper()
	o.equal("drift", n, o.metrics().drift)
}

func (o *watchful) explain(id string) reconciler.Explanation {
	o.t.Helper()
	return must(o.r.Explain(context.Background(), id))
}

func TestDriftIsRepairedAtOnce(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.breaks("a", 7)
		o.wantLog("update a=1")
		o.wantDrift(1)
		o.see(sighting{"a", 1})

		o.target.vanish("b")
		o.miss("b")
		o.wantLog("update b=1")
		o.wantDrift(2)
		o.see(sighting{"b", 1})
		o.wantConverged()

		o.pass(time.Hour)
		o.wantLog()
		o.equal("items", 0, len(o.r.Items()))
	})
}

func TestRepairOfDriftSaysWhyItRuns(t *testing.T) {
	watching(t, nil, func(t *testing.T, o *watchful) {
		o.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, errBoom
		})
		o.breaks("a", 7)
		o.equal("reasons", "drift", o.explain("a").Reasons)
		o.pass(time.Second)
		o.equal("reasons of the failure", "drift", o.explain("a").LastAttempts[0].Reasons)
		o.target.will(nil)
		o.see(sighting{"a", 1})
		o.pass(time.Minute)
		o.wantStatus("a", "done")
	})
}

func TestDriftThatTheRateLimitDelaysIsReported(t *testing.T) {
	watching(t, nil, func(t *testing.T, o *watchful) {
		if err := o.r.SetLimits(reconciler.Limits{Limiter: rate.NewLimiter(rate.Every(time.Minute), 1)}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b", "c"} {
			o.breaks(id, 7)
		}
		o.wantLog("update a=1")
		o.see(sighting{"a", 1})
		for _, id := range []string{"b", "c"} {
			o.wantStatus(id, "pending")
		}
		const delayed = "degraded: repairs are delayed: rows that differ from the observed state wait for the rate limit"
		o.equal("health", delayed, o.health.last())
		o.equal("waits for", "rate", o.explain("c").WaitsFor[0].Cause)

		o.breaks("c", 1) // someone else repairs it
		o.pass(time.Second)
		o.wantStatus("c", "done")
		o.equal("health", delayed, o.health.last())
		o.pass(time.Minute)
		o.wantLog("update b=1")
		o.see(sighting{"b", 1})
		o.pass(time.Second)
		o.wantConverged()
		o.equal("health", "ok: reconciled", o.health.last())
		o.wantDrift(2)

		// A row that has just been applied is given the time to be observed.
		o.pass(time.Hour)
		o.breaks("a", 7)
		o.wantLog("update a=1")
		o.pass(time.Second / 2)
		o.see(sighting{"a", 7})
		o.wantStatus("a", "done")
		o.pass(time.Second)
		o.wantStatus("a", "pending")
		o.equal("health", delayed, o.health.last())
		o.pass(time.Minute)
		o.wantLog("update a=1")
	})
}

func TestDriftIsOnlyReportedIfThatIsThePolicy(t *testing.T) {
	report := func(o *watchful) { o.config.Drift.Policy = reconciler.DriftReport }
	watching(t, report, func(t *testing.T, o *watchful) {
		o.breaks("a", 7)
		o.breaks("a", 8)
		o.pass(time.Hour)
		o.wantLog()
		o.wantDrift(1)
		want := []reconciler.NotDone{{
			Reconciler: "rows", Table: "rows", Key: "a", Operation: "update", State: "drift", Reasons: "drift",
			WaitsFor: `drift: value is "8", not "1"; drift is only reported`,
		}}
		o.equal("not done", want, o.notDoneRows())
		o.equal("health", "degraded: rows that differ from the observed state: a", o.health.last())
		o.equal("waits for", want[0].WaitsFor, o.explain("a").WaitsFor[0].Text)
		o.wantStatus("a", "pending")
		table := o.askTable()
		o.wantAsked("waiting", table)

		o.see(sighting{"a", 1}) // someone else has repaired it
		o.pass(time.Second)
		o.wantStatus("a", "done")
		o.wantAsked("<nil>", table)
		o.equal("not done", []reconciler.NotDone{}, o.notDoneRows())
		o.equal("health", "ok: reconciled", o.health.last())
		o.wantLog()

		o.breaks("b", 7)
		o.wantDrift(2)
		o.fullPass()
		o.see(sighting{"b", 1})
		o.pass(time.Minute)
		o.wantConverged()
	})
}

func TestPausedDriftIsNotRepairedByTheEndOfThePauseIfItIsOnlyReported(t *testing.T) {
	report := func(o *watchful) { o.config.Drift.Policy = reconciler.DriftReport }
	watching(t, report, func(t *testing.T, o *watchful) {
		if err := o.r.Pause(t.Context(), reconciler.Selector[row]{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		o.breaks("a", 7)
		o.pass(time.Second)
		o.equal("state", "paused", o.notDoneRows()[0].State)
		if err := o.r.Resume(t.Context(), reconciler.Selector[row]{}); err != nil {
			t.Fatal(err)
		}
		o.pass(time.Minute)
		o.wantLog()
		o.equal("state", "drift", o.notDoneRows()[0].State)
	})
}
