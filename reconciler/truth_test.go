package reconciler_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// seenSoon is how long the statuses of rows that are seen to differ may take.
const seenSoon = 50 * time.Millisecond

// delayed is a reason for which the repair of row "a", which has drifted, has to
// wait.
type delayed struct {
	prepare func(o *watchful) // before the start
	begin   func(o *watchful) // the delay, and the drift
	end     func(o *watchful)
	cause   string // as explain has it
}

// delays are all there are.
func delays() map[string]delayed {
	breakA := func(o *watchful) { o.breaks("a", 7) }
	seenRight := func(o *watchful) { o.see(sighting{"a", 1}) }
	return map[string]delayed{
		"pause": {
			begin: func(o *watchful) {
				o.pause(keys("a"), time.Time{})
				breakA(o)
			},
			end: func(o *watchful) {
				o.resume(keys("a"))
				seenRight(o)
			},
			cause: "paused",
		},
		"pause of a row that is to be applied anyway": {
			begin: func(o *watchful) {
				o.pause(keys("a"), time.Time{})
				triggerA(o)
				breakA(o)
			},
			end: func(o *watchful) {
				o.resume(keys("a"))
				seenRight(o)
			},
			cause: "paused",
		},
		"dependency in error": {
			prepare: dependsOnX,
			begin: func(o *watchful) {
				o.others.target.will(failing("x"))
				o.others.start()
				o.others.put(row{ID: "x"})
				o.equal("dependency", reconciler.Error, o.others.status("x").Kind())
				breakA(o)
			},
			end: func(o *watchful) {
				o.others.target.will(nil)
				_, err := o.others.r.Trigger(o.t.Context(), keys("x"))
				o.check(err)
				o.pass(seenSoon)
				seenRight(o)
			},
			cause: "dependency",
		},
		"slowed repair": {
			prepare: func(o *watchful) {
				o.config.MinBackoff = 10 * time.Minute
				o.config.MaxBackoff = 10 * time.Minute
			},
			begin: func(o *watchful) {
				breakA(o) // and nobody sees that it is repaired
				o.pass(10 * time.Second)
			},
			end: func(o *watchful) {
				seenRight(o)
				o.pass(20 * time.Minute)
			},
			cause: "drift",
		},
		"report only": {
			prepare: func(o *watchful) { o.config.Drift.Policy = reconciler.DriftReport },
			begin:   breakA,
			end: func(o *watchful) {
				o.fullPass() // repairs what nobody else does
				seenRight(o)
			},
			cause: "drift",
		},
	}
}

// triggerA has row "a" applied by hand.
func triggerA(o *watchful) {
	o.t.Helper()
	_, err := o.r.Trigger(o.t.Context(), keys("a"))
	o.check(err)
}

// dependsOnX has all rows depend on the row "x" of another table.
func dependsOnX(o *watchful) {
	observed := o.params
	o.others = newDependents(o.world)
	o.others.params = nil
	depends := o.params
	o.params = func(p *reconciler.Params[row]) {
		observed(p)
		depends(p)
	}
}

// delaying runs a test for each delay with row "a" known to differ. The test ends
// with the delay over and all rows done.
func delaying(t *testing.T, test func(t *testing.T, o *watchful, d delayed)) {
	t.Helper()
	for name, d := range delays() {
		t.Run(name, func(t *testing.T) {
			watching(t, d.prepare, func(t *testing.T, o *watchful) {
				d.begin(o)
				o.pass(seenSoon)
				o.target.log()
				test(t, o, d)
				if o.others != nil {
					o.others.stop()
				}
			})
		})
	}
}

func TestARowThatIsSeenToDifferIsNotDoneWhileItsRepairWaits(t *testing.T) {
	delaying(t, func(t *testing.T, o *watchful, d delayed) {
		for range 3 {
			o.wantStatus("a", "pending")
			o.pass(20 * time.Second)
		}
		o.wantStatus("b", "done")
		o.wantLog()

		e := o.explain("a")
		if !strings.Contains(e.Reasons, "drift") {
			t.Errorf("reasons are %q, expected drift among them", e.Reasons)
		}
		o.equal("waits for", d.cause, e.WaitsFor[0].Cause)
		o.equal("status explained", reconciler.Pending, e.Status.Kind())
		if !slices.ContainsFunc(o.notDoneRows(), func(n reconciler.NotDone) bool {
			return n.Reconciler == "rows" && n.Key == "a" && strings.Contains(n.Reasons, "drift")
		}) {
			t.Errorf("not done is %+v, expected a because of its drift", o.notDoneRows())
		}

		d.end(o)
		o.pass(time.Minute)
		o.wantStatus("a", "done")
	})
}

func TestARowThatIsSeenToDifferIsNotCountedAsDone(t *testing.T) {
	delaying(t, func(_ *testing.T, o *watchful, d delayed) {
		s := o.r.Summary(o.db.ReadTxn())
		o.equal("rows", 3, s.Rows)
		o.equal("done", 2, s.Done)
		o.equal("pending", 1, s.Pending)
		o.equal("in error", 0, s.Error)
		d.end(o)
		o.pass(time.Minute)
		o.equal("done after the repair", 3, o.r.Summary(o.db.ReadTxn()).Done)
	})
}

func TestWaitingDoesNotEndWhileARowIsSeenToDiffer(t *testing.T) {
	delaying(t, func(_ *testing.T, o *watchful, d delayed) {
		table, own, other := o.askTable(), o.askRow("a"), o.askRow("b")
		o.pass(20 * time.Second)
		o.wantAsked("waiting", table, own)
		o.wantAsked("<nil>", other)
		d.end(o)
		o.pass(time.Minute)
		o.wantAsked("<nil>", table, own)
	})
}

