package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/statehive/statehive/reconciler"
)

// within returns how many operations there are within a time from now on.
func (w *world) within(d time.Duration) int {
	w.target.took()
	w.pass(d)
	return len(w.target.took())
}

func TestRateLimitIsTunedWhileRunning(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 4 }, func(_ *testing.T, w *world) {
		limit := func(limiter *rate.Limiter) { w.check(w.r.SetLimits(reconciler.Limits{Limiter: limiter})) }
		limiter := rate.NewLimiter(10, 1)
		limit(limiter)
		w.put(numbered(1000, 1)...)
		w.pass(time.Second) // what was let through at once
		w.equal("operations in 10s at 10/s", 100, w.within(10*time.Second))
		limit(rate.NewLimiter(50, 1))
		w.pass(time.Second)
		w.equal("operations in 5s at 50/s", 250, w.within(5*time.Second))
		limiter = rate.NewLimiter(0, 0) // nothing at all
		limit(limiter)
		w.pass(time.Second)
		w.equal("operations in a minute at 0/s", 0, w.within(time.Minute))
		limiter.SetBurst(1) // its own methods do too
		limiter.SetLimit(5)
		w.pass(2 * time.Second)
		w.equal("operations in 20s at 5/s", 100, w.within(20*time.Second))
		limit(nil)
		synctest.Wait()
		w.wantConverged() // at once
	})
}

func TestNilLimiterIsNoLimit(t *testing.T) {
	prepared(t, func(w *world) { w.config.Limits.Limiter = nil }, func(_ *testing.T, w *world) {
		w.put(numbered(5000, 1)...)
		w.wantConverged()
		w.check(w.r.SetLimits(reconciler.Limits{}))
		w.put(numbered(5000, 2)...)
		w.wantConverged()
	})
}

func TestRoundSizeIsTunedWhileRunning(t *testing.T) {
	// As many rows as a round has are taken from the feed; the operation on a row
	// that is still in the feed is on its newest spec.
	running(t, func(t *testing.T, w *world) {
		for _, size := range []int{1, 7, 100} {
			w.check(w.r.SetLimits(reconciler.Limits{RoundSize: size}))
			w.equal("size", size, w.r.Limits().RoundSize)
			began := make(chan struct{})
			w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
				if c.id == "10000" {
					<-began
				}
				return reconciler.Result{}, nil
			})
			w.put(numbered(300, size)...)
			w.equal("rows of the round", size, w.r.Round())
			close(began)
			w.pass(time.Second)
			w.wantConverged()
		}
		if err := w.r.SetLimits(reconciler.Limits{RoundSize: -1}); err == nil || w.r.Limits().RoundSize != 100 {
			t.Errorf("limits of %+v after %v", w.r.Limits(), err)
		}
	})
}

// Rows that wait are pending, which is nothing unusual; but not for long.
func TestHealthNamesRowsThatWaitForLong(t *testing.T) {
	prepared(t, func(*world) {}, func(_ *testing.T, w *world) {
		w.check(w.r.SetLimits(reconciler.Limits{Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)}))
		for _, id := range []string{"a", "b", "c"} {
			w.put(row{ID: id, Want: 2})
		}
		w.pass(50 * time.Second)
		w.equal("health", "ok: reconciled", w.health.last())
		w.pass(25 * time.Second)
		w.equal("health", "degraded: rows have waited for more than a minute: 2 rows, the first is: the update of b waits for its turn", w.health.last())
		w.check(w.r.SetLimits(reconciler.Limits{}))
		w.pass(15 * time.Second)
		w.equal("health", "ok: reconciled", w.health.last())
	})
}
