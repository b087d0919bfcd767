package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// The feed of observations is slow: what arrives after an update is older than the update.
func TestOutdatedObservationsAreNotDrift(t *testing.T) {
	watching(t, nil, func(t *testing.T, o *watchful) {
		o.put(row{ID: "a", Want: 2})
		o.wantLog("update a=2")
		o.pass(500 * time.Millisecond)
		o.see(sighting{"a", 0}) // of long ago
		o.pass(300 * time.Millisecond)
		o.see(sighting{"a", 2})
		o.pass(time.Hour)
		o.wantLog()
		o.wantDrift(0)

		// Later than anybody expects: an Update without an effect, and no more of them.
		o.see(sighting{"a", 1})
		o.wantLog("update a=2")
		o.see(sighting{"a", 2})
		o.pass(time.Hour)
		o.wantLog()
		o.wantConverged()
		o.wantDrift(1)
	})
}

func TestOutdatedObservationsOfADeletedRowDoNothing(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.delete("a")
		o.wantLog("delete a")
		o.see(sighting{"a", 1}, sighting{"stranger", 1})
		o.miss("a")
		o.pass(time.Hour)
		o.wantLog()
		o.wantConverged()
		o.equal("items", 0, len(o.r.Items()))
	})
}

func TestRepairIsNotRepeatedBeforeItCanBeSeen(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.target.corrupt("a", 7)
		o.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(10 * time.Millisecond)
			return reconciler.Result{}, nil
		})
		o.see(sighting{"a", 6})
		o.see(sighting{"a", 7}) // while it is being repaired
		o.pass(900 * time.Millisecond)
		o.wantLog("update a=1")
		o.see(sighting{"a", 1})
		o.pass(time.Hour)
		o.wantLog()
		o.wantDrift(1)
	})
}

func TestFullPassRepairsWhatWasObservedWrongly(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.target.corrupt("a", 7) // nobody has seen it
		o.see(sighting{"a", 1})
		o.pass(time.Hour)
		o.wantLog()
		o.fullPass()
		o.wantConverged()
		o.equal("out of sync", 1, o.metrics().outOfSync)
		o.wantDrift(0)
	})
}

// What a full pass changes is seen late as well.
func TestOutdatedObservationsAreNotDriftAfterAFullPass(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.target.corrupt("a", 7)
		o.fullPass()
		o.target.log()
		o.see(sighting{"a", 7})
		o.pass(500 * time.Millisecond)
		o.see(sighting{"a", 1})
		o.pass(time.Hour)
		o.wantLog()
		o.wantDrift(0)
	})
}

func TestNothingIsComparedWithAnIncompleteTable(t *testing.T) {
	var source *statedb.Source
	tell := func(o *watchful, fn func(txn *statedb.WriteTxn) error) {
		o.t.Helper()
		if err := o.db.Update(t.Context(), fn, o.seen); err != nil {
			o.t.Fatal(err)
		}
		o.pass(time.Minute)
	}
	late := func(o *watchful) {
		tell(o, func(txn *statedb.WriteTxn) (err error) {
			source, err = o.seen.RegisterSource(txn, "kernel")
			return err
		})
	}
	watching(t, late, func(_ *testing.T, o *watchful) {
		o.miss("a")
		o.pass(time.Minute)
		o.wantLog()
		tell(o, source.Initialized)
		o.equal("first operation", "update a=1", o.target.log()[0])
		o.see(sighting{"a", 1})
		o.pass(time.Hour)
		o.wantLog()

		tell(o, func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "events were lost") })
		o.miss("b")
		o.miss("c")
		o.pass(time.Minute)
		o.wantLog()
		o.sight(sighting{"b", 1})
		tell(o, source.Complete)
		o.equal("first operation", "update c=1", o.target.log()[0])
	})
}

