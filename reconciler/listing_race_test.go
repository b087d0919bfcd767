package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// lister is who fills the table of what is observed by listing it anew. Nobody announces changes meanwhile.
type lister struct {
	*watchful
	source *statedb.Source
}

// listed runs a test with a table of sightings that is complete, and of which rows a, b and c are done.
func listed(t *testing.T, prepare func(o *watchful), test func(o *lister)) {
	t.Helper()
	l := &lister{}
	watching(t, func(o *watchful) {
		l.watchful = o
		o.check(o.db.Update(t.Context(), func(txn *statedb.WriteTxn) (err error) {
			if l.source, err = o.seen.RegisterSource(txn, "lister"); err == nil {
				err = l.source.Initialized(txn)
			}
			return err
		}, o.seen))
		if prepare != nil {
			prepare(o)
		}
	}, func(*testing.T, *watchful) { test(l) })
}

func (l *lister) begin() {
	l.t.Helper()
	l.check(l.db.Update(l.t.Context(), func(txn *statedb.WriteTxn) error { return l.source.Incomplete(txn, "it is listed") }, l.seen))
	synctest.Wait()
}

func (l *lister) end() {
	l.t.Helper()
	l.check(l.db.Update(l.t.Context(), func(txn *statedb.WriteTxn) error { return l.source.Complete(txn) }, l.seen))
	synctest.Wait()
}

func (l *lister) trigger(id string) {
	l.t.Helper()
	must(l.r.Trigger(context.Background(), keys(id)))
	synctest.Wait()
}

// The listing finds the row as it was before the update, and as it ought to be. What others do after that stays unnoticed.
func TestARowThatIsUpdatedWhileAListingRunsIsUpdatedOnceMore(t *testing.T) {
	listed(t, nil, func(o *lister) {
		o.begin()
		o.pass(time.Second)
		o.trigger("a")
		o.wantLog("update a=1")
		o.target.corrupt("a", 7)
		o.pass(time.Second)
		o.wantLog()
		o.end()
		o.wantLog("update a=1")
		o.wantConverged()
		o.pass(time.Hour)
		o.wantLog()
		o.wantDrift(0)
	})
}

// The same with an update that has not returned when the listing ends: it may have written before that.
func TestARowWhoseUpdateOutlastsAListingIsUpdatedOnceMore(t *testing.T) {
	listed(t, nil, func(o *lister) {
		o.begin()
		o.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(3 * time.Second)
			return reconciler.Result{}, nil
		})
		o.trigger("a")
		o.pass(time.Second)
		o.end()
		o.pass(time.Second)
		o.target.will(nil)
		o.pass(time.Second)
		o.pass(time.Minute)
		o.wantLog("update a=1", "update a=1")
		o.pass(time.Hour)
		o.wantLog()
	})
}

// A row that has changed is put as it was while the listing runs, and found as it is to be.
func TestAChangeThatOthersUndoWhileAListingRunsIsMadeAgain(t *testing.T) {
	listed(t, nil, func(o *lister) {
		o.begin()
		o.put(row{ID: "a", Want: 2})
		o.wantLog("update a=2")
		o.sight(sighting{"a", 2}) // the listing comes by
		o.target.corrupt("a", 1)
		o.pass(3 * time.Second)
		o.end()
		o.wantLog("update a=2")
		o.wantConverged()
		o.pass(time.Hour)
		o.wantLog()
	})
}

// Each update makes the table incomplete again.
func TestAnUpdateThatCausesAListingIsRepeatedOnce(t *testing.T) {
	listed(t, nil, func(o *lister) {
		for range 3 {
			o.begin()
			o.target.will(func(context.Context, call) (reconciler.Result, error) {
				return reconciler.Result{Changed: true}, nil
			})
			o.trigger("a")
			o.wantLog("update a=1")
			o.end()
			for range 5 {
				o.begin()
				o.pass(time.Millisecond)
				o.end()
			}
			o.wantLog("update a=1")
		}
	})
}

func TestARepeatedUpdateThatAListingOverlapsIsNotRepeated(t *testing.T) {
	listed(t, nil, func(o *lister) {
		o.begin()
		o.trigger("a")
		o.wantLog("update a=1")
		o.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, nil
		})
		o.end()
		for range 10 {
			o.begin()
			o.pass(time.Second)
			o.end()
		}
		o.wantLog("update a=1")
	})
}

// Updates outside of listings are not repeated, nor those of a reconciler that must not repair.
func TestOtherUpdatesAreNotRepeated(t *testing.T) {
	listed(t, nil, func(o *lister) {
		o.trigger("a")
		o.wantLog("update a=1")
		o.pass(time.Minute)
		o.begin()
		o.pass(time.Minute)
		o.end()
		o.pass(time.Minute)
		o.trigger("a")
		o.wantLog("update a=1")
		o.pass(time.Hour)
		o.wantLog()
	})
	listed(t, func(o *watchful) { o.config.Drift.Policy = reconciler.DriftReport }, func(o *lister) {
		o.begin()
		o.trigger("a")
		o.wantLog("update a=1")
		o.end()
		o.pass(time.Hour)
		o.wantLog()
	})
}
