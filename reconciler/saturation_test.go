package reconciler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// lateness returns by how much the operations on rows whose ids begin with "bad"
// came later than a time after the end of the one before.
func lateness(calls []call, took, backoff time.Duration) (late []time.Duration) {
	last := map[string]time.Time{}
	for _, c := range calls {
		if !strings.HasPrefix(c.id, "bad") {
			continue
		}
		if before, known := last[c.id]; known {
			late = append(late, c.at.Sub(before)-took-backoff)
		}
		last[c.id] = c.at
	}
	return late
}

// TestRetriesAreOnTimeWhileChangesSaturate has ten times the changes that can be
// applied, and rows that fail all the time.
func TestRetriesAreOnTimeWhileChangesSaturate(t *testing.T) {
	const backoff, took = 10 * ms, ms
	for _, test := range []struct {
		workers, bad int
		full         bool
	}{{1, 1, false}, {1, 1, true}, {1, 2, false}, {4, 5, true}, {16, 20, false}} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			prepared(t, func(w *world) { w.config.Workers = test.workers }, func(t *testing.T, w *world) {
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					take(took)
					if strings.HasPrefix(c.id, "bad") {
						return reconciler.Result{}, reconciler.RetryAfter(backoff, errBoom)
					}
					return reconciler.Result{}, nil
				})
				for i := range test.bad {
					w.put(row{ID: fmt.Sprint("bad", i), Want: 1})
				}
				w.pass(time.Second)
				w.target.took()
				for want := range 200 { // 2 seconds
					if test.full && want%10 == 0 {
						w.r.FullPass()
					}
					w.write(numbered(100*test.workers, 10+want)...)
					w.pass(10 * ms)
				}
				calls := w.target.took()
				late := lateness(calls, took, backoff)
				most := time.Duration(0)
				for _, d := range late {
					most = max(most, d)
				}
				if most > 2*backoff || len(late) < test.bad*30 {
					t.Errorf("%d retries among %d operations, up to %v late, want up to %v", len(late), len(calls), most, 2*backoff)
				}
				t.Logf("%d retries among %d operations, up to %v late", len(late), len(calls), most)
				w.target.will(nil)
				w.pass(time.Minute)
				w.wantConverged()
			})
		})
	}
}

func TestHealthIsNotGreenWhileRetriesArePending(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(failing("a", "b"))
		w.put(row{ID: "a"}, row{ID: "b"})
		w.pass(10 * time.Second)
		w.target.will(failing("b"))
		seen := len(w.health.since(0))
		w.pass(time.Minute) // a is done; b waits for its backoff most of the time
		w.put(row{ID: "c"}) // and others succeed
		w.fullPass()
		w.pass(time.Minute)
		for _, report := range w.health.since(seen) {
			if !strings.HasPrefix(report, "degraded") {
				t.Errorf("%s, while b fails", report)
			}
		}
		w.target.will(nil)
		w.pass(2 * time.Minute)
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

// TestChangeDuringAFullPassOfManyRowsIsAppliedSoon has operations of 50 µs; the full
// pass takes some seconds.
func TestChangeDuringAFullPassOfManyRowsIsAppliedSoon(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.write(numbered(manyRows, 1)...)
		w.pass(time.Second)
		w.target.will(taking(50 * time.Microsecond))
		w.target.took()
		full := w.metrics().full
		w.r.FullPass()
		w.pass(100 * ms)
		applied := map[string]time.Time{}
		written := map[string]time.Time{}
		for i := range 30 {
			id := fmt.Sprint(10_000 + (i*7919)%manyRows)
			written[id] = time.Now()
			w.write(row{ID: id, Want: 2})
			w.pass(11*ms + time.Duration(i)*137*time.Microsecond)
		}
		w.equal("full passes that are over", full, w.metrics().full)
		for _, c := range w.target.took() {
			if c.want == 2 && applied[c.id].IsZero() {
				applied[c.id] = c.at
			}
		}
		for id, at := range written {
			if waited := applied[id].Sub(at); applied[id].IsZero() || waited > 10*ms {
				t.Errorf("the change of %s has waited for %v", id, waited)
			}
		}
		w.target.will(nil)
		w.pass(time.Minute)
		w.wantConverged()
	})
}

func TestIncrementalPassTouchesChangedRowsOnly(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(numbered(1000, 1)...)
		before := w.metrics()
		w.target.log()
		w.put(row{ID: "10003", Want: 2}, row{ID: "10700", Want: 2})
		w.delete("10999")
		w.pass(time.Hour)
		w.wantLog("update 10003=2", "update 10700=2", "delete 10999")
		w.equal("incremental", before.incremental+3, w.metrics().incremental)
		w.fullPass()
		w.equal("operations of a full pass", 999+1, len(w.target.took())) // and one Observe
		w.equal("incremental", before.incremental+3, w.metrics().incremental)
		w.equal("full passes", before.full+1, w.metrics().full)
	})
}