func TestDriftBeforeTheStartIsFound(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.stop()
		o.target.vanish("a")
		remove(o.t, o.db, o.seen, sighting{ID: "a"})
		o.start()
		o.equal("operations", []string{"init", "observe", "update a=1"}, slices.Sorted(slices.Values(o.target.log())))
	})
}

// Between the operation and the commit of its status a row is not done.
func TestDriftOfARowInHandIsNotLost(t *testing.T) {
	for _, in := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond} {
		watching(t, nil, func(_ *testing.T, o *watchful) {
			o.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
				take(10 * time.Millisecond)
				return reconciler.Result{}, nil
			})
			o.put(row{ID: "a", Want: 2}, row{ID: "b", Want: 2})
			o.pass(11 * time.Millisecond) // a was updated, and has no status yet
			o.breaks("a", 7)
			o.pass(in)
			o.pass(3 * time.Second)
			o.see(sighting{"a", 2}, sighting{"b", 2})
			o.pass(time.Minute)
			o.wantConverged()
		})
	}
}

func TestDriftDoesNotTakeAwayWhatATargetAskedFor(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.target.will(func(context.Context, call) (reconciler.Result, error) {
			return reconciler.Result{Again: time.Minute}, nil
		})
		o.put(row{ID: "a", Want: 2})
		o.see(sighting{"a", 2})
		o.pass(10 * time.Second)
		o.target.log()
		o.breaks("a", 7)
		o.wantLog("update a=2")
		o.see(sighting{"a", 2})
		o.pass(61 * time.Second)
		o.wantLog("update a=2")
	})
}

// What is observed may be behind when a row that its target wants again is run for
// that, and then be right by accident, without a change that reports it.
func TestARowIsComparedUntilItAgrees(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.target.will(func(context.Context, call) (reconciler.Result, error) {
			return reconciler.Result{Again: 1100 * time.Millisecond}, nil
		})
		o.put(row{ID: "a", Want: 2})
		o.target.will(nil)
		o.pass(1050 * time.Millisecond) // the row is compared, with 1, and run again
		o.wantLog("update a=2", "update a=2")
		o.target.corrupt("a", 1)
		o.pass(time.Minute)
		o.see(sighting{"a", 2})
		o.equal("repaired", 2, o.target.state()["a"])
		o.wantStatus("a", "done")
	})
}

func TestRowsThatDriftAgainAndAgainAreSlowedAndReported(t *testing.T) {
	watching(t, nil, func(t *testing.T, o *watchful) {
		// Someone undoes every repair, and it is seen at once.
		o.breaks("a", 7)
		o.pass(20 * time.Minute)
		if len(o.notDoneRows()) == 0 { // the last repair was just now, and is being compared
			o.pass(2 * time.Second)
		}
		calls := o.target.took()
		var gaps []time.Duration
		for i := 1; i < len(calls); i++ {
			gaps = append(gaps, calls[i].at.Sub(calls[i-1].at).Round(time.Second))
			o.target.corrupt("a", 7)
		}
		if gaps[0] != time.Second || gaps[1] != time.Second || slices.Max(gaps) < 45*time.Second || slices.Max(gaps) > 75*time.Second {
			t.Errorf("times between repairs are %v", gaps)
		}
		o.equal("drift", len(calls), o.metrics().drift)
		o.equal("health", "degraded: rows that drift repeatedly: a", o.health.last())
		notDone := o.notDoneRows()
		if len(notDone) != 1 || notDone[0].State != "drift" || notDone[0].NextDue.IsZero() || !strings.Contains(notDone[0].WaitsFor, "its repair is delayed") {
			t.Errorf("not done is %+v", notDone)
		}
		e := o.explain("a")
		if e.Drifted != len(calls) || !strings.Contains(e.String(), fmt.Sprintf("has drifted %d times, each within 5m0s", len(calls)+1)) {
			t.Errorf("explanation is %v", e)
		}

		o.see(sighting{"a", 1}) // it has stopped
		o.pass(time.Second)
		o.equal("not done", []reconciler.NotDone{}, o.notDoneRows())
		o.pass(10 * time.Minute)
		o.equal("health", "ok: reconciled", o.health.last())
		o.target.log()

		o.breaks("a", 7)
		o.wantLog("update a=1")
	})
}

