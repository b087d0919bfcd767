package reconciler_test

import (
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// debounced is a world whose rows have to stay as they are for 50 ms, though not
// longer than most if that is not 0.
func debounced(most time.Duration) func(*world) {
	return func(w *world) { w.config.Debounce, w.config.MaxDebounce = 50*ms, most }
}

func TestChangedRowRunsWhenItHasStayedAsItIs(t *testing.T) {
	prepared(t, debounced(0), func(_ *testing.T, w *world) {
		w.target.log()
		for want := range 4 {
			w.put(row{ID: "a", Want: want})
			w.pass(49 * ms)
		}
		w.wantLog()
		w.pass(ms)
		w.wantLog("update a=3")
		w.delete("a")
		w.pass(49 * ms)
		w.wantLog()
		w.pass(ms)
		w.wantLog("delete a")
		w.wantConverged()
	})
}

func TestRowThatChangesAllTheTimeRunsWithinTheBound(t *testing.T) {
	for name, bound := range map[string]struct{ most, want time.Duration }{
		"default": {0, 500 * ms}, "200ms": {200 * ms, 200 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			prepared(t, debounced(bound.most), func(t *testing.T, w *world) {
				w.target.took()
				began := time.Now()
				for want := range 300 { // every 10 ms
					w.put(row{ID: "a", Want: want})
					w.pass(10 * ms)
				}
				calls := w.target.took()
				for i, c := range calls {
					first := began // the first change that it covers
					if i > 0 {
						first = began.Add(time.Duration(calls[i-1].want+1) * 10 * ms)
					}
					if waited := c.at.Sub(first); waited > bound.want || waited < bound.want-20*ms {
						t.Errorf("operation %d, %v, has waited %v, want %v", i, c, waited, bound.want)
					}
				}
				if most := int(3*time.Second/bound.want) + 1; len(calls) > most || len(calls) < most-2 {
					t.Errorf("%d operations in 3s, want up to %d", len(calls), most)
				}
				w.pass(time.Second)
				w.wantConverged()
			})
		})
	}
}

func TestOnlyChangesAreDebounced(t *testing.T) {
	prepared(t, debounced(0), func(t *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.pass(50 * ms)
		w.target.log()
		_, err := w.r.Trigger(t.Context(), keys("a"))
		w.check(err)
		synctest.Wait()
		w.wantLog("update a=1")
		w.fullPass()
		w.wantLog("update a=1", "update b=1", "observe")
	})
}
