package reconciler_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// refreshedHourly has all rows applied again after an hour.
func refreshedHourly(o *watchful) {
	params := o.world.params
	o.world.params = func(p *reconciler.Params[row]) {
		params(p)
		p.RefreshInterval = func(row) time.Duration { return time.Hour }
	}
}

// wantReached checks that a wait for the table ends soon.
func (w *world) wantReached() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	if err := w.r.WaitTable(ctx); err != nil {
		w.t.Errorf("wait for the table: %v", err)
	}
}

// A row that is done again, because what is observed agrees, keeps nobody waiting until it is
// refreshed.
func TestARefreshedRowThatAgreesAgainIsWaitedForNoLonger(t *testing.T) {
	watching(t, func(o *watchful) {
		refreshedHourly(o)
		o.config.Drift.Policy = reconciler.DriftReport
	}, func(_ *testing.T, o *watchful) {
		o.pass(10 * time.Minute)
		o.wantReached()
		o.see(sighting{"a", 7})
		o.wantStatus("a", "pending")
		o.see(sighting{"a", 1})
		o.pass(2 * time.Second)
		o.equal("status", reconciler.Done, o.status("a").Kind())
		o.wantReached()
	})
}

// That a row is only reported holds also of one that its target wants again later.
func TestDriftOfARowThatIsAgainIsOnlyReported(t *testing.T) {
	watching(t, func(o *watchful) {
		o.config.Drift.Policy = reconciler.DriftReport
		o.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "update" && c.id == "a" {
				return reconciler.Result{Again: 100 * time.Hour}, nil
			}
			return reconciler.Result{}, nil
		})
	}, func(_ *testing.T, o *watchful) {
		o.breaks("a", 7)
		o.pass(time.Minute)
		o.wantLog()
	})
}

// Repairs of a row that its target wants again later are slowed like those of others.
func TestRepairsOfARowThatIsAgainAreSlowed(t *testing.T) {
	updates := func(again time.Duration) (n int) {
		watching(t, func(o *watchful) {
			o.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
				return reconciler.Result{Again: again}, nil
			})
		}, func(_ *testing.T, o *watchful) {
			for range 20 {
				o.breaks("a", 7)
				o.see(sighting{"a", 1})
				o.pass(1100 * time.Millisecond)
			}
			n = len(o.target.log())
		})
		return n
	}
	if plain, again := updates(0), updates(100*time.Hour); again > plain+2 {
		t.Errorf("%d repairs of a row that is again, %d of one that is not", again, plain)
	}
}

// A failed repair is retried at once if the observed state has changed meanwhile. That is not another drift.
func TestRetriesOfARepairAreNotRepeatedDrift(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		tries := 0
		o.target.will(func(context.Context, call) (reconciler.Result, error) {
			if tries++; tries < 10 {
				take(time.Millisecond)
				o.sight(sighting{"a", 7 + tries})
				take(time.Millisecond)
				return reconciler.Result{}, reconciler.RetryAfter(time.Minute, errBoom)
			}
			o.sight(sighting{"a", 1})
			return reconciler.Result{}, nil
		})
		o.pass(2 * time.Second)
		o.see(sighting{"a", 7})
		o.pass(time.Second)
		o.equal("tries", 10, tries)
		o.equal("health", "ok: reconciled", o.health.last())
	})
}

// A longer Config.Backoff slows repairs at least as much as the default.
func TestRepairsAreSlowedByTheReplacedBackoff(t *testing.T) {
	updates := func(b func(int) time.Duration) (n int) {
		watching(t, func(o *watchful) {
			o.config.Backoff = b
		}, func(_ *testing.T, o *watchful) {
			o.target.will(func(_ context.Context, c call) (reconciler.Result, error) { return reconciler.Result{}, nil })
			o.see(sighting{"a", 7}) // and no repair helps
			o.pass(100 * time.Hour)
			n = len(o.target.log())
		})
		return n
	}
	// One each hour, after the three that are prompt.
	if n := updates(func(int) time.Duration { return time.Hour }); n > 110 {
		t.Errorf("%d repairs in 100 hours, although the backoff is one hour", n)
	}
}

