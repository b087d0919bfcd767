package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/statehive/statehive/reconciler"
)

func keys(keys ...string) reconciler.Selector[row] { return reconciler.Selector[row]{Keys: keys} }

func (w *world) pause(which reconciler.Selector[row], until time.Time) {
	w.t.Helper()
	w.check(w.r.Pause(w.t.Context(), which, until))
}

func (w *world) resume(which reconciler.Selector[row]) {
	w.t.Helper()
	w.check(w.r.Resume(w.t.Context(), which))
	synctest.Wait()
}

func TestChangesOfAPausedRowAreOneWhenItIsResumed(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 2}, row{ID: "b", Want: 1})
		w.target.log()
		w.pause(keys("a"), time.Time{})
		w.put(row{ID: "a", Want: 5})
		w.put(row{ID: "a", Want: 3}, row{ID: "b", Want: 2})
		w.pass(time.Hour)
		w.wantLog("update b=2") // others go on
		w.equal("not-done", "paused", w.notDoneRows()[0].State)
		w.resume(keys("a"))
		w.wantLog("update a=3")
		w.wantConverged()
	})
}

func TestDeletesOfPausedRowsWait(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.target.log()
		w.pause(reconciler.Selector[row]{}, time.Time{})
		w.delete("a", "b")
		w.put(row{ID: "b", Want: 2}) // back before it was deleted
		w.pass(time.Hour)
		w.wantLog()
		w.equal("deleting", "delete", w.notDoneRows()[0].Operation)
		w.resume(reconciler.Selector[row]{})
		w.wantLog("delete a", "update b=2")
		w.wantConverged()
	})
}

func TestPauseEndsAtItsTime(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.log()
		w.pause(keys("a"), time.Now().Add(time.Minute))
		w.put(row{ID: "a", Want: 1})
		w.pass(time.Minute - time.Millisecond)
		w.wantLog()
		w.pass(time.Millisecond)
		w.wantLog("update a=1")
		w.put(row{ID: "a", Want: 2})
		w.wantLog("update a=2")
	})
}

func TestPauseBySelectorIsOfRowsThatComeLaterToo(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.log()
		w.pause(reconciler.Selector[row]{Match: func(r row) bool { return r.Want > 9 }}, time.Time{})
		w.put(row{ID: "a", Want: 10}, row{ID: "b", Want: 1})
		w.wantLog("update b=1")
		w.put(row{ID: "a", Want: 2}) // is not meant any more
		w.wantLog("update a=2")
		w.put(row{ID: "c", Want: 11})
		w.wantLog()
		w.resume(reconciler.Selector[row]{})
		w.wantLog("update c=11")
	})
}

func TestRunningOperationGoesOnWhenItsRowIsPaused(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(slow("a"))
		w.target.log()
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.pause(reconciler.Selector[row]{}, time.Time{})
		w.put(row{ID: "a", Want: 2})
		w.pass(time.Hour)
		w.wantLog("update a=1") // what was not begun is taken back
		w.wantStatus("a", "pending")
		if err := w.r.Resume(t.Context(), keys("b")); !errors.Is(err, reconciler.ErrAllPaused) {
			t.Errorf("one row of a pause of all is resumed: %v", err)
		}
		synctest.Wait()
		w.wantLog()
		w.resume(reconciler.Selector[row]{})
		w.pass(time.Second)
		w.wantLog("update a=2", "update b=1")
		w.wantConverged()
	})
}

func TestRetriesTriggersAndFullPassesRespectPauses(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.target.log()
		w.pause(keys("a"), time.Time{})
		w.pass(time.Hour)
		n, err := w.r.Trigger(t.Context(), reconciler.Selector[row]{})
		w.check(err)
		w.equal("triggered", 1, n)
		w.fullPass()
		w.pass(time.Hour)
		w.wantLog("observe")
		w.target.will(nil)
		w.resume(keys("a"))
		w.wantLog("update a=1")
		w.wantConverged()
	})
}

