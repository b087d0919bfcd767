package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// interleaving is how three reconcilers of a row meet: the times that their
// operations take, who of them fails, and when the row changes.
type interleaving struct {
	takes   [3]time.Duration
	failing int
	change  time.Duration // 0: it does not
}

func (in interleaving) String() string {
	return fmt.Sprintf("%v, %d fails, changed after %v", in.takes, in.failing, in.change)
}

// interleavings are all orders of the ends of operations and of status writes,
// with changes before, between and after them, also during the retries.
func interleavings() (all []interleaving) {
	orders := [][3]int{
		{10, 10, 10}, {10, 20, 30}, {10, 30, 20}, {20, 10, 30}, {20, 30, 10}, {30, 10, 20}, {30, 20, 10},
	}
	for _, order := range orders {
		for failing := range 3 {
			for _, change := range []int{0, 5, 10, 15, 20, 25, 30, 45, 120, 130, 150} {
				in := interleaving{failing: failing, change: time.Duration(change) * ms}
				for i, take := range order {
					in.takes[i] = time.Duration(take) * ms
				}
				all = append(all, in)
			}
		}
	}
	return all
}

// act is what an operation of one of the reconcilers does: the failing one fails
// the first two on each spec.
func (in interleaving) act(who int) behavior {
	tries := map[int]int{}
	return func(_ context.Context, c call) (reconciler.Result, error) {
		if c.op == "update" {
			take(in.takes[who])
			if tries[c.want]++; who == in.failing && tries[c.want] <= 2 {
				return reconciler.Result{}, errBoom
			}
		}
		return reconciler.Result{}, nil
	}
}

func TestNoInterleavingOfStatusWritesLosesARetryOrRepeatsWork(t *testing.T) {
	for _, in := range interleavings() {
		synctest.Test(t, func(t *testing.T) {
			first := newWorld(t)
			worlds := []*world{first, first.another("other", otherField), first.another("third", thirdField)}
			for i, w := range worlds {
				w.seed = uint64(i + 1)
				w.start()
				w.target.will(in.act(i))
				w.target.took()
			}
			first.write(row{ID: "a", Want: 1})
			if in.change > 0 {
				take(in.change)
				first.write(row{ID: "a", Want: 2})
			}
			first.pass(2 * time.Second)
			for i, w := range worlds {
				in.check(w, i, w.target.took())
				w.wantConverged()
				w.stop()
			}
			if t.Failed() {
				t.Fatal(in)
			}
		})
	}
}

// check checks that the operations of a reconciler are those that the row needs.
func (in interleaving) check(w *world, who int, calls []call) {
	w.t.Helper()
	last := 1
	if in.change > 0 {
		last = 2
	}
	want := 1
	if who == in.failing {
		want = 3
	}
	on := 0
	for _, c := range calls {
		if c.want == last {
			on++
		}
	}
	w.equal("operations on the last spec", want, on)
	if before := len(calls) - on; before > want || before < last-1 {
		w.t.Errorf("%d operations on the spec before", before)
	}
	for i := 1; i < len(calls); i++ {
		if calls[i-1].want != last { // the new spec waits for nothing but the operation under way
			free := max(in.change, calls[i-1].at.Sub(calls[0].at)+in.takes[who])
			if waited := calls[i].at.Sub(calls[0].at) - free; calls[i].want == last && waited > 15*ms {
				w.t.Errorf("the new spec has waited for %v", waited)
			}
			continue
		}
		backoff := 100 * ms << (i - (len(calls) - on) - 1)
		if gap := calls[i].at.Sub(calls[i-1].at) - in.takes[who]; gap < backoff*8/10 || gap > backoff*12/10+2*ms {
			w.t.Errorf("retry %d after %v, want %v", i, gap, backoff)
		}
	}
}

func TestThreeReconcilersWithAFailingOneSettleManyRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newWorld(t)
		worlds := []*world{first, first.another("other", otherField), first.another("third", thirdField)}
		for i, w := range worlds {
			w.config.Workers = 1 + 3*i
			w.start()
		}
		worlds[1].target.will(failing("10003", "10050"))
		worlds[2].target.will(taking(ms))
		for want := range 5 {
			first.put(numbered(100, want)...)
			first.pass(30 * ms)
		}
		worlds[1].target.will(nil)
		first.pass(time.Minute)
		for _, w := range worlds {
			w.wantConverged()
			if n := len(w.target.took()); n > 5*100+40 {
				t.Errorf("%d operations of %q", n, w.name)
			}
			w.stop()
		}
	})
}