// A row that differs is applied again in its time like one that does not.
func TestAReportedRowIsRefreshed(t *testing.T) {
	watching(t, func(o *watchful) {
		refreshedHourly(o)
		o.config.Drift.Policy = reconciler.DriftReport
	}, func(_ *testing.T, o *watchful) {
		o.breaks("a", 7)
		o.target.log()
		o.pass(2 * time.Hour)
		if log := strings.Join(o.target.log(), " "); !strings.Contains(log, "update a=1") {
			o.t.Errorf("operations in two hours: %s", log)
		}
	})
}

// Health forgets a row that agrees again, also one whose key is an empty text.
func TestDriftOfARowWithAnEmptyKeyEnds(t *testing.T) {
	watching(t, func(o *watchful) { o.config.Drift.Policy = reconciler.DriftReport }, func(_ *testing.T, o *watchful) {
		o.panics = "none"
		o.put(row{ID: "", Want: 1})
		o.see(sighting{"", 1})
		o.pass(time.Hour)
		o.equal("health", "ok: reconciled", o.health.last())
		o.see(sighting{"", 7})
		o.pass(time.Minute)
		o.wantDrift(1)
		o.see(sighting{"", 1})
		o.pass(time.Minute)
		o.equal("health", "ok: reconciled", o.health.last())
	})
}

// What is known to differ is not left behind as done because the table is locked.
func TestARowThatDiffersIsNotDoneAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := withSightings(w)
		w.config.Drift.Policy = reconciler.DriftReport
		w.write(row{ID: "a", Want: 1})
		o.sight(sighting{"a", 1})
		w.start()
		w.pass(time.Hour)
		txn := must(w.db.WriteTxn(t.Context(), w.table))
		o.see(sighting{"a", 7})
		w.cancel()
		time.AfterFunc(time.Second, txn.Abort)
		err := <-w.ended
		w.ended = nil
		if err == nil && w.status("a").Kind() == reconciler.Done {
			t.Errorf("the row is %v, and Run returned no error", w.status("a"))
		}
		txn.Abort()
	})
}

// A row that was applied shortly before what is observed was listed anew is repaired if it is
// not in the listing, and stays so: rows that depend on it wait for that.
func TestARowThatAListingMissesIsRepaired(t *testing.T) {
	missedByAListing(t, func(o *watchful) {}, func(o *watchful) { o.wantLog("update a=2") })
}

// If the repair has to wait, the row is not done meanwhile.
func TestARowThatAListingMissesIsNotDoneWhileItsRepairWaits(t *testing.T) {
	missedByAListing(t, func(o *watchful) { o.pause(keys("a"), time.Time{}) }, func(o *watchful) {
		o.wantLog()
		o.wantStatus("a", "pending")
		o.resume(keys("a"))
		o.wantLog("update a=2")
		o.see(sighting{"a", 2})
		o.pass(time.Minute)
		o.wantConverged()
	})
}

// missedByAListing runs a test in which row "a" vanishes shortly after an update, and a listing that begins in between finds it missing.
func missedByAListing(t *testing.T, before, test func(o *watchful)) {
	t.Helper()
	var source *statedb.Source
	watching(t, func(o *watchful) {
		o.check(o.db.Update(t.Context(), func(txn *statedb.WriteTxn) (err error) {
			if source, err = o.seen.RegisterSource(txn, "mirror"); err == nil {
				err = source.Initialized(txn)
			}
			return err
		}, o.seen))
	}, func(_ *testing.T, o *watchful) {
		o.put(row{ID: "a", Want: 2})
		o.see(sighting{"a", 2})
		o.wantLog("update a=2")
		before(o)
		o.pass(500 * time.Millisecond)
		o.check(o.db.Update(t.Context(), func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "lost") }, o.seen))
		o.pass(100 * time.Millisecond)
		o.target.vanish("a")
		o.miss("a") // which the listing finds
		o.check(o.db.Update(t.Context(), func(txn *statedb.WriteTxn) error { return source.Complete(txn) }, o.seen))
		o.pass(time.Hour)
		test(o)
	})
}
