package hold

import (
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
	"github.com/statehive/statehive/statedb"
)

// drifting is a done row that nobody observes, and the repair of it.
func drifting(t *testing.T, drift Drift) (b *bed, r *Repairs, repair *pool.Task, counts, rechecks *int) {
	t.Helper()
	b = newBed(t, "rows", "seen")
	b.put("rows", row{ID: "a", State: "done"})
	counts, rechecks = new(int), new(int)
	r = NewRepairs(RepairParams{
		Owner: b.owner("rows"), Observed: b.observed("seen"), Listings: new(Listings), Drift: drift.WithDefaults(time.Second),
		Status:  statusOf,
		Backoff: func(attempts int) time.Duration { return time.Duration(attempts) * time.Second },
		Recheck: func(string) { *rechecks++ },
		Count:   func() { *counts++ },
	})
	repair = b.task(pool.Update, "rows", "a")
	repair.Was, repair.Item.Differs = status.Done, true
	repair.Item.Reasons, repair.Item.Ran = workqueue.Drifted, workqueue.Drifted
	return b, r, repair, counts, rechecks
}

const drifted = `row is "", not "a"`

func TestRepairRunsAtOnceUntilTheRowDriftsAgainAndAgain(t *testing.T) {
	b, r, repair, counts, _ := drifting(t, Drift{})
	for range promptRepairs {
		b.want(r, repair, Reason{})
		r.Ended(repair, b.now)
	}
	until := b.now.Add(time.Second)
	b.want(r, repair, Reason{
		Stage: workqueue.Drift, Until: until,
		Text: drifted + "; it has drifted 4 times, each within 5m0s of the previous time: its repair is delayed",
	})
	b.now = until
	b.want(r, repair, Reason{})
	r.Ended(repair, b.now)
	if n, last := r.Of(repair.Item.Key); n != 4 || !last.Equal(b.now) || *counts != 4 {
		t.Errorf("repaired %d times, the last time at %v, counted %d", n, last, *counts)
	}
	if flapping, held, changed := r.Flapping(), r.Unrepaired(), r.Changed(); flapping == nil || flapping.Error() != "a" || held != nil || !changed {
		t.Errorf("flapping %v, held %v, changed %t", flapping, held, changed)
	}
	b.now = b.now.Add(5 * time.Minute)
	r.Expire(b.now.Add(-1))
	if flapping, changed := r.Flapping(), r.Changed(); flapping == nil || changed {
		t.Errorf("flapping %v, changed %t before the window is over", flapping, changed)
	}
	for !r.Expires().IsZero() {
		r.Expire(r.Expires())
	}
	if flapping, changed := r.Flapping(), r.Changed(); flapping != nil || !changed {
		t.Errorf("flapping %v, changed %t when the window is over", flapping, changed)
	}
}

func TestOperationThatIsNoRepairIsNotHeld(t *testing.T) {
	b, r, repair, _, _ := drifting(t, Drift{Policy: DriftReport})
	for name, change := range map[string]func(t *pool.Task){
		"delete":      func(t *pool.Task) { t.Kind = pool.Delete },
		"pending":     func(t *pool.Task) { t.Was = status.Pending },
		"changed too": func(t *pool.Task) { t.Item.Reasons |= workqueue.Change },
		"agrees":      func(t *pool.Task) { t.Item.Differs = false },
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			task, item := *repair, *repair.Item
			task.Item = &item
			change(&task)
			b.want(r, &task, Reason{})
		})
	}
}

func TestDriftThatIsOnlyReportedIsCountedOnceUntilTheRowAgrees(t *testing.T) {
	b, r, repair, counts, rechecks := drifting(t, Drift{Policy: DriftReport})
	want := Reason{Stage: workqueue.Drift, Text: drifted + "; drift is only reported"}
	b.want(r, repair, want)
	b.want(r, repair, want)
	r.Held(repair.Item)
	if held := r.Unrepaired(); *counts != 1 || *rechecks != 0 || held == nil {
		t.Errorf("counted %d times, rechecked %d times, held %v", *counts, *rechecks, held)
	}
	r.Agrees(repair.Item.Key)
	if held, changed := r.Unrepaired(), r.Changed(); held != nil || !changed {
		t.Errorf("held %v, changed %t", held, changed)
	}
	b.want(r, repair, want)
	if *counts != 2 {
		t.Errorf("counted %d times, want twice", *counts)
	}
	old := b.db.ReadTxn()
	b.put("seen", row{ID: "a"})
	if _, held := r.Holds(repair, old, b.now); !held || *rechecks != 1 {
		t.Errorf("held %t, rechecked %d times although the row agrees by now", held, *rechecks)
	}
}

func TestRepairWaitsWhileNotAllIsObserved(t *testing.T) {
	b, r, repair, _, _ := drifting(t, Drift{})
	var source *statedb.Source
	b.write("seen", func(txn *statedb.WriteTxn) (err error) {
		source, err = b.tables["seen"].RegisterSource(txn, "listing")
		return err
	})
	incomplete := Reason{Stage: workqueue.Drift, Text: "table seen, which is incomplete"}
	b.want(r, repair, incomplete)
	b.write("seen", func(txn *statedb.WriteTxn) error { return source.Initialized(txn) })
	b.want(r, repair, Reason{})
	r.p.Listings.Ended(time.Unix(498, 0), time.Unix(499, 0)) // the row is done since 500
	b.want(r, repair, incomplete)
}

func TestRowSettlesAfterItsLastUpdate(t *testing.T) {
	b, r, repair, _, _ := drifting(t, Drift{Settle: time.Minute})
	settled := func(want time.Time) {
		t.Helper()
		if got := r.SettledAt(repair, b.now); !got.Equal(want) {
			t.Errorf("settled at %v, want %v", got, want)
		}
	}
	settled(time.Unix(560, 0))
	repair.Item.Applied = time.Unix(600, 0)
	settled(time.Unix(660, 0))
	repair.Item.Applied = b.now.Add(time.Hour) // the clock was set back
	settled(b.now)
}

func TestARowFromBeforeTheClockWasSetBackIsOlderThanAListing(t *testing.T) {
	b, r, repair, _, _ := drifting(t, Drift{})
	repair.Item.Applied = b.now.Add(time.Hour)
	r.p.Listings.Ended(b.now.Add(-2*time.Second), b.now.Add(-time.Second))
	if got := r.Certainty(repair, b.db.ReadTxn(), b.now); got != Certain {
		t.Errorf("certainty %d, want %d", got, Certain)
	}
	if got := r.Certainty(repair, b.db.ReadTxn(), b.now.Add(time.Hour)); got != Unknown {
		t.Errorf("certainty %d of a row applied after the listing, want %d", got, Unknown)
	}
	b.want(r, repair, Reason{})
}