func TestResumeBySelectorIsOfWhatItMatches(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		many := reconciler.Selector[row]{Match: func(r row) bool { return r.Want > 9 }}
		w.pause(many, time.Time{})
		w.pause(keys("k"), time.Time{})
		w.put(row{ID: "a", Want: 10}, row{ID: "b", Want: 20}, row{ID: "k", Want: 20})
		w.target.log()
		w.resume(reconciler.Selector[row]{Match: func(r row) bool { return r.Want > 19 }})
		w.wantLog("update b=20") // k is in a pause by its key
		w.put(row{ID: "c", Want: 21}, row{ID: "d", Want: 11})
		w.wantLog("update c=21")
		w.resume(many)
		w.wantLog("update a=10", "update d=11")
		w.resume(keys("k"))
		w.pass(2 * time.Second)
		w.wantConverged()
	})
}

// What a user's function does must not end the process.
func TestSelectorThatPanicsMatches(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		broken := reconciler.Selector[row]{Match: func(row) bool { panic("broken") }}
		w.put(row{ID: "a", Want: 1})
		w.target.will(failing("a"))
		w.delete("a")
		w.target.will(nil)
		w.target.log()
		n, err := w.r.Trigger(t.Context(), broken)
		w.check(err)
		synctest.Wait()
		w.equal("triggered", 1, n)
		w.wantLog("delete a")
		w.pause(broken, time.Time{})
		w.put(row{ID: "b", Want: 1})
		w.wantLog()
		w.resume(reconciler.Selector[row]{})
		w.pass(2 * time.Second)
		w.wantConverged()
	})
}

func TestCallsWithAnEndedContextDoNothing(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.log()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		all := reconciler.Selector[row]{}
		_, explained := w.r.Explain(ctx, "a")
		_, planned := w.r.Plan(ctx)
		n, triggered := w.r.Trigger(ctx, all)
		w.equal("triggered", 0, n)
		for what, err := range map[string]error{
			"Pause": w.r.Pause(ctx, all, time.Time{}), "Resume": w.r.Resume(ctx, all), "Forget": w.r.Forget(ctx, "a"),
			"Approve": w.r.Approve(ctx, "1"), "Explain": explained, "Plan": planned, "Trigger": triggered,
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
		w.put(row{ID: "a", Want: 1})
		w.wantLog("update a=1") // it is not paused
	})
}

// Whoever is told that nothing was done must not see it done later.
func TestACallThatIsGivenUpIsNotMadeLater(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		slow := make(chan struct{})
		w.pause(reconciler.Selector[row]{Match: func(row) bool {
			<-slow // which keeps the reconciler from going on
			return false
		}}, time.Time{})
		w.target.log()
		w.put(row{ID: "a", Want: 1})
		w.pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.r.Pause(ctx, keys("a"), time.Time{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("paused: %v: nothing kept the reconciler from it", err)
		}
		close(slow)
		w.pass(time.Second)
		w.wantLog("update a=1")
	})
}

// A pause ends with the process. What is to become of an orphan may be known from a row alone that was not applied in the pause.
// A stop soon after changes that wait for the rate has the deletes of their rows held, too.
func TestThatChangesWaitForTheRateIsRememberedAtOnce(t *testing.T) {
	for _, after := range []time.Duration{20 * time.Millisecond, 500 * time.Millisecond, 990 * time.Millisecond, 2 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			m := &heldMemory{}
			prepared(t, func(w *world) { w.params = func(p *reconciler.Params[row]) { p.Memory = m } }, func(_ *testing.T, w *world) {
				w.put(numbered(5, 1)...)
				w.pass(time.Hour)
				w.check(w.r.SetLimits(reconciler.Limits{Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)}))
				w.put(numbered(5, 2)...)
				w.pass(after)
				w.stop()
				w.target.log()
				w.delete(idsOf(3, 5)...)
				w.start()
				w.pass(time.Hour)
				w.wantHeld(idsOf(3, 5)...)
				w.equal("deleted", []string(nil), w.deleted())
			})
		})
	}
}

