package reconciler_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
)

func (w *world) summary() reconciler.Summary { return w.r.Summary(w.db.ReadTxn()) }

func TestSummaryCountsRowsThatAreSeenToDiffer(t *testing.T) {
	delaying(t, func(_ *testing.T, o *watchful, d delayed) {
		s := o.summary()
		o.equal("drifted", 1, s.Drifted)
		o.equal("drifted by Stats", 1, o.r.Stats().Drifted)
		paused := 0
		if d.cause == "paused" {
			paused = 1
		}
		o.equal("paused", paused, s.Paused)
		o.equal("all", s.Rows, s.Done+s.Pending+s.Error)
		d.end(o)
		o.pass(time.Minute)
		s = o.summary()
		o.equal("drifted after the repair", 0, s.Drifted)
		o.equal("drifted by Stats after the repair", 0, o.r.Stats().Drifted)
		o.equal("paused after it", 0, s.Paused)
	})
}

func TestSummaryCountsARowThatIsBeingRepairedAsDrifted(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.target.will(lasting(10 * time.Second))
		o.breaks("a", 7)
		o.pass(time.Second)
		o.equal("drifted", 1, o.summary().Drifted)
		o.pass(9*time.Second + seenSoon)
		o.equal("drifted after the repair", 0, o.summary().Drifted)
		o.see(sighting{"a", 1})
	})
}

// What was seen of a row is nothing any more once that is gone.
func TestSummaryDoesNotCountARowAsDriftedThatIsGone(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.pause(keys("a"), time.Time{})
		o.breaks("a", 7)
		o.pass(seenSoon)
		o.equal("drifted", 1, o.summary().Drifted)
		o.delete("a")
		o.pass(seenSoon)
		o.equal("drifted, though it is gone", 0, o.summary().Drifted)
		o.equal("paused", 1, o.summary().Paused)
		o.resume(keys("a"))
	})
}

func TestSummaryCountsRowsThatAPauseHolds(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
		w.pause(reconciler.Selector[row]{}, time.Time{})
		w.equal("paused without anything to do", 0, w.summary().Paused)
		w.put(row{ID: "a", Want: 2}, row{ID: "d", Want: 1})
		w.delete("b")
		s := w.summary()
		w.equal("paused", 3, s.Paused)
		w.equal("drifted", 0, s.Drifted)
		w.equal("done", 1, s.Done)
		w.equal("pending", 2, s.Pending)
		w.equal("deleting", 1, s.Deleting)
		if err := w.r.Resume(t.Context(), keys("d")); !errors.Is(err, reconciler.ErrAllPaused) {
			t.Errorf("one row of a pause of all is resumed: %v", err)
		}
		synctest.Wait()
		w.equal("paused still", 3, w.summary().Paused)
		w.resume(reconciler.Selector[row]{})
		synctest.Wait()
		w.equal("paused at the end", 0, w.summary().Paused)
	})
}

// Its summary is asked for at any time: what nobody knows any more is none.
func TestSummaryOfAReconcilerThatHasStopped(t *testing.T) {
	watching(t, nil, func(_ *testing.T, o *watchful) {
		o.pause(keys("a"), time.Time{})
		o.breaks("a", 7)
		o.pass(seenSoon)
		o.stop()
		s := o.summary()
		o.equal("pending", 1, s.Pending)
		o.equal("paused", 0, s.Paused)
		o.equal("drifted", 0, s.Drifted)
	})
}