func TestRowsThatCannotBeComparedAreReported(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.panics = "a"
		o.see(sighting{"a", 7}, sighting{"b", 7})
		o.wantLog("update b=1")
		o.equal("health", `degraded: observed table seen: "a": panic: out of cheese`, o.health.last())
		o.panics = ""
		o.see(sighting{"a", 1})
		o.pass(time.Second)
		o.equal("health", "ok: reconciled", o.health.last())
	})
}

func TestObservationsThatCannotWorkAreRefused(t *testing.T) {
	w := newWorld(t)
	o := withSightings(w)
	rows := func(statedb.ReadTxn, sighting) iter.Seq[statedb.Query[row]] { return nil }
	strange := must(statedb.NewTable(statedb.New(), statedb.Schema[sighting]{Name: "seen", Primary: sightingByID}))
	for want, change := range map[string]func(*reconciler.Params[row]){
		"the table is not set": func(p *reconciler.Params[row]) { p.Observed = reconciler.Observes(nil, rows, o.compare) },
		"that names rows is not set": func(p *reconciler.Params[row]) {
			p.Observed = reconciler.Observes(statedb.ReadOnly(o.seen), nil, o.compare)
		},
		"that compares is not set": func(p *reconciler.Params[row]) { p.Observed = reconciler.Observes(statedb.ReadOnly(o.seen), rows, nil) },
		"Params.DB: table seen": func(p *reconciler.Params[row]) {
			p.Observed = reconciler.Observes(statedb.ReadOnly(strange), rows, o.compare)
		},
		"Config.Drift.Policy is 7":     func(p *reconciler.Params[row]) { p.Config.Drift.Policy = 7 },
		"Config.Drift.Settle is -1ns":  func(p *reconciler.Params[row]) { p.Config.Drift.Settle = -1 },
		"Config.Drift.Window is -1ns:": func(p *reconciler.Params[row]) { p.Config.Drift.Window = -1 },
	} {
		p := reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: observing{w.target}}
		change(&p)
		if _, err := reconciler.New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, expected %q", err, want)
		}
	}
}

// TestDriftIsFoundHoweverManyRowsAnObservedRowTellsOf compares several rows with
// one, whose rows change.
func TestDriftIsFoundHoweverManyRowsAnObservedRowTellsOf(t *testing.T) {
	var seen *statedb.RWTable[child]
	prepared(t, func(w *world) {
		seen = must(statedb.NewTable(w.db, statedb.Schema[child]{Name: "switches", Primary: childByID}))
		insert(t, w.db, seen, child{"switch", "a b", 1})
		w.params = func(p *reconciler.Params[row]) {
			p.Observed = reconciler.Observes(statedb.ReadOnly(seen), func(_ statedb.ReadTxn, c child) iter.Seq[statedb.Query[row]] {
				return byIDs(strings.Fields(c.Owners)...)
			}, func(txn statedb.ReadTxn, want row) []reconciler.Change {
				for c := range seen.All(txn) {
					if slices.Contains(strings.Fields(c.Owners), want.ID) && c.Number == want.Want {
						return nil
					}
				}
				return []reconciler.Change{{Field: "switch", Is: "off", Want: fmt.Sprint(want.Want)}}
			})
		}
		w.write(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
	}, func(t *testing.T, w *world) {
		w.pass(time.Minute)
		w.target.log()
		insert(t, w.db, seen, child{"switch", "b", 1}) // no longer about a
		synctest.Wait()
		w.wantLog("update a=1")
		insert(t, w.db, seen, child{"switch", "a b", 1})
		w.pass(time.Minute)
		w.wantLog()
		remove(t, w.db, seen, child{ID: "switch"})
		synctest.Wait()
		w.wantLog("update a=1", "update b=1")
	})
}