func TestDeletesAreHeldAfterARestartInAPause(t *testing.T) {
	resume := func(w *world) { w.resume(reconciler.Selector[row]{}) }
	forget := func(w *world) {
		w.check(w.r.Forget(w.t.Context(), "10001"))
		w.check(w.r.Forget(w.t.Context(), "10002"))
	}
	rateLimited := func(w *world) { // nothing is paused, and the change of a row has used up the rate
		w.put(numbered(3, 1)...)
		w.pass(time.Second)
		resume(w)
		w.check(w.r.SetLimits(reconciler.Limits{Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)}))
		w.put(numbered(3, 2)...)
		w.pass(time.Second)
	}
	for name, c := range map[string]struct {
		change     func(w *world)
		remembered bool
		held       []string // after the restart
	}{
		"all paused": {func(*world) {}, true, idsOf(1, 3)},
		"one": {func(w *world) {
			resume(w)
			w.put(numbered(3, 2)...)
			w.pause(keys("10001"), time.Time{})
			w.delete(idsOf(1, 3)...)
		}, true, idsOf(1, 2)},
		"only changes paused, and rows gone while nobody looked": {func(w *world) {
			w.put(numbered(3, 2)...)
			w.pass(time.Second)
			w.stop()
			w.delete(idsOf(1, 3)...)
		}, true, idsOf(1, 3)},
		"there again": {func(w *world) { w.put(numbered(3, 2)...) }, true, nil},
		"there again, and resumed": {func(w *world) {
			w.put(numbered(3, 2)...)
			w.pass(time.Second)
			resume(w)
		}, false, nil},
		"resumed":                {resume, false, nil},
		"forgotten":              {forget, true, idsOf(1, 3)},
		"forgotten, and resumed": {func(w *world) { forget(w); resume(w) }, false, nil},
		"waiting for the limit of the rate": {func(w *world) {
			rateLimited(w)
			w.pause(keys("10001"), time.Time{})
			w.delete("10001")
			w.pass(2 * time.Minute)
		}, true, idsOf(1, 2)},
		"waiting for the limit of the rate, and paused then": {func(w *world) {
			rateLimited(w)
			w.delete("10001")
			w.pass(2 * time.Minute)
			w.pause(keys("10001"), time.Time{})
		}, true, idsOf(1, 2)},
		"waiting for the limit of the rate, and resumed": {func(w *world) {
			rateLimited(w)
			w.pause(keys("10001"), time.Time{})
			w.delete("10001")
			w.pass(2 * time.Minute)
			w.resume(keys("10001"))
		}, true, idsOf(1, 2)},
		"resumed, and waiting for the limit of the rate then": {func(w *world) {
			w.check(w.r.SetLimits(reconciler.Limits{Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)}))
			resume(w) // one of them takes what there is
		}, true, idsOf(2, 3)},
		"not paused at all, but waiting for the limit of the rate": {func(w *world) {
			rateLimited(w)
			w.delete("10001")
			w.pass(2 * time.Minute)
		}, true, idsOf(1, 2)},
		"not read yet": {func(w *world) {
			resume(w)
			w.put(numbered(3, 1)...)
			w.pass(time.Second)
			w.check(w.r.SetLimits(reconciler.Limits{RoundSize: 1, Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)}))
			for want := range 3 { // more changes wait than are read ahead
				w.put(row{ID: "10000", Want: want + 2}, row{ID: "10002", Want: want + 2})
				w.pass(time.Second)
			}
			w.pause(keys("10001"), time.Time{})
			w.pass(time.Second)
			w.delete("10001")
		}, true, idsOf(1, 2)},
		"none of them, and others may come": {func(w *world) {
			resume(w)
			none := reconciler.Selector[row]{Match: func(row) bool { return false }}
			w.pause(none, time.Time{})
		}, true, nil},
		"over": {func(w *world) {
			resume(w)
			w.pause(keys("x"), time.Now().Add(time.Millisecond))
		}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := &heldMemory{}
			prepared(t, func(w *world) { w.params = func(p *reconciler.Params[row]) { p.Memory = m } }, func(_ *testing.T, w *world) {
				w.put(numbered(3, 1)...)
				w.pass(time.Second)
				w.pause(reconciler.Selector[row]{}, time.Time{})
				w.delete(idsOf(1, 3)...)
				w.pass(time.Second)
				c.change(w)
				w.pass(time.Second)
				w.equal("remembered", c.remembered, m.held != nil)
				w.stop()
				w.target.log()
				w.start()
				w.pass(time.Hour)
				w.wantHeld(c.held...)
				if c.held != nil {
					w.equal("deleted", []string(nil), w.deleted())
					w.approve()
				}
				w.wantConverged()
				w.equal("remembered", (*reconciler.HeldDeletes)(nil), m.held)
			})
		})
	}
}