func TestHealthIsNotGreenWhileARowIsSeenToDiffer(t *testing.T) {
	delaying(t, func(t *testing.T, o *watchful, d delayed) {
		o.pass(20 * time.Second)
		if got := o.health.last(); !strings.HasPrefix(got, "degraded: ") || !strings.Contains(got, "differ") && !strings.Contains(got, "drift") {
			t.Errorf("health is %q, expected that rows differ from what is observed", got)
		}
		d.end(o)
		o.pass(30 * time.Minute)
		o.equal("health", "ok: reconciled", o.health.last())
	})
}

// A repair that takes long is one more delay.
func TestARowIsNotDoneWhileItIsRepaired(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.target.will(lasting(10 * time.Second))
		o.breaks("a", 7)
		own := o.askRow("a")
		o.pass(time.Second)
		o.wantStatus("a", "pending")
		o.equal("done", 2, o.r.Summary(o.db.ReadTxn()).Done)
		o.wantAsked("waiting", own)
		o.pass(9*time.Second + seenSoon) // and nobody has seen it yet
		o.wantStatus("a", "done")
		o.wantAsked("<nil>", own)
	})
}

// What is seen so soon after an update may be from before it: that is no
// knowledge. It is when that time has gone by, although nothing may run.
func TestARowIsNotDoneOnceWhatIsObservedHasSettledAgainstIt(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.put(row{ID: "a", Want: 2})
		o.pause(keys("a"), time.Time{})
		o.pass(500 * time.Millisecond)
		o.breaks("a", 7)
		o.pass(seenSoon)
		o.wantStatus("a", "done")
		o.pass(time.Second)
		o.wantStatus("a", "pending")
		o.target.log()
		o.resume(keys("a"))
		o.pass(seenSoon)
		o.wantLog("update a=2")
		o.wantStatus("a", "done")
	})
}

// It is so too for a row that is to be applied for another reason, and when it is
// seen to be right again although it is still held.
func TestARowThatIsToBeAppliedAnywayIsNotDoneWhileItDiffers(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.put(row{ID: "a", Want: 2})
		o.pause(keys("a"), time.Time{})
		triggerA(o)
		o.pass(500 * time.Millisecond)
		o.breaks("a", 7)
		o.pass(seenSoon)
		o.wantStatus("a", "done")
		o.pass(time.Second)
		o.wantStatus("a", "pending")
		o.see(sighting{"a", 2})
		o.pass(seenSoon)
		o.wantStatus("a", "done")
		o.target.log()
		o.resume(keys("a"))
		o.pass(seenSoon)
		o.wantLog("update a=2")
	})
}

func TestRepairsOfManyRowsAtOnceAreHeldByTheLimitOfUpdates(t *testing.T) {
	limited := func(o *watchful) { o.config.UpdateLimit = reconciler.ChangeLimit{Rows: 1, Percent: 20} }
	watching(t, limited, func(t *testing.T, o *watchful) {
		for _, id := range []string{"a", "b", "c"} {
			o.target.corrupt(id, 7)
		}
		o.see(sighting{"a", 7}, sighting{"b", 7}, sighting{"c", 7})
		o.pass(seenSoon)
		if held := o.plan().Updates; held < 2 {
			t.Errorf("%d repairs are held, expected two at least", held)
		}
		o.wantTruth()
		for id, is := range o.target.state() {
			o.see(sighting{id, is})
		}
		o.pass(time.Minute)
		o.wantTruth()
		if o.health.last() == "ok: reconciled" {
			t.Error("health is green, although rows are known to differ")
		}
		o.check(o.r.Approve(t.Context(), o.plan().ID))
		synctest.Wait() // what is seen to agree needs no repair
		o.see(sighting{"a", 1}, sighting{"b", 1}, sighting{"c", 1})
		o.pass(time.Minute)
		o.wantConverged()
	})
}

// wantTruth checks that no row is done which is not there as it should be.
func (o *watchful) wantTruth() {
	o.t.Helper()
	is := o.target.state()
	for r := range o.table.All(o.db.ReadTxn()) {
		if r.Status.Kind() == reconciler.Done && is[r.ID] != r.Want {
			o.t.Errorf("%s is done, but is %d instead of %d", r.ID, is[r.ID], r.Want)
		}
	}
}

// The reset of a status is no change of the row, and other reconcilers of the row
// are not concerned.
func TestDriftResetsNothingButTheStatusOfItsReconciler(t *testing.T) {
	var other *world
	beside := func(o *watchful) {
		other = o.another("second", otherField)
		other.params = nil // it compares with nothing
	}
	watching(t, beside, func(_ *testing.T, o *watchful) {
		other.start()
		other.pass(time.Second)
		other.target.log()
		o.pause(keys("a"), time.Time{})
		spec := o.explain("a").Spec
		o.breaks("a", 7)
		o.pass(time.Second)
		o.wantStatus("a", "pending")
		other.wantStatus("a", "done")
		other.wantLog()
		o.equal("spec", spec, o.explain("a").Spec)
		o.resume(keys("a"))
		o.see(sighting{"a", 1})
		o.pass(time.Second)
		o.wantStatus("a", "done")
		o.wantLog("update a=1")
		other.pass(time.Minute)
		other.wantLog()
		other.stop()
	})
}

// After a restart the observation is lost, but the row is still pending.
func TestARowThatDiffersIsRepairedAfterARestart(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.pause(keys("a"), time.Time{})
		o.breaks("a", 7)
		o.pass(time.Second)
		o.stop()
		o.wantStatus("a", "pending")
		o.params = nil // it compares with nothing
		o.target.log()
		o.start()
		o.pass(time.Minute)
		o.wantConverged()
	})
}
